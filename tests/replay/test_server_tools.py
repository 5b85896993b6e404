"""Tools that a provider runs itself, over the messages of one turn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model import Event
from holdfast.replay import Conversation, validate

SEARCH = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
SERVERS = st.sampled_from(["s1", "s2", "s3"])
CALLS = st.sampled_from(["c1", "c2", "c3", "c4", "c5"])
TEXT = {"type": "text", "text": "so"}


def use(identity, code=None):
    """A call of the model, or of the code that a server runs."""
    block = {"type": "tool_use", "id": identity, "name": "f", "input": {}}
    caller = {"type": "code_execution_20260120", "tool_id": code}
    return block | ({"caller": caller} if code else {})


def says(*blocks):
    """An assistant's message."""
    return {"role": "assistant", "content": list(blocks)}


def heard(*calls, words=()):
    """A user's message with results of calls, and perhaps words."""
    results = [{"type": "tool_result", "tool_use_id": one, "content": "1"} for one in calls]
    return {"role": "user", "content": [*results, *words]}


ASK = heard(words=[TEXT])
GOOD = [
    [says(SEARCH, use("a"))],
    [says(SEARCH, use("a")), heard("a")],
    [says(use("a"), SEARCH), heard("a"), says(FOUND, TEXT), ASK],
    [
        says(TEXT, SEARCH, use("a", "s")),
        heard("a"),
        says(use("b", "s"), use("c", "s")),
        heard("c", "b"),
        says(FOUND),
        ASK,
    ],
]
BAD = [
    [says(SEARCH, use("a")), heard("a", words=[TEXT])],
    [says(SEARCH, use("a")), heard("a"), {"role": "assistant", "content": "x"}],
    [says(SEARCH, use("a")), heard("a"), says(TEXT, use("b")), heard("b")],
    [says(use("a", "s")), heard("a")],
    [says(use("a", 1)), heard("a")],
    [says(SEARCH, FOUND, use("a", "s")), heard("a")],
    [says(SEARCH, use("a"), FOUND), heard("a")],
]


@pytest.mark.parametrize("provider", ["anthropic", "neutral"])
@pytest.mark.parametrize("told", GOOD)
def test_a_server_tool_may_wait_for_the_calls_beside_it(provider, told):
    """Its result, or more calls of its code, stand behind the results that it waits for."""
    complete = told if told[-1]["role"] == "user" else [*told, heard("a")]
    assert validate([ASK, *complete], provider).errors == []


@pytest.mark.parametrize("provider", ["anthropic", "neutral"])
@pytest.mark.parametrize("told", BAD)
def test_a_server_tool_that_never_ran_is_invalid(provider, told):
    """Words instead of its result, and calls of code that does not run, are refused."""
    assert not validate([ASK, *told], provider).valid


def test_a_call_of_code_that_was_retracted_is_the_models_own():
    """The message of a call names no code that is not in the list."""
    conversation = Conversation()
    first, second = says(SEARCH, use("a", "s")), says(use("b", "s"))
    log = [
        ("user", ASK),
        ("assistant", first | {"native": [first]}),
        ("tool_result", {"toolCallId": "a", "result": "1"}),
        ("assistant", second | {"native": [second]}),
        ("tool_result", {"toolCallId": "b", "result": "1"}),
    ]
    for seq, (type, content) in enumerate(log):
        conversation.feed(Event.make(type, content, seq=seq))
    assert conversation.messages("anthropic")[3] == second
    conversation.feed(Event.make("retracted", {"seqs": [1, 2]}, seq=5))
    assert conversation.messages("anthropic")[1] == says(use("b"))


BLOCKS = st.one_of(
    st.just(TEXT),
    st.builds(lambda one: {"type": "server_tool_use", "id": one, "name": "web_search", "input": {}}, SERVERS),
    st.builds(lambda one: {"type": "web_search_tool_result", "tool_use_id": one, "content": []}, SERVERS),
    st.builds(use, CALLS, st.none() | SERVERS),
    st.just({"type": "thinking", "thinking": "hm", "signature": "c2ln"}),
)
EVENTS = st.one_of(
    st.builds(
        lambda blocks, native: ("assistant", {"role": "assistant", "content": blocks, **native}),
        st.lists(BLOCKS, min_size=1, max_size=4),
        st.sampled_from([{}, {"native": []}]),
    ),
    st.builds(lambda one: ("tool_result", {"toolCallId": one, "result": "1"}), CALLS),
    st.builds(lambda one: ("tool_call", {"id": one, "tool": "f", "params": {}}), CALLS),
    st.just(("user", {"role": "user", "content": "go"})),
    st.builds(lambda seq: ("retracted", {"seqs": [seq]}), st.integers(0, 8)),
    st.builds(lambda first: ("compaction", {"summary": "old", "covers": [first, first + 2]}), st.integers(0, 6)),
)
PROVIDERS = ("neutral", "anthropic", "openai", "openai-responses", "gemini", "pydantic-ai")


@given(st.lists(EVENTS, max_size=14), st.sampled_from(["mark", "drop"]), st.data())
def test_server_tools_leave_every_provider_a_valid_list_at_every_moment(log, incomplete, data):
    """Whenever it is asked, and however often before, a conversation is valid and the same."""
    kept, often = Conversation(incomplete=incomplete), Conversation(incomplete=incomplete)
    for seq, (type, content) in enumerate(log):
        event = Event.make(type, content, seq=seq)
        kept.feed(event)
        often.feed(event)
        for provider in PROVIDERS:
            assert validate(often.messages(provider), provider).errors == []
        if data.draw(st.booleans()):
            assert kept.messages() == often.messages()
    assert kept.messages("anthropic") == often.messages("anthropic")
    assert kept.issues == often.issues
