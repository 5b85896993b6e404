"""Each provider's rules: what is accepted, and every rule seen to refuse something."""

from __future__ import annotations

import math

import pytest

from holdfast.errors import UsageError
from holdfast.replay import PROVIDERS, validate


def text(value):
    return {"type": "text", "text": value}


def user(content="hi"):
    return {"role": "user", "content": content}


def assistant(content="hello", **more):
    return {"role": "assistant", "content": content, **more}


def use(identity="a", name="Read", given=None, **more):
    return {"type": "tool_use", "id": identity, "name": name, "input": given or {}, **more}


def answer(identity="a", content="ok", **more):
    return {"type": "tool_result", "tool_use_id": identity, "content": content, **more}


PNG = {"type": "base64", "media_type": "image/png", "data": "aGk="}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "aGk="}
PLAIN = {"type": "text", "media_type": "text/plain", "data": "x"}
MARK = {"cache_control": {"type": "ephemeral"}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
SEARCH = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}

ANTHROPIC_GOOD = [
    [],
    [user()],
    [user([text("hi")]), assistant([text("x")])],
    [user(), assistant([text("x"), use("a"), use("b")]), user([answer("b"), answer("a"), text("y")])],
    [user([{"type": "image", "source": PNG}, {"type": "document", "source": PDF}])],
    [user([{"type": "image", "source": {"type": "url", "url": "https://u"}}])],
    [user([{"type": "document", "source": PLAIN, "title": "t", "context": "c"}])],
    [user([{"type": "document", "source": {"type": "file", "file_id": "f"}}])],
    [user([{**text("x"), **MARK}]), assistant([{**text("x"), "citations": []}])],
    [user([{**text("x"), "cache_control": None}])],
    [user(), assistant([THOUGHT, {"type": "redacted_thinking", "data": "d"}, text("x")])],
    [user(), assistant([SEARCH, FOUND, text("x")])],
    [user(), assistant([SEARCH, FOUND])],
    [user(), assistant([text("x"), SEARCH])],
    [user(), assistant([SEARCH, FOUND, {**SEARCH, "id": "s2"}, {**SEARCH, "id": "s3"}])],
    [user(), assistant([use()]), user([answer(content=[text("x"), {"type": "image", "source": PNG}])])],
    [user(), assistant([use()]), user([answer(is_error=True)])],
    [user(), assistant([use(given={"a": [1, 1.5, None, True, {"b": "c"}]})]), user([answer()])],
]
ANTHROPIC_BAD = [
    [assistant()],
    [user(), user()],
    [user(), assistant(), assistant()],
    [user("")],
    [user(" \n")],
    [user(None)],
    [user([])],
    [user([text(" ")])],
    [user("a\0")],
    [user("\ud800")],
    ["text"],
    [None],
    [{"role": "user"}],
    [{**user(), "id": "x"}],
    [{"role": "system", "content": "x"}],
    [{"role": 5, "content": "x"}],
    [user(["x"])],
    [user([{"type": "poem"}])],
    [user([{"type": 5}])],
    [user([{**text("x"), "mood": "y"}])],
    [user([{**text("x"), "cache_control": {"type": "forever"}}])],
    [user([{**text("x"), **MARK}] * 5)],
    [user([THOUGHT])],
    [user([use()])],
    [user(), assistant([answer()])],
    [user(), assistant([use()])],
    [user(), assistant([use()]), user("x")],
    [user(), assistant([use()]), user([text("x"), answer()])],
    [user(), assistant([use()]), user([answer(), answer()])],
    [user(), assistant([use()]), user([answer("b")])],
    [user(), assistant([use(), use()]), user([answer()])],
    [user(), assistant([use(), use("b")]), user([answer()])],
    [user(), assistant([use()]), user([answer()]), assistant([use()]), user([answer()])],
    [user([answer()])],
    [user(), assistant([use(), text("x")]), user([answer()])],
    [user(), assistant([use("a b")]), user([answer("a b")])],
    [user(), assistant([use("x" * 65)]), user([answer("x" * 65)])],
    [user(), assistant([use(5)]), user([answer(5)])],
    [user(), assistant([use(name="a.b")]), user([answer()])],
    [user(), assistant([use(name="")]), user([answer()])],
    [user(), assistant([use(name=5)]), user([answer()])],
    [user(), assistant([{**use(), "input": []}]), user([answer()])],
    [user(), assistant([use(given={"a": math.nan})]), user([answer()])],
    [user(), assistant([use(given={5: "a"})]), user([answer()])],
    [user(), assistant([use(given={"a\0": "a"})]), user([answer()])],
    [user(), assistant([use(given={"a": (1,)})]), user([answer()])],
    [user(), assistant([use(given={"a": 10**5000})]), user([answer()])],
    [user(), assistant([use()]), user([answer(content="")])],
    [user(), assistant([use()]), user([answer(content=[])])],
    [user(), assistant([use()]), user([answer(content=[use()])])],
    [user(), assistant([use()]), user([answer(is_error="yes")])],
    [user(), assistant([THOUGHT])],
    [user(), assistant([{"type": "thinking", "signature": "s"}, text("x")])],
    [user(), assistant([{"type": "thinking", "thinking": "\0", "signature": "s"}, text("x")])],
    [user(), assistant([{"type": "redacted_thinking"}, text("x")])],
    [user(), assistant([SEARCH, text("x")])],
    [user(), assistant([SEARCH]), user()],
    [user(), assistant([SEARCH]), assistant([FOUND])],
    [user(), assistant([use()]), assistant("x")],
    [user(), assistant([SEARCH, {**SEARCH, "id": "s2"}, {**FOUND, "tool_use_id": "s2"}])],
    [user(), assistant([FOUND, text("x")])],
    [user(), assistant([{"type": "server_tool_use"}, text("x")])],
    [user([{"type": "image"}])],
    [user([{"type": "image", "source": {**PNG, "media_type": "image/tiff"}}])],
    [user([{"type": "image", "source": {"type": "url"}}])],
    [user([{"type": "image", "source": {"type": "url", "url": 5}}])],
    [user([{"type": "image", "source": {"type": 5}}])],
    [user([{"type": "document", "source": PNG}])],
    [user([{"type": "document", "source": PDF, "title": ""}])],
    [user([{"type": "document", "source": PDF, "citations": {5: 5}}])],
    [user([{**text("x"), "citations": math.inf}])],
]
# What only the neutral form takes.
NEUTRAL_GOOD = [
    [user(), assistant([{"type": "thinking", "thinking": "hm"}, text("x")])],
    [user(), assistant([REASONING, {**text("x"), "thought_signature": "c2ln"}])],
]
NEUTRAL_BAD = [
    [user(), assistant([REASONING])],
    [user(), assistant([{"type": "reasoning", "summary": 5}, text("x")])],
    [user(), assistant([{**text("x"), "thought_signature": ""}])],
    [user(), assistant([{**THOUGHT, "signature": ""}, text("x")])],
]


