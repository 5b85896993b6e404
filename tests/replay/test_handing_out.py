"""Lists handed out: each keeps its value, and none is copied without need."""

from __future__ import annotations

import pytest

from holdfast.errors import UsageError
from holdfast.model import Event
from holdfast.replay import PROVIDERS, Conversation, validate


def user(content):
    return "user", {"role": "user", "content": content}


def assistant(content):
    return "assistant", {"role": "assistant", "content": content}


def text(value):
    return {"type": "text", "text": value}


def grow(conversation, start, count):
    for seq in range(start, start + count):
        step = user(f"u{seq}") if seq % 2 == 0 else assistant(f"a{seq}")
        conversation.feed(Event.make(*step, seq=seq))


def test_a_list_once_handed_out_does_not_change():
    """Every list keeps the value it had, however many are kept and whatever is fed."""
    conversation = Conversation()
    kept = []
    for seq in range(40):
        grow(conversation, seq, 1)
        kept.append(conversation.messages())
    for seq, messages in enumerate(kept):
        assert [message["content"] for message in messages] == [
            f"{'ua'[number % 2]}{number}" for number in range(seq + 1)
        ]


def test_lists_take_turns_when_they_are_let_go():
    """A caller that keeps only the newest list causes no copies: two lists take turns."""
    conversation = Conversation()
    seen = set()
    messages = None
    for seq in range(20):
        grow(conversation, seq, 1)
        messages = conversation.messages()
        seen.add(id(messages))
    assert len(seen) == 2
    assert len(messages) == 20


def test_a_callers_changes_stay_the_callers():
    """Appending to a list, emptying it or replacing its end does not reach later lists."""
    conversation = Conversation()
    grow(conversation, 0, 4)
    expected = [message["content"] for message in conversation.messages()]
    for change in (
        lambda messages: messages.append({"role": "user", "content": "mine"}),
        list.clear,
        lambda messages: messages.__setitem__(-1, {"role": "user", "content": "mine"}),
    ):
        change(conversation.messages())
        assert [message["content"] for message in conversation.messages()] == expected


def test_each_dialect_has_its_own_lists():
    """Asking for several dialects in turn gives each its own, always up to date."""
    conversation = Conversation()
    for seq in range(6):
        grow(conversation, seq, 1)
        neutral, gemini = conversation.messages(), conversation.messages("gemini")
        assert len(neutral) == len(gemini) == seq + 1
        assert "parts" in gemini[0]


def test_an_unknown_dialect_is_refused():
    """A misspelt provider is the caller's error."""
    with pytest.raises(UsageError, match="unknown provider"):
        Conversation().messages("antropic")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_long_turn_of_one_side_keeps_its_value_too(provider):
    """Many user turns in a row are one growing message; earlier lists stay as they were."""
    conversation = Conversation()
    kept = []
    for seq in range(60):
        conversation.feed(Event.make(*user(f"u{seq}"), seq=seq))
        kept.append(conversation.messages(provider))
    for seq, messages in enumerate(kept):
        assert str(messages).count("'u") - str(messages).count("'user") == seq + 1
        assert validate(messages, provider).errors == []


def test_a_long_turn_is_not_copied_for_a_caller_who_lets_go():
    """The growing message is the same object again and again, unless somebody still holds it."""
    conversation = Conversation()
    foreign = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"}
    conversation.feed(Event.make(*user("go"), seq=0))
    seen = set()
    for seq in range(1, 60):
        content = [foreign, text(f"a{seq}")]
        conversation.feed(Event.make(*assistant(content), seq=seq))
        messages = conversation.messages("anthropic")
        if seq > 30:
            seen.add(id(messages[1]))
    assert len(seen) == 2
    assert len(messages[1]["content"]) == 59
    held = messages[1]
    held_content = conversation.messages("anthropic")[1]["content"]
    del messages
    for seq in range(60, 64):
        conversation.feed(Event.make(*assistant("more"), seq=seq))
        assert len(conversation.messages("anthropic")[1]["content"]) == seq
    assert len(held["content"]) == len(held_content) == 59


def test_a_long_turn_that_ends_or_changes_is_written_anew():
    """After a long turn comes the next one; a retraction inside it is seen."""
    conversation = Conversation()
    for seq in range(30):
        conversation.feed(Event.make(*user(f"u{seq}"), seq=seq))
        conversation.messages()
    conversation.feed(Event.make("retracted", {"seqs": [3]}, seq=30))
    assert text("u3") not in conversation.messages()[0]["content"]
    conversation.feed(Event.make(*assistant("ok"), seq=31))
    assert [len(conversation.messages()), conversation.messages()[1]["content"]] == [2, "ok"]


def test_changes_far_back_reach_every_list():
    """A late result changes all lists from its call on, in both buffers."""
    conversation = Conversation(incomplete="drop")
    conversation.feed(Event.make(*user("go"), seq=0))
    conversation.feed(Event.make("tool_call", {"id": "a", "tool": "Read", "params": {}}, seq=1))
    grow(conversation, 2, 10)
    lists = [conversation.messages(), conversation.messages()]
    assert len(lists[0]) == 10
    conversation.feed(Event.make("tool_result", {"toolCallId": "a", "result": "x"}, seq=12))
    del lists
    for _ in range(3):
        assert [m["role"] for m in conversation.messages()][:4] == ["user", "assistant"] * 2
        assert len(conversation.messages()) == 12
