"""A log as a conversation that people can read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Event
from holdfast.apps.shown.transcript import Entry, folded, readable, transcript


def log(*events, run=None):
    """Events with numbers, as a log gives them."""
    return [
        Event.make(kind, data, seq=number, timestamp=1000 + number, run=run)
        for number, (kind, data) in enumerate(events)
    ]


def told(*events):
    """Kind, name and text of each entry."""
    return [(entry.kind, entry.who, entry.text) for entry in transcript(log(*events))]


def test_what_is_said_and_done():
    """Messages, calls and results in the order of the log; a result names its tool."""
    assert told(
        ("session_start", {}),
        ("user", {"content": "hi"}),
        ("thinking", {"content": "hm"}),
        ("tool_call", {"id": "1", "tool": "Read", "params": {"path": "a", "n": 2}}),
        ("tool_result", {"toolCallId": "1", "result": {"content": "text"}}),
        ("tool_call", {"id": "2", "tool": "Write", "params": None}),
        ("tool_result", {"toolCallId": "2", "result": {"code": 1}, "is_error": True}),
        ("assistant", {"content": "ho", "agent": "helper"}),
    ) == [
        ("user", "user", "hi"),
        ("thinking", "thinking", "hm"),
        ("call", "Read", 'path="a"  n=2'),
        ("result", "Read", "text"),
        ("call", "Write", ""),
        ("failure", "Write", '{"code":1}'),
        ("assistant", "assistant (helper)", "ho"),
    ]


def test_an_answer_that_was_stopped_stands_where_it_was_said():
    """Words of a turn that ended early come before the next question, not after everything."""
    stopped = [
        ("user", {"content": "one"}),
        ("delta", {"content": "he"}),
        ("turn_end", {"turn": 0, "reason": "cancelled"}),
        ("user", {"content": "two"}),
    ]
    assert [text for _, _, text in told(*stopped)] == ["one", "he", "two"]


def test_streamed_text_is_shown_once():
    """Pieces that a final message covers are not shown; those that were cut off are."""
    covered = [
        ("delta", {"content": "he"}),
        ("delta", {"content": "llo"}),
        ("assistant", {"content": "hello", "covers_from": 0}),
    ]
    assert told(*covered) == [("assistant", "assistant", "hello")]
    cut = [("delta", {"content": "he"}), ("delta", {"content": "l"}), ("interrupted", {})]
    assert told(*cut) == [("assistant", "assistant, cut off", "hel"), ("note", "interrupted", "")]
    assert told(*cut[:2]) == [("assistant", "assistant, cut off", "hel")]


def test_streams_of_parallel_runs_do_not_mix():
    """Each run's pieces belong to it."""
    first = Event.make("delta", {"content": "a"}, seq=0, run="1")
    second = Event.make("delta", {"content": "b"}, seq=1, run="2")
    done = Event.make("assistant", {"content": "a!", "covers_from": 0}, seq=2, run="1")
    assert [e.text for e in transcript([first, second, done])] == ["a!", "b"]


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (("compaction", {"summary": "short", "covers": [0, 4]}), "summarised"),
        (("retracted", {"seqs": [1, 2]}), "events 1, 2"),
        (("interrupted", {"reason": "killed"}), "killed"),
        (("delegation", {"parent": "a", "child": "b", "task": "look"}), "a asks b"),
        (("agent_error", {"error": "boom", "agent": "x"}), "boom"),
        (("repaired", {"lost": 3}), "event 3 was lost"),
        (("repaired", {"generation": 1}), "repaired"),
        (("redacted", {}), "redacted"),
        (("suspended", {"reason": "asks"}), "asks"),
        (("resumed", {}), "resumed"),
        (("delegation_complete", {"child": "b"}), "b is done"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_notes(event, words):
    """What happened beside the talk is told in a note."""
    ((kind, who, text),) = told(event)
    assert kind == "note"
    assert words in f"{who} {text}"


def test_a_gap_is_told_in_its_place():
    """Events that could not be read leave a note."""
    one, *_, last = log(*[("user", {"content": str(n)}) for n in range(5)])
    assert [entry.who for entry in transcript([one, last])] == [
        *("user", "events 1 to 3 cannot be read", "user")
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\r\nb", "a\nb"),
        ([{"type": "text", "text": "x"}, "y"], "x\ny"),
        ([{"type": "image", "source": {"media_type": "image/png"}}], "[image image/png]"),
        ([{"type": "document"}], "[document]"),
        ([{"type": "other", "a": 1}], '{"type":"other","a":1}'),
        ({"content": "x"}, "x"),
        ({"content": "x", "more": 1}, '{"content":"x","more":1}'),
        (None, "null"),
        (
            {"$blob": "0" * 64, "bytes": 2_000_000, "media": "text/plain"},
            "[2.0 MB of text/plain; shown with --full]",
        ),
    ],
)
def test_content_as_text(value, text):
    """Strings as they are, blocks by their text, anything else as JSON."""
    assert readable(value) == text


def test_folding():
    """Only what may be long is cut; the rest is told by its length."""
    long = Entry(0, 0, "result", "x", "\n".join("line" for _ in range(20)), foldable=True)
    head, hidden = folded(long)
    assert head.count("\n") == 4
    assert hidden == len(long.text) - len(head)
    assert folded(long._replace(foldable=False)) == (long.text, 0)
    assert folded(long._replace(text="x" * 600))[1] == 100
    assert folded(long._replace(text="short\n")) == ("short", 0)


TEXT = st.text(st.characters(exclude_characters="\0", codec="utf-8"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
KINDS = [
    *("user", "assistant", "system", "thinking", "tool_call", "tool_result", "delta", "retracted"),
    *("compaction", "interrupted", "delegation", "delegation_complete", "agent_error", "repaired"),
    *("redacted", "suspended", "other"),
]
NAMES = [
    *("content", "tool", "id", "params", "toolCallId", "result", "agent", "kind", "covers"),
    *("seqs", "reason", "lost", "replacement", "task", "error", "summary"),
]


@given(
    st.lists(
        st.tuples(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(NAMES), JSON)),
        max_size=8,
    )
)
def test_any_data_can_be_read(events):
    """Whatever the events hold, a transcript comes out, in order, of text only."""
    entries = list(transcript(log(*events)))
    assert all(isinstance(entry.text, str) and isinstance(entry.who, str) for entry in entries)
    assert all(isinstance(folded(entry)[0], str) for entry in entries)


def test_what_was_not_asked_for_is_not_missing():
    """The end of a log begins where it begins; a hole in it is still told."""
    events = log(*[("user", {"content": str(number)}) for number in range(6)])
    assert [e.text for e in transcript(events[3:], 3)] == ["3", "4", "5"]
    hole, *rest = transcript(events[4:], 3)
    assert (hole.kind, hole.who) == ("note", "event 3 cannot be read")
    assert [e.text for e in rest] == ["4", "5"]