def tool_calls(*ids, **changes):
    function = {"name": "Read", "arguments": "{}"}
    return [{"id": i, "type": "function", "function": {**function, **changes}} for i in ids]


def calls(*ids, content=None, **changes):
    return assistant(content, tool_calls=tool_calls(*ids, **changes))


def told(identity="a", content="ok", **more):
    return {"role": "tool", "tool_call_id": identity, "content": content, **more}


SYSTEM = {"role": "system", "content": "be kind"}
IMAGE_PART = {"type": "image_url", "image_url": {"url": "https://u", "detail": "low"}}

OPENAI_GOOD = [
    [],
    [SYSTEM],
    [SYSTEM, {"role": "developer", "content": [text("x")]}, user(), SYSTEM, assistant()],
    [{**user(), "name": "Ann"}, user([text("x"), IMAGE_PART])],
    [user([{"type": "file", "file": {"file_id": "f"}}])],
    [user([{"type": "input_audio", "input_audio": {"data": "x", "format": "wav"}}])],
    [user(), calls("a", "b"), told("b"), told("a", [text("x")]), user(), assistant()],
    [user(), calls("a", content="I look"), told()],
    [user(), calls("a", content=""), told(), assistant(), assistant()],
    [user(), assistant(None, refusal="no")],
    [user(), assistant([text("x"), {"type": "refusal", "refusal": "no"}], annotations=[])],
    [user(), assistant(None, audio={"id": "x"})],
    [user(), calls("functions.read:0"), told("functions.read:0")],
]
OPENAI_BAD = [
    [assistant()],
    [None],
    [{"role": "king", "content": "x"}],
    [{"role": ["user"], "content": "x"}],
    [{**user(), "mood": "x"}],
    [{**user(), "name": ""}],
    [user("")],
    [user([])],
    [user([{"type": "poem"}])],
    [user([5])],
    [user([{"type": "image_url", "image_url": {}}])],
    [user([{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}])],
    [user([{"type": "image_url", "image_url": {"url": "https://u", "size": 5}}])],
    [user([{"type": "image_url"}])],
    [user([{**text("x"), "mood": "y"}])],
    [user([{**IMAGE_PART, "mood": "y"}])],
    [{"role": "system", "content": ""}],
    [user(), assistant(None)],
    [user(), assistant("")],
    [user(), assistant(None, tool_calls=[])],
    [user(), assistant(None, tool_calls="x")],
    [user(), assistant(None, tool_calls=[5])],
    [user(), assistant(None, tool_calls=[{"id": "a", "type": "custom", "function": {}}])],
    [user(), assistant(None, tool_calls=[{**tool_calls("a")[0], "mood": 5}]), told()],
    [user(), calls("a", mood=5), told()],
    [user(), calls("a", arguments="x"), told()],
    [user(), calls("a", arguments="[1]"), told()],
    [user(), calls("a", arguments='{"a": NaN}'), told()],
    [user(), calls("a", arguments='{"a": "\\ud800"}'), told()],
    [user(), calls("a", arguments=""), told()],
    [user(), calls("a", arguments="[" * 100_000), told()],
    [user(), calls("a", arguments={}), told()],
    [user(), calls("a", name="a.b"), told()],
    [user(), calls("x" * 41), told("x" * 41)],
    [user(), calls("a b"), told("a b")],
    [user(), calls("a")],
    [user(), calls("a"), user(), told()],
    [user(), calls("a"), SYSTEM, told()],
    [user(), calls("a"), told(), told()],
    [user(), calls("a", "a"), told(), told()],
    [user(), told()],
    [user(), calls("a"), told(content="")],
    [user(), calls("a"), told(content=[IMAGE_PART])],
    [user(), calls("a"), told(), calls("a"), told()],
    [user(), assistant("x", annotations=math.nan)],
    [user(), assistant("x", refusal="\0")],
]

