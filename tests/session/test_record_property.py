"""Whatever history a provider's library allows: recorded message by message, it comes back equal.

Histories are generated so that the provider's rules hold; its library's own types check that they
are its messages. They are compared after every message, from the bytes of the log as a killed
process would have left them there.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.session.histories import (
    block_history,
    chat_history,
    item_history,
    mistral_history,
    part_history,
    pydantic_history,
)

from holdfast.library import Holdfast
from holdfast.model import read_events
from holdfast.replay import Conversation, validate

pydantic = pytest.importorskip("pydantic")
chat = pytest.importorskip("openai.types.chat")
responses = pytest.importorskip("openai.types.responses")
anthropic = pytest.importorskip("anthropic.types")
gemini = pytest.importorskip("google.genai.types")

# --- the property


def adapter(kind):
    """What the library says of one of its messages: raises if it is none."""
    return pydantic.TypeAdapter(kind).validate_python


HISTORIES = {
    "openai": (chat_history, adapter(chat.ChatCompletionMessageParam)),
    "openai-responses": (item_history, adapter(responses.ResponseInputItemParam)),
    "anthropic": (block_history, adapter(anthropic.MessageParam)),
    "gemini": (part_history, gemini.Content.model_validate),
    "mistral": (mistral_history, dict),
    "pydantic-ai": (pydantic_history, dict),
}


def canonical(value):
    """A message without members that are None, as the libraries leave them out."""
    if isinstance(value, list):
        return [canonical(one) for one in value]
    if not isinstance(value, dict):
        return value
    free = {"args", "input", "response"}
    return {name: one if name in free else canonical(one) for name, one in value.items() if one is not None}


def without_end(told):
    """A history without reasoning that nothing follows.

    OpenAI refuses a reasoning item without the item it led to, and items are recorded one by one:
    it is handed out as soon as that item is there.
    """
    while told and told[-1].get("type") == "reasoning":
        told = told[:-1]
    return told


def read_back(data, provider):
    """The conversation in the bytes of a log."""
    conversation = Conversation(incomplete="keep")
    for event in read_events([data]):
        conversation.feed(event)
    return [canonical(message) for message in conversation.messages(provider)]


@pytest.fixture(scope="module")
def root():
    """A store for all examples; each has a session of its own."""
    where = tempfile.mkdtemp()
    yield Path(where)
    shutil.rmtree(where)


@pytest.mark.parametrize("provider", HISTORIES)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_history_comes_back_equal_after_every_message(root, provider, data):
    """Record each message: what messages() gives is the history, at once, reopened, or cut off."""
    strategy, check = HISTORIES[provider]
    told = data.draw(strategy())
    for message in told:
        check(message)
    assert validate(told, provider).errors == []
    expected = [canonical(message) for message in told]
    hf = Holdfast(root, timers=False)
    with hf.session(durability="os") as s:
        log = Path(hf.location(s.id)) / "events.jsonl"
        cuts = []
        for message in told:
            s.record(message)
            cuts.append(log.stat().st_size)
        assert [canonical(one) for one in s.messages(provider)] == without_end(expected)
        session_id = s.id
    with hf.session(session_id) as s:
        assert [canonical(one) for one in s.messages(provider)] == without_end(expected)
    recovered = hf.recover(session_id, provider)
    assert [canonical(one) for one in recovered.messages] == without_end(expected)
    whole = log.read_bytes()
    for count, cut in enumerate(cuts, 1):
        assert read_back(whole[:cut], provider) == without_end(expected[:count])
    hf.close()


RECORDER = """
import json, sys
from holdfast.library import Holdfast

root, told = sys.argv[1], json.loads(sys.argv[2])
s = Holdfast(root, timers=False).session("killed")
for message in told:
    s.record(message)
    print("recorded", flush=True)
    sys.stdin.readline()
"""
CALLED = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{ }"}}
KILLED = {
    "openai": [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "name": "ann", "content": "go"},
        {"role": "assistant", "name": "bot", "content": "I go.", "tool_calls": [CALLED]},
        {"role": "tool", "tool_call_id": "call_1", "content": "gone"},
    ],
    "anthropic": [
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
                {"type": "tool_use", "id": "toolu_2", "name": "f", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": "2"},
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "1"},
                {"type": "text", "text": "and?"},
            ],
        },
    ],
}


@pytest.mark.parametrize(("provider", "count"), [(name, n) for name in KILLED for n in range(1, len(KILLED[name]) + 1)])
def test_a_history_comes_back_after_kill_9_between_any_two_messages(store_root, provider, count):
    """What was recorded when the process died is what comes back, message by message."""
    told = KILLED[provider]
    with subprocess.Popen(
        [sys.executable, "-c", RECORDER, str(store_root), json.dumps(told)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        for number in range(count):
            if number:
                process.stdin.write("\n")
                process.stdin.flush()
            assert process.stdout.readline() == "recorded\n"
        process.kill()
    assert process.returncode == -signal.SIGKILL
    hf = Holdfast(store_root, timers=False)
    with hf.session("killed") as s:
        assert s.messages(provider, incomplete="keep") == told[:count]
        marked = s.messages(provider)
        assert marked[:count] == told[:count]
        assert validate(marked, provider).valid
    hf.close()
