"""Plain events go a short way into a conversation, and nobody can tell."""

from __future__ import annotations

import pytest

from holdfast.model import Event
from holdfast.replay import PROVIDERS, Conversation
from holdfast.replay._text import CallNames, mistral_id

LONG = "x" * 41


def user(text="go"):
    return "user", {"content": text}


def said(text="so", **more):
    return "assistant", {"content": text, **more}


def call(id, tool="Read", **params):
    return "tool_call", {"id": id, "tool": tool, "params": params}


def result(id, value="done", **more):
    return "tool_result", {"toolCallId": id, "result": value, **more}


PLAIN = [user(), said(), call("a", path="x"), result("a", {"content": "y"}), said("then")]
TWO = [user(), call("b"), call("c"), result("c"), result("b"), said("both")]
USED = {"native": {"provider": "openai", "messages": []}}
ODD = {
    "blank words": [user(" "), user("")],
    "words with a NUL": [user("a\0b"), said("\0")],
    "words that are no whole Unicode": [user("\ud800"), said("é"), user("é\0")],
    "a list of blocks": [user(["a", "b"]), said([{"type": "text", "text": "c"}])],
    "no content": [("user", {}), ("assistant", {"content": None})],
    "usage": [said("used", usage={"output_tokens": 3}), said("not", usage=4)],
    "an agent with a name": [said("by one", agent="one"), said("by none"), user("and you?")],
    "an agent that starts": [("agent_start", {"agent": "one"}), user(), said(), ("agent_complete", {"agent": "one"})],
    "a task for another": [("delegation", {"parent": "one", "child": "two", "task": "go"}), user("go"), said()],
    "other types between": [call("k"), ("usage", {}), result("k"), ("opened", {}), user()],
    "a type that nobody knows between, and no result": [call("k"), ("usage", {}), user()],
    "a malformed id": [call("a b"), result("a b"), call(""), call(7), result(7), result(None)],
    "a malformed tool": [call("k", tool="a b"), result("k"), call("l", tool=3), result("l")],
    "arguments that are no JSON": [
        call("k", value=float("nan")),
        result("k"),
        call("l", value={"deep": [1]}),
        result("l"),
    ],
    "arguments of all kinds": [one for n in range(80) for one in (call(f"k{n}", **{f"m{n}": "v"}), result(f"k{n}"))],
    "results of all kinds": [
        one
        for n, value in enumerate([None, "", " ", {"content": ""}, {"error": True}, ["a"], 3, "é", {"content": "a\0"}])
        for one in (call(f"k{n}"), result(f"k{n}", value))
    ],
    "a failed call": [call("k"), result("k", "no", is_error=True), call("l"), result("l", "yes", is_error=False)],
    "an id that comes again": [call("a"), result("a"), user(), call("a"), result("a")],
    "an id that comes again in its turn": [call("k"), result("k"), call("k"), result("k"), call("k"), call("k")],
    "a result that comes again": [call("k"), result("k"), result("k"), result("a", "late")],
    "a second result before the other": [call("k"), call("l"), result("k"), result("k"), result("l")],
    "a result without a call": [result("k"), user(), call("k")],
    "a result before its call": [result("k"), call("k")],
    "a call after a result of its group": [call("k"), call("l"), result("k"), call("m"), result("l"), result("m")],
    "words within a group": [call("k"), said("wait"), result("k"), call("l"), user("?"), result("l"), said()],
    "a call that was never answered": [call("k"), user(), said(), call("l"), result("l")],
    "ids that are one to a provider": [call(f"{LONG}1"), call(f"{LONG}2"), result(f"{LONG}1"), result(f"{LONG}2")],
    "an id that is another's to a provider": [call("k"), result("k"), call(mistral_id("k")), result(mistral_id("k"))],
    "a message that asks for the call before it": [
        call("k", path="x"),
        result("k"),
        said([{"type": "tool_use", "id": "k", "name": "Read", "input": {"path": "x"}}]),
    ],
    "a message that asks first": [
        said([{"type": "tool_use", "id": "k", "name": "Read", "input": {}}]),
        call("k"),
        result("k"),
    ],
    "streamed words": [("delta", {"content": "so"}), said("so it is", covers_from=5), user()],
    "words as a provider said them": [said("native", **USED), user(), call("k"), result("k")],
    "a permission": [("permission", {"call": "a", "decision": "deny"}), call("k"), result("k")],
    "words taken back": [("retracted", {"seqs": [3]}), user(), ("retracted", {"seqs": [0]})],
    "a result taken back": [("retracted", {"seqs": [3]}), result("a", "again")],
    "a call taken back": [("retracted", {"seqs": [2]}), call("a"), result("a")],
    "a call without an id after words taken back": [user(), ("retracted", {"seqs": [0]}), call(None), user()],
    "words replaced": [("retracted", {"seqs": [0], "replacement": "other"}), user()],
    "words summarised": [("compaction", {"summary": "so far", "covers": [0, 4]}), user()],
    "calls summarised": [("compaction", {"summary": "so far", "covers": [1, 2]}), user(), said()],
    "what was taken back while a call is open": [call("k"), user(), ("retracted", {"seqs": [1]}), result("k")],
    "what was taken back while something streams": [
        user(),
        ("delta", {"content": "so"}),
        ("retracted", {"seqs": [4]}),
        ("delta", {"content": " on"}),
    ],
}