# Anthropic fetches from addresses with encryption only; the neutral form keeps any.
UNREACHED = [
    [user([{"type": "image", "source": {"type": "url", "url": "http://u"}}])],
    [user([{"type": "document", "source": {"type": "url", "url": "file:///etc/passwd"}}])],
    [user([{"type": "image", "source": {"type": "url", "url": "https://"}}])],
]
NINE = "abcDEF123"
MISTRAL_GOOD = [
    [],
    [SYSTEM, user(), assistant()],
    [user([text("x"), {"type": "image_url", "image_url": "https://u"}])],
    [user(), assistant("I look"), calls(NINE), told(NINE, name="Read"), assistant(), user()],
    [user(), assistant("so", prefix=True)],
]
MISTRAL_BAD = [
    [assistant()],
    [user(), SYSTEM],
    [user(), assistant(), SYSTEM],
    [{"role": "developer", "content": "x"}],
    [{**user(), "name": "Ann"}],
    [user(), calls("a"), told()],
    [user(), calls(NINE, content="both"), told(NINE)],
    [user(), assistant(None)],
    [user(), assistant(None, tool_calls=[])],
    [user(), assistant("x", prefix=True), user()],
    [user(), assistant("x", prefix="yes")],
    [user(), {**calls(NINE), "prefix": True}, told(NINE)],
    [user(), calls(NINE), told(NINE, name="a.b")],
    [user(), calls(NINE), told(NINE, name=5)],
    [user([{"type": "file", "file": {"file_id": "f"}}])],
    [user(), assistant([IMAGE_PART])],
    [user(), calls(NINE)],
    [user(), calls(NINE), told(NINE), user()],
    [user([{"type": "image_url", "image_url": "file:///etc/passwd"}])],
]


def function_call(identity="a", **changes):
    made = {"type": "function_call", "call_id": identity, "name": "Read", "arguments": "{}"}
    return {**made, **changes}


