"""Images and documents at addresses that a provider cannot fetch; users right after results."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model import Event
from holdfast.replay import PROVIDERS, Conversation, recover, sanitize, validate

HOSTED = [provider for provider in PROVIDERS if provider != "neutral"]
NOWHERE = ["file:///etc/passwd", "/home/me/cat.png", "ftp://x/cat.png", "blob:abc", "https://"]


def image(url, kind="image"):
    return {"type": kind, "source": {"type": "url", "url": url}}


def talk(*content):
    said = [("user", {"content": [{"type": "text", "text": "look"}, *content]})]
    return [Event.make(type, data, seq=seq) for seq, (type, data) in enumerate(said)]


def with_result(*content):
    said = [
        ("user", {"content": "look"}),
        ("tool_call", {"id": "c1", "tool": "Look", "params": {}}),
        ("tool_result", {"toolCallId": "c1", "result": {"content": list(content)}}),
    ]
    return [Event.make(type, data, seq=seq) for seq, (type, data) in enumerate(said)]


@pytest.mark.parametrize("url", NOWHERE)
@pytest.mark.parametrize("provider", HOSTED)
@pytest.mark.parametrize("kind", ["image", "document"])
def test_what_cannot_be_fetched_is_named_and_told(provider, url, kind):
    """The provider gets words in its place, the report says which, and the list is valid."""
    found = recover(talk(image(url, kind)), provider, "mark")
    assert validate(found.messages, provider).errors == []
    assert [(issue.type, issue.where) for issue in found.issues] == [("unreachable", "event 0")]
    assert url in found.issues[0].detail
    assert f"at {url})" in repr(found.messages)
    assert recover(talk(image(url, kind)), provider, "mark", 10_000).issues[0].type == "unreachable"


@pytest.mark.parametrize("provider", HOSTED)
def test_an_image_in_a_result(provider):
    """Results are looked through as well."""
    events = with_result({"type": "text", "text": "seen"}, image("file:///etc/passwd"))
    found = recover(events, provider, "mark")
    assert validate(found.messages, provider).errors == []
    assert "file:///etc/passwd" in repr(found.messages)
    assert [issue.type for issue in found.issues] == ["unreachable"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_address_on_the_web_is_handed_on(provider):
    """What can be fetched stays what it is, without an issue; the neutral form keeps anything."""
    found = recover(talk(image("https://x/cat.png")), provider, "mark")
    assert found.issues == []
    assert "(image at" not in repr(found.messages)
    kept = recover(talk(image("file:///cat.png")), "neutral", "mark")
    assert kept.issues == []
    assert image("file:///cat.png") in kept.messages[0]["content"]


def test_addresses_that_only_some_can_fetch():
    """Without encryption not for Anthropic; in a bucket of Google's only for Gemini."""
    plain, bucket = talk(image("http://x/cat.png")), talk(image("gs://b/cat.png"))
    told = {p for p in HOSTED if recover(plain, p, "mark").issues}
    assert told == {"anthropic"}
    told = {p for p in HOSTED if recover(bucket, p, "mark").issues}
    assert told == {"anthropic", "openai", "openai-responses", "mistral"}


@pytest.mark.parametrize("provider", HOSTED)
def test_a_live_conversation_does_the_same(provider):
    """Message by message, also one that grows block after block."""
    conversation = Conversation(incomplete="mark")
    for event in talk(image("file:///a.png"), image("https://x/b.png")):
        conversation.feed(event)
    before = conversation.messages(provider)
    conversation.feed(Event.make("user", {"content": [image("file:///c.png")]}, seq=1))
    after = conversation.messages(provider)
    for messages in (before, after):
        assert validate(messages, provider).errors == []
    assert "(image at file:///c.png)" in repr(after)


def test_a_list_that_names_a_file_is_mended():
    """The same for messages that come from elsewhere."""
    given = [{"role": "user", "content": [image("file:///etc/passwd")]}]
    found = sanitize(given, "anthropic")
    assert validate(found.messages, "anthropic").valid
    assert [(issue.type, issue.where) for issue in found.issues] == [("unreachable", "message 0")]


TURNS = st.lists(st.sampled_from(["user", "assistant", "call", "result", "image"]), min_size=1, max_size=12)


@given(TURNS)
def test_mistral_never_hears_a_user_right_after_a_result(turns):
    """Whatever a log holds, an assistant stands in between, and everything said is there."""
    events, words, call = [], [], None
    for number, turn in enumerate(turns):
        word = f"word-{number}"
        if turn == "call":
            call = f"call-{number}"
            data = ("tool_call", {"id": call, "tool": "Look", "params": {}})
        elif turn in ("result", "image"):
            content = {"type": "text", "text": word} if turn == "result" else image("https://x/y")
            data = ("tool_result", {"toolCallId": call or "none", "result": {"content": [content]}})
            call = None
        else:
            data = (turn, {"content": word})
            words.append(word)
        events.append(Event.make(*data, seq=number))
    messages = recover(events, "mistral", "mark").messages
    roles = [message["role"] for message in messages]
    assert ("tool", "user") not in set(pairwise(roles))
    assert all(word in repr(messages) for word in words)
    assert validate(messages, "mistral").errors == []
    assert sanitize(messages, "mistral").messages == messages


def test_an_interrupted_mistral_session_goes_on():
    """A user who says something else while a tool was at work is heard after a word between."""
    said = [
        ("user", {"content": "list files"}),
        ("tool_call", {"id": "c1", "tool": "ls", "params": {"p": "."}}),
        ("tool_result", {"toolCallId": "c1", "result": "a.txt"}),
        ("user", {"content": "stop, do something else"}),
    ]
    events = [Event.make(type, data, seq=seq) for seq, (type, data) in enumerate(said)]
    messages = recover(events, "mistral").messages
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert messages[3]["content"] == "(no answer)"
    again = Conversation(incomplete="mark")
    for event in events:
        again.feed(event)
    assert again.messages("mistral") == messages
