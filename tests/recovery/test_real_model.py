"""A recovered conversation before a real model: it is accepted, and its content arrives."""

from __future__ import annotations

import json
import urllib.request

import pytest

from holdfast.library import Holdfast

pytest.importorskip("xllamacpp", reason="the local extra is not installed")

from holdfast.agent._embedded_model import LocalServer, find_model_file
from holdfast.errors import UsageError

NAMES = ["Alma", "Boris", "Chiara", "Dmitri", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jorge"]
QUESTION = "What is my name? Answer with my name only."


@pytest.fixture(scope="module")
def server():
    """The embedded model on loopback; one thread, since two wait for each other when it is busy."""
    try:
        path = find_model_file()
    except UsageError as missing:
        pytest.skip(f"{missing} {missing.remedy}")
    return LocalServer(path, threads=1, context_tokens=1024)


def answer(server, messages):
    """The model's answer, held to one of the names."""
    body = {
        "messages": messages,
        "temperature": 0,
        "max_tokens": 20,
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"enum": NAMES}}},
    }
    request = urllib.request.Request(
        f"{server.url}/v1/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json", "authorization": f"Bearer {server.key}"},
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        content = json.load(reply)["choices"][0]["message"]["content"]
    return json.loads(content)


def break_off(hf, session_id, name):
    """A session that says a name and dies in the middle of parallel tool calls."""
    s = hf.session(session_id)
    s.assistant("Welcome back.")
    s.user(f"Hello, my name is {name}.")
    s.assistant(f"Nice to meet you, {name}.")
    done = s.tool_call("Lookup", {"name": name})
    s.tool_call("Lookup", {"name": "someone else"})
    s.tool_result(done, "found")
    s.tool_result("no-such-call", "orphan")
    s.close()


@pytest.mark.req("S3-42")
@pytest.mark.req("S3-50")
def test_the_history_of_a_broken_session_reaches_a_real_model(store_root, server):
    """After recovery the model names the user; without the history it cannot."""
    right = wrong = 0
    with Holdfast(store_root, timers=False) as hf:
        for number, name in enumerate((NAMES[6], NAMES[8], NAMES[3])):
            break_off(hf, f"s{number}", name)
            recovered = hf.recover(f"s{number}", provider="openai")
            assert recovered.issues
            question = {"role": "user", "content": QUESTION}
            right += answer(server, [*recovered.messages, question]) == name
            wrong += answer(server, [question]) == name
    assert right == 3
    assert wrong <= 1  # always naming the same one may hit once