def output(identity="a", value="ok", **more):
    return {"type": "function_call_output", "call_id": identity, "output": value, **more}


RESPONSES_GOOD = [
    [],
    [SYSTEM, user(), assistant()],
    [user([{"type": "input_text", "text": "x"}, {"type": "input_image", "image_url": "https://u"}])],
    [user([{"type": "input_file", "file_id": "f", "filename": "n"}])],
    [user(), {"type": "message", "id": "msg_1", "status": "completed", **assistant()}],
    [user(), assistant([{"type": "output_text", "text": "x", "annotations": []}])],
    [user(), assistant([{"type": "refusal", "refusal": "no"}])],
    [user(), REASONING, function_call("a"), function_call("b"), output("b"), output("a"), user()],
    [user(), REASONING, assistant()],
    [user(), function_call(id="fc_1"), output("a", [{"type": "input_text", "text": "x"}])],
    [user(), function_call(), output(), function_call("b"), output("b")],
]
RESPONSES_BAD = [
    [None],
    [{"type": "poem"}],
    [{"type": 5}],
    [assistant()],
    [function_call(), output()],
    [REASONING, assistant()],
    [user("")],
    [user([])],
    [user([text("x")])],
    [user([{"type": "input_text", "text": ""}])],
    [user([{"type": "input_text", "text": "x", "mood": 1}])],
    [user([{"type": "input_text", "text": "x", "annotations": math.nan}])],
    [user([{"type": "input_image"}])],
    [user([{"type": "input_image", "image_url": "file:///etc/passwd"}])],
    [user([{"type": "input_file", "file_url": "ftp://x/y"}])],
    [user([{"type": "input_image", "image_url": "https://u", "mood": 1}])],
    [user([7])],
    [{"role": "king", "content": "x"}],
    [{**user(), "mood": 1}],
    [{**user(), "phase": math.nan}],
    [{**user(), "id": "fc_1"}],
    [{**user(), "id": 5}],
    [{**user(), "status": "incomplete"}],
    [user(), REASONING],
    [user(), REASONING, user()],
    [user(), REASONING, output()],
    [user(), {"type": "reasoning", "id": "rs_1"}, assistant()],
    [user(), {"type": "reasoning", "summary": []}, assistant()],
    [user(), {**REASONING, "mood": 5}, assistant()],
    [user(), function_call(), REASONING, output(), assistant()],
    [user(), function_call()],
    [user(), function_call(), user(), output()],
    [user(), function_call(), function_call("b"), output(), function_call("c"), output("c")],
    [user(), output()],
    [user(), function_call(), output(), output()],
    [user(), function_call(arguments="x"), output()],
    [user(), function_call(name="a.b"), output()],
    [user(), function_call(mood=5), output()],
    [user(), function_call(), output(mood=5)],
    [user(), function_call(), output("a", "")],
    [user(), function_call("x" * 65), output("x" * 65)],
]


def content(role, *parts):
    return {"role": role, "parts": list(parts)}


def fcall(identity="a", **changes):
    return {"functionCall": {"id": identity, "name": "read", "args": {}, **changes}}


def fanswer(identity="a", **changes):
    return {"functionResponse": {"id": identity, "name": "read", "response": {"o": 1}, **changes}}


ASK = content("user", {"text": "hi"})
TELL = content("model", {"text": "hello"})
BLOB = {"mimeType": "image/png", "data": "aGk="}

