"""Two texts next to each other."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.apps.cli._screen import Screen
from holdfast.apps.render.comparison import Half, apart, broken, cells, print_halves
from holdfast.apps.render.page import Span

pytestmark = pytest.mark.req("S2-68")


@given(st.text(), st.integers(12, 60))
def test_no_line_is_too_wide_and_no_word_is_lost(text, width):
    """Whatever was said: every line fits, and every character is in one."""
    lines = broken(text, width)
    assert all(cells(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join("".join(broken(text, 10_000)).split())


def test_long_texts_end_with_a_mark():
    """So many lines and no more; the last says that there were others."""
    assert broken("one two three four", 12, 2) == ["one two", "three four"]
    assert broken("one two three four five", 12, 2) == ["one two", "three four …"]
    assert broken("x" * 30, 12, 1) == ["x" * 10 + " …"]


def test_answers_are_shown_from_where_they_differ():
    """What both begin with is left out if it is long, and only then."""
    same = "word " * 40
    left, right = apart(same + "here", same + "there")
    assert left.startswith("… word ")
    assert left.endswith("here")
    assert right.endswith("there")
    assert len(left) < 60
    assert apart("w" * 100 + "a", "w" * 100 + "b")[0] == f"… {'w' * 30}a"
    assert apart(same, same) == (same, same)
    assert apart("short a", "short b") == ("short a", "short b")


def test_halves_keep_to_their_side():
    """What comes second on the left stands beside what comes second on the right."""
    stream = io.StringIO()
    left = Half("1", [Span("one"), Span("→ tool")])
    right = Half("12", [Span("two \x1b[31m " + "more " * 30)])
    print_halves(Screen(stream), [(left, right), (Half("", []), Half("13", [Span("last")]))], 2)
    lines = stream.getvalue().splitlines()
    assert "\x1b" not in stream.getvalue()
    assert lines[0].split() == ["1", "one", "12", "two", "␛[31m", *["more"] * 9]
    assert lines[1].startswith(" " * 20)
    assert lines[1].endswith("…")
    assert lines[2].strip() == "→ tool"
    assert lines[3] == ""
    assert lines[4].split() == ["13", "last"]


def test_code_keeps_its_indentation():
    """Lines begin as far in as they did, and so does what goes on in the next."""
    assert broken("for i in x:\n    print(i, end, more)", 16) == ["for i in x:", "    print(i,", "    end, more)"]


def test_words_that_differ_are_marked():
    """On each side the words that the other has not; where little is the same, none."""
    stream = io.StringIO()
    screen = Screen(stream, "always")
    print_halves(screen, [(Half("", [Span("all tests pass now")]), Half("", [Span("two tests fail now")]))], None)
    screen.flush()
    shown = stream.getvalue()
    assert "\x1b[1;31mall\x1b[0m tests \x1b[1;31mpass\x1b[0m now" in shown
    assert "\x1b[32mtwo\x1b[0m tests \x1b[32mfail\x1b[0m now" in shown
    print_halves(screen, [(Half("", [Span("quite another")]), Half("", [Span("thing")]))], None)
    screen.flush()
    assert "\x1b[32mthing" not in stream.getvalue()
