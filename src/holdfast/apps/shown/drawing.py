"""Figures drawn with characters: bars, sparklines, columns, a calendar. Pure: numbers to text."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import NamedTuple

__all__ = ["Columns", "bar", "calendar", "columns", "sparkline"]

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = " ▁▂▃▄▅▆▇█"
_SHADES = "·░▒▓█"
_WEEK = 7
_MONTH_CHARS = 3


def bar(value: float, most: float, width: int) -> str:
    """A bar of at most ``width`` characters; anything above nothing is seen."""
    if value <= 0 or most <= 0:
        return ""
    eighths = max(1, round(width * 8 * min(value / most, 1)))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def sparkline(values: Sequence[float]) -> str:
    """One character for each value, as high as its share of the largest."""
    most = max(values, default=0)
    return "".join(_level(value, most) for value in values)


def _level(value: float, most: float) -> str:
    if value <= 0 or most <= 0:
        return _LEVELS[1] if most > 0 else " "
    return _LEVELS[max(1, round(8 * value / most))]


class Columns(NamedTuple):
    """A chart of columns, from top to bottom, and how many values there was room for."""

    rows: list[str]
    shown: int
    per_value: int
    """Characters of one value."""


def columns(values: Sequence[float], width: int, height: int) -> Columns:
    """The newest of the values, one beside the other, as wide as there is room."""
    per_value = max(1, min(4, width // max(len(values), 1)))
    shown = min(len(values), width // per_value)
    kept = values[-shown:] if shown else []
    most = max(kept, default=0)
    rows = []
    for row in range(height, 0, -1):
        cells = (_cell(value, most, row, height) for value in kept)
        gap = " " if per_value > 1 else ""
        rows.append("".join(cell * (per_value - len(gap)) + gap for cell in cells).rstrip())
    return Columns(rows, shown, per_value)


def _cell(value: float, most: float, row: int, height: int) -> str:
    if value <= 0 or most <= 0:
        return " "
    eighths = max(1, round(value / most * height * 8)) - (row - 1) * 8
    return _LEVELS[max(0, min(8, eighths))]


def calendar(days: Mapping[str, int], width: int) -> list[str]:
    """A row for each weekday, a column for each week up to the last day with activity.

    The first row names the months. How dark a day is says how much happened.
    """
    if not days:
        return []
    last = dt.date.fromisoformat(max(days))
    weeks = max(1, min(53, (width - 5) // 2))
    first_active = dt.date.fromisoformat(min(days))
    monday = last - dt.timedelta(days=last.weekday())
    needed = (monday - first_active).days // _WEEK + 2 if monday > first_active else 1
    weeks = min(weeks, max(needed, min(weeks, 12)), _weeks_before(monday))
    mondays = [monday - dt.timedelta(weeks=number) for number in range(weeks - 1, -1, -1)]
    bounds = _bounds(days)
    rows = [_months(mondays)]
    for weekday, name in enumerate(("Mon", "", "Wed", "", "Fri", "", "Sun")):
        shades = (_shade(days, start, weekday, last, bounds) for start in mondays)
        rows.append(f"{name:4} {' '.join(shades)}".rstrip())
    return rows


def _weeks_before(monday: dt.date) -> int:
    """How many weeks the calendar has before that day."""
    return max(1, monday.toordinal() // _WEEK)


def _months(mondays: Sequence[dt.date]) -> str:
    """The name of a month above the first week that begins in it, where there is room."""
    line = [" "] * (5 + 2 * len(mondays) + _MONTH_CHARS)
    free = 0
    for number, monday in enumerate(mondays):
        before = mondays[number - 1].month if number else 0
        after = mondays[number + 1].month if number + 1 < len(mondays) else monday.month
        place = 5 + 2 * number
        if before != monday.month == after and place >= free:
            line[place : place + _MONTH_CHARS] = monday.strftime("%b")
            free = place + _MONTH_CHARS + 1
    return "".join(line).rstrip()


def _bounds(days: Mapping[str, int]) -> list[int]:
    """What is a little and what is a lot, by the quarters of the active days."""
    active = sorted(count for count in days.values() if count > 0)
    if not active:
        return []
    return [active[min(len(active) - 1, len(active) * quarter // 4)] for quarter in (1, 2, 3)]


def _shade(
    days: Mapping[str, int], monday: dt.date, weekday: int, last: dt.date, bounds: Sequence[int]
) -> str:
    if (last - monday).days < weekday:
        return " "
    count = days.get((monday + dt.timedelta(days=weekday)).isoformat(), 0)
    if count <= 0:
        return _SHADES[0]
    return _SHADES[1 + sum(count >= bound for bound in bounds)]