GEMINI_GOOD = [
    [],
    [ASK, TELL],
    [ASK, content("model", {"text": "I look"}, fcall()), content("user", fanswer(), {"text": "x"})],
    [ASK, content("model", fcall("a"), fcall("b")), content("user", fanswer("b"), fanswer("a"))],
    [content("user", {"inlineData": BLOB}, {"fileData": {"mimeType": "m", "fileUri": "https://u"}})],
    [content("user", {"inline_data": {"mime_type": "image/png", "data": "aGk="}})],
    [ASK, content("model", {"text": "hm", "thought": True, "thoughtSignature": "c2ln"})],
    [ASK, content("model", {"text": "", "thought_signature": "c2ln"})],
    [
        ASK,
        content("model", {"functionCall": {"name": "x", "args": {}}}),
        content("user", {"functionResponse": {"name": "x", "response": {"o": 1}}}),
    ],
    [ASK, content("model", {"functionCall": {"name": "x"}}), content("user", fanswer(None, name="x"))],
]
GEMINI_BAD = [
    [None],
    [{"role": "user"}],
    [{"parts": [{"text": "x"}]}],
    [TELL],
    [ASK, ASK],
    [content("king", {"text": "x"})],
    [content("user")],
    [{"role": "user", "parts": "x"}],
    [content("user", 5)],
    [content("user", {})],
    [content("user", {"text": "x", "inlineData": BLOB})],
    [content("user", {"text": ""})],
    [content("user", {"text": "x", "mood": 1})],
    [content("user", {"text": "x", "thoughtSignature": ""})],
    [content("user", {"text": "x", "thought": "yes"})],
    [content("user", {"inlineData": 5})],
    [content("user", {"inlineData": {"data": "x"}})],
    [content("user", {"inlineData": {"mimeType": "m"}})],
    [content("user", {"fileData": {"mimeType": "m"}})],
    [ASK, content("model", fcall())],
    [ASK, content("model", fcall()), ASK],
    [ASK, content("model", fcall()), content("user", fanswer(), fanswer())],
    [ASK, content("model", fcall()), content("user", fanswer("b"))],
    [ASK, content("model", fcall()), content("user", fanswer(name="other"))],
    [content("user", fanswer())],
    [content("user", fcall())],
    [ASK, content("model", fanswer())],
    [ASK, content("model", fcall(name="1x")), content("user", fanswer(name="1x"))],
    [ASK, content("model", fcall(name=5)), content("user", fanswer())],
    [ASK, content("model", fcall("a b")), content("user", fanswer("a b"))],
    [ASK, content("model", fcall(args=5)), content("user", fanswer())],
    [ASK, content("model", fcall(mood=5)), content("user", fanswer())],
    [ASK, content("model", fcall()), content("user", fanswer(mood=5))],
    [ASK, content("model", fcall()), content("user", fanswer(response={}))],
    [ASK, content("model", fcall()), content("user", fanswer(response="x"))],
    [ASK, content("model", fcall(), fcall()), content("user", fanswer(), fanswer())],
]


def request(*parts):
    return {"kind": "request", "parts": list(parts)}


def response(*parts):
    return {"kind": "response", "parts": list(parts)}


def part(kind, value="x", **more):
    return {"part_kind": kind, "content": value, **more}


def pcall(identity="a", **changes):
    made = {"part_kind": "tool-call", "tool_name": "read", "args": {}, "tool_call_id": identity}
    return {**made, **changes}


def preturn(identity="a", value="ok", kind="tool-return"):
    return part(kind, value, tool_name="read", tool_call_id=identity)


PROMPT = request(part("user-prompt"))
PYDANTIC_GOOD = [
    [],
    [PROMPT, response(part("text"))],
    [request(part("system-prompt"), part("user-prompt", ["x", {"kind": "image-url", "url": "https://u"}]))],
    [request(part("user-prompt", [{"kind": "binary", "data": "x", "media_type": "m"}]))],
    [PROMPT, response(part("thinking"), pcall(), pcall("b")), request(preturn("b"), preturn("a"))],
    [PROMPT, response(pcall(args='{"a": 1}')), request(preturn("a", {"any": 1}), part("user-prompt"))],
    [PROMPT, response(pcall()), request(preturn(value=["x"])), response(part("text"))],
    [PROMPT, response(pcall()), request(preturn(kind="retry-prompt"))],
    [PROMPT, response(part("text")), request(part("retry-prompt"))],
]
PYDANTIC_BAD = [
    [None],
    [{"kind": "poem"}],
    [{"kind": "request"}],
    [request()],
    [response(part("text"))],
    [PROMPT, PROMPT],
    [request(part("system-prompt"))],
    [request(part("system-prompt", ""), part("user-prompt"))],
    [request(part("user-prompt", ""))],
    [request(part("user-prompt", []))],
    [request(part("user-prompt", [""]))],
    [request(part("user-prompt", [{"kind": "image-url"}]))],
    [request(part("user-prompt", [{"kind": "image-url", "url": "file:///etc/passwd"}]))],
    [request(part("user-prompt", [{"kind": "binary"}]))],
    [request(part("poem"))],
    [request(5)],
    [request(preturn())],
    [PROMPT, response(part("text", ""))],
    [PROMPT, response(part("thinking"))],
    [PROMPT, response(part("poem"))],
    [PROMPT, response(7)],
    [PROMPT, response(pcall())],
    [PROMPT, response(pcall()), PROMPT],
    [PROMPT, response(pcall()), request(part("user-prompt"), preturn())],
    [PROMPT, response(pcall()), request(preturn(), preturn())],
    [PROMPT, response(pcall()), request(preturn(value=""))],
    [PROMPT, response(pcall()), request(preturn(value=None))],
    [PROMPT, response(pcall()), request(preturn(value=[]))],
    [PROMPT, response(pcall(args=[])), request(preturn())],
    [PROMPT, response(pcall(args=None)), request(preturn())],
    [PROMPT, response(pcall(tool_name="n" * 65)), request(preturn())],
]