def logged(words, runs=()):
    """The events of a log, as a reader gives them; some of a run."""
    events = []
    for seq, (type, data) in enumerate(words):
        event = Event(type, seq, 0, b"{}", "r" if seq in runs else None)
        event.__dict__["data"] = data
        events.append(event)
    return events


def check_same(events, **options):
    """Taken in together, in parts, and with questions in between: everywhere as one by one."""
    alone = Conversation(**options)
    for event in events:
        alone.feed(event)
    for size in (len(events), 1, 2, 3):
        together = Conversation(**options)
        for start in range(0, len(events), size):
            together.feed_all(events[start : start + size])
            if size == 2:
                together.messages()
        for provider in PROVIDERS:
            assert together.messages(provider) == alone.messages(provider)
        assert together.issues == alone.issues
        assert together.sources == alone.sources
        assert together.usage == alone.usage
        assert together.system == alone.system


@pytest.mark.parametrize(
    "before", [[], PLAIN, [said("first"), *PLAIN[2:]], PLAIN + TWO], ids=["", "plain", "said", "two"]
)
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_what_is_unusual_is_told_as_one_by_one(before, odd):
    """After plain events, among them and before them, everything odd is told as if there were no short way."""
    for incomplete in ("mark", "drop", "keep"):
        check_same(logged([*before, *odd, *PLAIN[:2], call("z"), result("z"), said("end")]), incomplete=incomplete)


def test_a_run_is_taken_in_as_one_by_one():
    """Events that name their run, and the conversation of a run alone."""
    words = [user(), *TWO, call("k"), result("k"), said("end")]
    for runs in ((), (1, 2), range(9)):
        check_same(logged(words, runs))
        check_same(logged(words, runs), run="r")


def test_numbers_that_repeat_or_go_back_are_taken_in_as_one_by_one():
    """Foreign logs may number as they like, also with long numbers."""
    words = [*PLAIN, *TWO, ("retracted", {"seqs": [3]})]
    for numbers in ([3] * 12, range(12, 0, -1), range(1 << 40, (1 << 40) + 12), [-1] * 12):
        events = [Event(e.type, seq, 0, b"{}") for e, seq in zip(logged(words), numbers, strict=False)]
        for event, (_, data) in zip(events, words, strict=True):
            event.__dict__["data"] = data
        check_same(events)


def test_what_is_no_event_is_left_out():
    """A foreign iterable may hold anything."""
    conversation = Conversation()
    conversation.feed_all([*logged(PLAIN[:1]), None, Event(["user"], 1), *logged(PLAIN)[1:]])
    assert conversation.messages()[0]["content"] == "go"
    assert [issue.type for issue in conversation.issues] == ["unreadable_event"] * 2


def test_plain_events_leave_nothing_but_their_blocks():
    """Of a long plain conversation no pieces are kept, however it came in, until something of it is asked for."""
    words = [one for n in range(50) for one in (user(), call(f"k{n}"), result(f"k{n}"), said())]
    for size in (1, 3, 200):
        conversation = Conversation()
        for start in range(0, 200, size):
            conversation.feed_all(logged(words)[start : start + size])
        assert conversation.thread.size() <= 1
        conversation.feed_all([*logged([*words, ("retracted", {"seqs": [190]})])[-1:]])
        assert 10 <= conversation.thread.size() <= 16


def test_names_are_taken_together_or_not_at_all():
    """Of names that clash with each other or with one that is taken, none is."""
    names = CallNames()
    assert names.take_all(["a", "b"])
    assert not names.take_all(["c", "a"])
    assert not names.take_all([f"{LONG[:40]}1", "d", f"{LONG[:40]}1"])
    assert names.take_all(["c", f"{LONG[:40]}1", "ABCDEFGHI"])
