"""Tables and short lines on a terminal: the same bytes as rich would write, without loading it."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from holdfast.apps.render.page import STYLES, Colour, Column, Span, fit
from holdfast.security import neutralise_line

TEXT = st.text(st.sampled_from("ab  …é漢🎉\u0301\x1b\n") | st.characters(), max_size=30)
SPANS = st.builds(Span, TEXT.map(neutralise_line), st.sampled_from(sorted(STYLES)))
COLUMNS = (
    Column("ID"),
    Column("N", right=True, spared=True),
    Column("TITLE", flexible=True, least=10),
    Column("", optional=True),
)
ROWS = st.lists(st.tuples(SPANS, SPANS, SPANS, SPANS).map(list), max_size=4)


def rich_console(stream, *, colour):
    """As it was made for everything before."""
    return Console(
        file=stream,
        force_terminal=True,
        color_system="standard" if colour else None,
        no_color=not colour,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )


def rich_row(console, columns, widths, row):
    """A row as rich lays it out."""
    line = Text()
    for column, width, span in zip(columns, widths, row, strict=True):
        cell = Text(span.text, STYLES[span.style])
        cell.truncate(width, overflow="ellipsis")
        space = " " * (width - cell.cell_len)
        line.append("  " if line else "")
        line.append(space if column.right else "").append_text(cell)
        line.append("" if column.right else space)
    line.rstrip()
    console.print(line, soft_wrap=True)


def rich_line(console, spans, hang):
    """A line as rich breaks it."""
    text = Text()
    for span in spans:
        text.append(span.text, STYLES[span.style])
    width = max(console.width - hang, 18)
    for number, line in enumerate(text.wrap(console, width, overflow="fold") if text else [text]):
        line.rstrip()
        console.print(Text(" " * hang if number else "").append_text(line), soft_wrap=True)


@given(ROWS, st.integers(10, 90), st.booleans())
def test_a_table(rows, width, colour):
    """Whatever the cells hold, however wide the terminal is."""
    ours, theirs = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        Colour(ours, colour=colour).table(list(COLUMNS), rows)
        console = rich_console(theirs, colour=colour)
        kept, widths = fit(list(COLUMNS), rows, console.width)
        shown = [COLUMNS[index] for index in kept]
        rich_row(console, shown, widths, [Span(column.name, "faint") for column in shown])
        for row in rows:
            rich_row(console, shown, widths, [row[index] for index in kept])
    assert ours.getvalue() == theirs.getvalue()


@given(st.lists(SPANS, max_size=4), st.integers(10, 90), st.integers(0, 4), st.booleans())
def test_a_line(spans, width, hang, colour):
    """One that fits, and one that has to be broken."""
    ours, theirs = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        Colour(ours, colour=colour).line(spans, hang)
        rich_line(rich_console(theirs, colour=colour), spans, hang)
    assert ours.getvalue() == theirs.getvalue()


@pytest.mark.parametrize("term", ["xterm", "unknown", ""])
@pytest.mark.parametrize("columns", ["", "33", "0", "wide"])
def test_how_wide_a_terminal_is(monkeypatch, term, columns):
    """As rich finds it out, whatever the environment says."""
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("COLUMNS", columns)
    assert Colour(io.StringIO())._width == rich_console(io.StringIO(), colour=True).width
