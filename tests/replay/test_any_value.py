"""Values that nobody thought of: hypothesis builds them from the words that providers use."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model import Event
from holdfast.replay import PROVIDERS, Conversation, runs, sanitize, validate

pytestmark = pytest.mark.unmeasured

TYPES = [
    "text", "tool_use", "tool_result", "thinking", "redacted_thinking", "reasoning", "image",
    "image_url", "document", "file", "server_tool_use", "web_search_tool_result", "message",
    "function_call", "function_call_output", "input_text", "refusal",
]  # fmt: skip
ROLES = ["user", "assistant", "system", "tool", "model", "function", "developer", "king"]
KEYS = [
    "role", "content", "parts", "type", "text", "id", "name", "input", "tool_use_id", "tool_calls",
    "function", "arguments", "tool_call_id", "thinking", "signature", "source", "data", "kind",
    "media_type", "part_kind", "functionCall", "functionResponse", "response", "call_id", "output",
    "summary", "args", "tool_name", "is_error", "url", "image_url", "cache_control", "citations",
]  # fmt: skip
TEXTS = [*TYPES, *ROLES, "", " ", "x", "a b", "\0", "\ud800", "{}", '{"a": 1}', "aGk=", "request"]
TEXTS += ["tool-call", "tool-return", "user-prompt", "base64", "image/png", "https://x"]
leaves = st.one_of(st.sampled_from(TEXTS), st.none(), st.booleans(), st.integers(), st.floats(), st.binary(max_size=3))
values = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)),
    max_leaves=25,
)
messages_ = st.one_of(
    values,
    st.builds(lambda role, content: {"role": role, "content": content}, st.sampled_from(ROLES), values),
    st.dictionaries(st.sampled_from(KEYS), values, max_size=6),
)


@pytest.mark.parametrize("provider", PROVIDERS)
@settings(max_examples=120)
@given(st.one_of(values, st.lists(messages_, max_size=6)))
@pytest.mark.req("S3-59")
def test_any_value_becomes_a_valid_list(provider, judge, value):
    """Out of anything comes a valid list, which needs no second repair."""
    once = sanitize(value, provider)
    assert judge.problems(once.messages, provider) == []
    assert validate(once.messages, provider).errors == []
    assert not any(issue.type == "fallback" for issue in once.issues)
    assert sanitize(once.messages, provider).messages == once.messages


EVENT_TYPES = [
    "user", "assistant", "system", "thinking", "tool_call", "tool_result", "delta", "retracted",
    "compaction", "agent_start", "agent_iteration", "agent_complete", "delegation", "agent_error",
]  # fmt: skip
MEMBERS = [
    "content", "agent", "id", "tool", "params", "toolCallId", "result", "signature", "covers_from",
    "seqs", "replacement", "summary", "covers", "depth", "parent", "child", "task", "usage", "kind",
]  # fmt: skip
names = st.sampled_from(["a", "b", "call_1", "system", None])
members = st.dictionaries(st.sampled_from(MEMBERS), st.one_of(names, st.integers(0, 9), values))


def event_of(type, data, run):
    event = Event(type, -1, 0, b"{}", run)
    event.__dict__["data"] = data
    return event


events_ = st.lists(
    st.builds(event_of, st.sampled_from(EVENT_TYPES), members, st.sampled_from([None, None, "r1"])), max_size=12
)


@settings(max_examples=300)
@given(events_)
@pytest.mark.req("S3-45")
def test_any_log_becomes_valid_conversations(judge, events):
    """Out of any events come valid lists for every run, at every provider, with any way."""
    for incomplete in ("drop", "mark"):
        for run in runs(events, incomplete=incomplete):
            for provider in PROVIDERS:
                assert judge.problems(run.conversation.messages(provider), provider) == []
            assert isinstance(run.conversation.issues, list)


@settings(max_examples=150)
@given(events_)
def test_any_log_is_the_same_asked_once_or_often(events):
    """However often the messages are asked for in between, the end is the same."""
    once, often = Conversation(), Conversation()
    for event in events:
        once.feed(event)
        often.feed(event)
        often.messages()
    assert once.messages() == often.messages()
    assert once.issues == often.issues
