"""Numbers, times and widths as people read them."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.apps.cli._options import When
from holdfast.apps.render.page import Column, Plain, Span, fit
from holdfast.apps.render.words import ago, clock, counted, day_time, short, size

NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "just now"),
        (59, "just now"),
        (-30, "just now"),
        (60, "1 min ago"),
        (3599, "59 min ago"),
        (3600, "1 h ago"),
        (86_399, "23 h ago"),
        (86_400, "1 d ago"),
        (29 * 86_400, "29 d ago"),
    ],
)
def test_how_long_ago(seconds, words):
    """Recent times are told by their distance."""
    assert ago(NOW - seconds * 1000, NOW) == words


def test_far_away_times_are_dates():
    """Old times and times in the future are dates; an unknown one is nothing."""
    assert ago(NOW - 31 * 86_400_000, NOW) == day_time(NOW - 31 * 86_400_000)[:10]
    assert ago(NOW + 86_400_000 * 3, NOW).startswith("20")
    assert ago(0, NOW) == day_time(0) == clock(0) == ""


@given(st.integers())
def test_any_time_can_be_told(time_ms):
    """A log may claim any time; telling it never fails."""
    assert isinstance(ago(time_ms, NOW) + day_time(time_ms) + clock(time_ms), str)


def test_numbers():
    """Counts, short numbers and sizes."""
    assert [counted(1, "event"), counted(2000, "event")] == ["1 event", "2,000 events"]
    numbers = [0, 999, 1000, 12_345, 123_456, 999_999, 1_000_000, 5_000_000_000]
    assert [short(n) for n in numbers] == [*("0", "999", "1.0k", "12.3k", "123k", "1000k", "1.0M", "5.0G")]
    assert [size(1), size(999), size(1500), size(2_000_000), size(10**18)] == [
        *("1 byte", "999 bytes", "1.5 kB", "2.0 MB", "1000.0 PB")
    ]


def moment(text, *, end=False):
    """What an option makes of a text."""
    return When(end=end).convert(text, None, None)


def test_times_ago():
    """Minutes, hours, days and weeks back from now."""
    for text, delta in {
        "30m": timedelta(minutes=30),
        "2h": timedelta(hours=2),
        "3d": timedelta(days=3),
        "1w": timedelta(weeks=1),
    }.items():
        assert abs(datetime.now().astimezone() - delta - moment(text)) < timedelta(minutes=2)


def test_days():
    """A day is its beginning for --since and its end for --until."""
    since, until = moment("2026-05-01"), moment("2026-05-01", end=True)
    assert since.isoformat()[:19] == "2026-05-01T00:00:00"
    assert until - since == timedelta(days=1, milliseconds=-1)
    assert moment("2026-05-01T12:00:00Z").timestamp() == 1_777_636_800
    assert moment("yesterday") < moment("today") <= datetime.now().astimezone()


@given(st.text())
def test_any_text_is_a_time_or_wrong_usage(text):
    """Nothing but a usage error comes of a text that is no time."""
    try:
        found = moment(text)
    except click.BadParameter:
        return
    assert found.tzinfo is not None


COLUMNS = [
    Column("ID"),
    Column("TITLE", flexible=True),
    Column("TAGS", flexible=True, optional=True, spared=True),
    Column("STATE", optional=True),
]


def rows(*cells):
    """Rows of spans."""
    return [[Span(text) for text in row] for row in cells]


def test_a_wide_terminal_shows_everything():
    """With room for all, columns are as wide as their widest cell."""
    assert fit(COLUMNS, rows(["a" * 26, "b" * 30, "c" * 10, "ok"]), 200) == ([0, 1, 2, 3], [26, 30, 10, 5])


def test_empty_optional_columns_go():
    """An optional column that is empty in every row is left out."""
    assert fit(COLUMNS, rows(["a", "b", "", ""]), 200)[0] == [0, 1]


def test_a_narrow_terminal_cuts_and_spares():
    """First what can be spared goes, then the flexible columns are cut."""
    kept, widths = fit(COLUMNS, rows(["a" * 26, "b" * 99, "c" * 99, "damaged"]), 60)
    assert kept == [0, 1, 3]
    assert sum(widths) + 2 * 2 <= 60


@given(st.lists(st.lists(st.integers(0, 120), min_size=4, max_size=4), max_size=4), st.integers(1, 300))
def test_tables_fit_where_they_can(lengths, width):
    """A table is never wider than the terminal while a flexible column can still give way."""
    table = rows(*[["x" * length for length in row] for row in lengths])
    kept, widths = fit(COLUMNS, table, width)
    total = sum(widths) + 2 * (len(kept) - 1)
    rigid = all(w <= 6 for i, w in zip(kept, widths, strict=True) if COLUMNS[i].flexible)
    assert total <= width or rigid


def test_plain_tables_align_wide_characters(capsys):
    """In plain text, too, a character of two columns counts as two."""
    Plain(sys.stdout).table([Column("A"), Column("B")], rows(["漢字", "x"], ["abcd", "y"]))
    assert capsys.readouterr().out.splitlines() == ["A     B", "漢字  x", "abcd  y"]
