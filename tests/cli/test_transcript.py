"""Entries of a transcript in words: headings, arguments, and what is folded at first."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.apps.render.transcript import body, folded, heading
from holdfast.replay import Entry

LONG = Entry(0, 0, 0, "result", ("\n".join("line" for _ in range(20)),), "x")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (Entry(1, 0, 0, "user", ("hi",)), "user"),
        (Entry(1, 0, 0, "assistant", ("hi",), agent="helper"), "assistant (helper)"),
        (Entry(1, 0, 0, "assistant", ("hi",), state="cut"), "assistant, cut off"),
        (Entry(1, 0, 0, "assistant", ("hi",), state="open"), "assistant, cut off"),
        (Entry(1, 0, 0, "call", name="Read"), "Read"),
        (Entry(1, 0, 0, "call", name="Read", again=True), "Read, the same call"),
        (Entry(1, 0, 0, "result", ("hi",), "Read", agent="helper"), "Read"),
        (Entry(1, 0, 0, "failure", ("hi",)), "a call that is not in the log"),
        (Entry(1, 0, 0, "note", name="error", agent="helper"), "error (helper)"),
    ],
)
def test_who_says_it(entry, words):
    """The heading names the speaker, the tool or what happened, and says what was cut off."""
    assert heading(entry) == words


def test_what_a_part_of_a_log_cannot_know():
    """In a window a call may be before it, and an answer still be written."""
    assert heading(Entry(9, 0, 0, "result", ("hi",)), first=4) == "an earlier call"
    open_one = Entry(9, 0, 0, "assistant", ("hi",), state="open")
    assert heading(open_one, is_live=True) == "assistant …"
    assert heading(msgspec.structs.replace(open_one, state="cut"), is_live=True).endswith("cut off")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"path": "a", "n": 2}, 'path="a"  n=2'),
        ({"text": "x" * 90, "n": 2}, f'text="{"x" * 90}"\nn=2'),
        (None, ""),
        ([1], "[1]"),
    ],
)
def test_arguments_of_a_call(value, text):
    """Short arguments stand in a line, long ones in lines of their own."""
    assert body(Entry(1, 0, 0, "call", name="Read", value=value)) == text


def test_folding():
    """Only what may be long is cut; the rest is told by its length."""
    head, hidden = folded(LONG)
    assert head.count("\n") == 4
    assert hidden == len(LONG.text) - len(head)
    replace = msgspec.structs.replace
    assert folded(replace(LONG, kind="user")) == (LONG.text, 0)
    assert folded(replace(LONG, kind="thinking", state="cut")) == (LONG.text, 0)
    assert folded(replace(LONG, pieces=("x" * 600,)))[1] == 100
    assert folded(replace(LONG, pieces=("short\n",))) == ("short", 0)
