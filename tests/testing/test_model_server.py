"""The scripted model: real clients take its answers, and broken conversations are refused."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest

from holdfast.testing.model_server import AskForTool, Fail, Say, ScriptedModel, Together

ASKS = {
    "anthropic": ("/v1/messages", lambda messages: {"messages": messages}),
    "openai": ("/v1/chat/completions", lambda messages: {"messages": messages}),
    "openai-responses": ("/v1/responses", lambda messages: {"input": messages}),
    "gemini": ("/v1beta/models/m:generateContent", lambda messages: {"contents": messages}),
}
HELLO = {
    "anthropic": [{"role": "user", "content": "hi"}],
    "openai": [{"role": "user", "content": "hi"}],
    "openai-responses": [{"role": "user", "content": "hi"}],
    "gemini": [{"role": "user", "parts": [{"text": "hi"}]}],
}
CUT_SHORT = {
    "anthropic": [
        *HELLO["anthropic"],
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "t", "input": {}}]},
        {"role": "user", "content": "and?"},
    ],
    "openai": [
        *HELLO["openai"],
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}],
        },
        {"role": "user", "content": "and?"},
    ],
    "openai-responses": [
        *HELLO["openai-responses"],
        {"type": "function_call", "call_id": "c", "name": "t", "arguments": "{}"},
        {"role": "user", "content": "and?"},
    ],
    "gemini": [
        *HELLO["gemini"],
        {"role": "model", "parts": [{"functionCall": {"name": "t", "args": {}}}]},
        {"role": "user", "parts": [{"text": "and?"}]},
    ],
}


def ask(model, path, body):
    """Send a request; the status and the body of the answer."""
    request = urllib.request.Request(model.url + path, json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize("provider", ASKS)
def test_each_provider_gets_an_answer_in_its_own_form(provider):
    """Text and calls are in the answer, and the request is kept as it came."""
    path, body = ASKS[provider]
    step = Together([AskForTool("Read", {"path": "a"}, id="c1")], text="Let me look.")
    with ScriptedModel([step]) as model:
        status, answer = ask(model, path, body(HELLO[provider]))
    assert status == 200
    for words in ("Let me look.", "Read", "c1"):
        assert words in answer
    assert model.requests[0].messages == HELLO[provider]
    assert model.requests[0].provider == provider


@pytest.mark.parametrize("provider", ASKS)
def test_a_conversation_that_breaks_a_rule_is_refused_with_400(provider):
    """A call without its result is what every provider refuses; the script does not move on."""
    path, body = ASKS[provider]
    with ScriptedModel([Say("fine")]) as model:
        status, answer = ask(model, path, body(CUT_SHORT[provider]))
        assert status == 400
        assert "error" in answer
        assert len(model.refused) == 1
        assert ask(model, path, body([]))[0] == 400
        assert "fine" in ask(model, path, body(HELLO[provider]))[1]


def test_a_lenient_model_answers_and_tells_what_is_wrong():
    """Not strict: the conversation is answered, and the request names the rules that it broke."""
    path, body = ASKS["openai"]
    with ScriptedModel([Say("fine")], strict=False) as model:
        assert "fine" in ask(model, path, body(CUT_SHORT["openai"]))[1]
    assert model.refused[0].refused


@pytest.mark.parametrize("provider", ASKS)
def test_answers_are_streamed_in_words(provider):
    """A streamed answer comes in pieces that together are the text and the calls."""
    path, body = ASKS[provider]
    if provider == "gemini":
        path = path.replace(":generate", ":streamGenerate") + "?alt=sse"
    step = Together([AskForTool("Read", {"path": "a"})], text="one two three")
    with ScriptedModel([step]) as model:
        status, answer = ask(model, path, body(HELLO[provider]) | {"stream": True})
    assert status == 200
    assert [part in answer for part in ('"one "', '"two "', '"three"', "Read")] == [True] * 4


def test_thinking_comes_with_a_signature():
    """Anthropic's thinking blocks can be scripted, whole and streamed."""
    path, body = ASKS["anthropic"]
    with ScriptedModel([Say("yes", thinking="hm")] * 2) as model:
        for extra in ({}, {"stream": True}):
            answer = ask(model, path, body(HELLO["anthropic"]) | extra)[1]
            assert "hm" in answer
            assert "signature" in answer


def test_a_script_can_fail_be_a_function_and_end():
    """Errors are sent as asked; a function sees the request; after the end the model says so."""
    path, body = ASKS["openai"]
    with ScriptedModel([Fail(503, "busy")]) as model:
        assert ask(model, path, body(HELLO["openai"]))[0] == 503
        assert "The script has ended." in ask(model, path, body(HELLO["openai"]))[1]
    with ScriptedModel(lambda request: Say(request.messages[-1]["content"] * 2)) as model:
        assert "hihi" in ask(model, path, body(HELLO["openai"]))[1]


def test_what_is_not_served_is_not_found():
    """Another path, or a body that is no JSON object, is a 404."""
    with ScriptedModel([]) as model:
        assert ask(model, "/nowhere", {})[0] == 404
        assert ask(model, "/v1/messages", [])[0] == 404
        path, body = ASKS["gemini"]
        assert "error" in ask(model, path, body([]))[1]
        assert ask(model, "/v1/responses", {"input": "hi"})[0] == 200
