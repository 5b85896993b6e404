"""Streamed text is broken between words."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from holdfast.apps.cli._flow import Flow

WORDS = st.text(st.sampled_from("abcé世 \n"), max_size=60)


def flow(pieces, width):
    made = Flow(width)
    return "".join([*map(made.feed, pieces), made.rest()])


def test_words_are_kept_whole():
    """A line ends before the word that does not fit."""
    shown = flow(["one two th", "ree four"], 9)
    assert [line.rstrip() for line in shown.split("\n")] == ["one two", "three", "four", ""]


@given(WORDS, st.integers(1, 20), st.data())
def test_nothing_is_lost_and_nothing_is_too_wide(text, width, data):
    """All words come in their order, lines fit, and the pieces make no difference."""
    shown = flow([text], width)
    assert re.findall(r"[^ \n]+", shown) == re.findall(r"[^ \n]+", text)
    for line in shown.split("\n"):
        assert cell_len(line) <= width or " " not in line.strip(" ")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    ends = [0, *cuts, len(text)]
    assert flow([text[a:b] for a, b in pairwise(ends)], width) == shown


@given(WORDS)
def test_a_wide_terminal_changes_nothing(text):
    """Where everything fits the text is as it was, on lines of its own."""
    shown = flow([text], 1000)
    assert shown in (text, text + "\n")