GOOD = {
    "anthropic": ANTHROPIC_GOOD,
    "neutral": ANTHROPIC_GOOD + NEUTRAL_GOOD,
    "openai": OPENAI_GOOD,
    "mistral": MISTRAL_GOOD,
    "openai-responses": RESPONSES_GOOD,
    "gemini": GEMINI_GOOD,
    "pydantic-ai": PYDANTIC_GOOD,
}
BAD = {
    "anthropic": [*ANTHROPIC_BAD + NEUTRAL_GOOD, *UNREACHED],
    "neutral": ANTHROPIC_BAD + NEUTRAL_BAD,
    "openai": OPENAI_BAD,
    "mistral": MISTRAL_BAD,
    "openai-responses": RESPONSES_BAD,
    "gemini": GEMINI_BAD,
    "pydantic-ai": PYDANTIC_BAD,
}


def cases(table):
    return [(provider, messages) for provider, lists in table.items() for messages in lists]


@pytest.mark.parametrize(("provider", "messages"), cases(GOOD))
@pytest.mark.req("S3-64")
def test_what_a_provider_takes_is_valid(provider, messages):
    """Lists that the provider's pages show are accepted, without an error."""
    assert validate(messages, provider).errors == []
    assert validate(messages, provider).valid is True


@pytest.mark.parametrize(("provider", "messages"), cases(BAD))
@pytest.mark.req("S3-64")
def test_what_a_provider_refuses_is_invalid(provider, messages):
    """Each rule refuses the list that breaks it, and names the place."""
    outcome = validate(messages, provider)
    assert outcome.valid is False
    assert all(error.startswith("messages[") for error in outcome.errors)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_is_no_list_is_invalid(provider):
    """Anything but a list is refused, without an exception."""
    for value in (None, (), "x", {}, object()):
        assert validate(value, provider).errors == ["the messages are not a list"]


def test_a_value_that_cannot_be_looked_at_is_invalid():
    """An object that raises when touched breaks the rules of its message."""

    class Hostile(dict):
        def keys(self):
            raise RuntimeError

        def get(self, *args):
            raise RuntimeError

    for provider in PROVIDERS:
        assert validate([Hostile(role="user")], provider).errors == ["messages[0]: unreadable"]


def test_deep_and_shared_values_are_refused():
    """Arguments nested more than 64 levels deep, or repeated without end, are refused."""
    deep = here = {}
    for _ in range(70):
        here["d"] = here = {}
    shared = ["ha"]
    for _ in range(60):
        shared = [shared, shared]
    for given in (deep, {"a": shared}):
        outcome = validate([user(), assistant([use(given=given)]), user([answer()])])
        assert outcome.errors == ["messages[1]: the input of a call is no JSON object"]


def test_checking_can_stop_at_the_first_error():
    """Who only wants to know whether a list is valid need not wait for all of its errors."""
    messages = [None] * 1_000
    assert len(validate(messages).errors) == 1_000
    assert len(validate(messages, errors_max=1).errors) == 1
    assert validate([user()], errors_max=1).valid is True


def test_an_unknown_provider_is_refused():
    """A misspelt provider is the caller's error."""
    with pytest.raises(UsageError, match="unknown provider"):
        validate([], "antropic")
    with pytest.raises(UsageError, match="unknown provider"):
        validate([], None)
