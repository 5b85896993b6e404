"""The layers of the sanitiser, each by itself."""

from __future__ import annotations

import pytest

from holdfast.replay import PROVIDERS, sanitize, validate


def user(content):
    return {"role": "user", "content": content}


def assistant(content):
    return {"role": "assistant", "content": content}


def use(identity):
    return {"type": "tool_use", "id": identity, "name": "Read", "input": {}}


def answer(identity):
    return {"type": "tool_result", "tool_use_id": identity, "content": "done"}


HI, BYE = user("hi"), assistant("bye")


@pytest.mark.req("S3-53")
def test_each_call_has_one_result_and_each_result_a_call():
    """Relationships: orphans and repeats go, a call without a result goes, pairs stay."""
    calls = [use("a"), use("b")]
    given = [HI, assistant(calls), user([answer("b"), answer("x"), answer("b")])]
    _, asked, answered = sanitize(given).messages
    assert [block["id"] for block in asked["content"]] == ["b"]
    assert [block["tool_use_id"] for block in answered["content"]] == ["b"]


@pytest.mark.req("S3-54")
def test_results_follow_their_calls_and_turns_alternate():
    """Sequence: a late result stands right after its call, and no role speaks twice in a row."""
    given = [HI, HI, assistant([use("a")]), BYE, user([answer("a")]), BYE, BYE]
    messages = sanitize(given).messages
    roles = [message["role"] for message in messages]
    assert roles == ["user", "assistant"] * (len(roles) // 2)
    assert messages[2]["content"][0]["tool_use_id"] == "a"


@pytest.mark.req("S3-55")
@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_comes_out_passes_the_providers_own_rules(provider):
    """Final validation: refused as it was given, accepted as it comes out, for every provider."""
    given = [BYE, assistant([use("a")]), None, HI, user([answer("x")]), user("")]
    assert not validate(given, provider).valid
    result = sanitize(given, provider)
    assert result.messages
    assert validate(result.messages, provider).valid


class Fighting(dict):
    """A part that raises when it is looked at."""

    def get(self, *_):
        raise RuntimeError("leave me alone")

    def __getitem__(self, _):
        raise RuntimeError("leave me alone")


def test_a_part_that_fights_back_is_left_out():
    """Of a message with an unreadable part the other parts stay, and the loss is told."""
    result = sanitize([user([Fighting(type="text"), {"type": "text", "text": "hi"}])])
    assert result.messages == [user("hi")]
    assert "invalid_block" in [issue.type for issue in result.issues]
