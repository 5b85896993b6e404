"""Tools that a provider runs itself, over the messages of one turn."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model import Event
from holdfast.replay import Conversation, validate

SERVERS = st.sampled_from(["s1", "s2", "s3"])
CALLS = st.sampled_from(["c1", "c2", "c3", "c4", "c5"])
TEXT = {"type": "text", "text": "so"}


def use(identity, code):
    """A call of the model, or of the code that a server runs."""
    block = {"type": "tool_use", "id": identity, "name": "f", "input": {}}
    caller = {"type": "code_execution_20260120", "tool_id": code}
    return block | ({"caller": caller} if code else {})


BLOCKS = st.one_of(
    st.just(TEXT),
    st.builds(
        lambda one: {"type": "server_tool_use", "id": one, "name": "web_search", "input": {}},
        SERVERS,
    ),
    st.builds(
        lambda one: {"type": "web_search_tool_result", "tool_use_id": one, "content": []}, SERVERS
    ),
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
    st.builds(
        lambda first: ("compaction", {"summary": "old", "covers": [first, first + 2]}),
        st.integers(0, 6),
    ),
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
