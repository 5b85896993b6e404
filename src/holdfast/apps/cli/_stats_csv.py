"""Statistics as CSV: one table at a time."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.apps.cli._app import App
from holdfast.catalog._stats_shapes import (
    Period,
    SessionFigures,
    Share,
    Stats,
    ToolFigures,
    TopicCount,
)

__all__ = ["TABLES", "print_csv", "print_rows"]

_SHAPES: dict[str, type[msgspec.Struct]] = {
    "periods": Period,
    "models": Share,
    "agents": Share,
    "tags": Share,
    "tools": ToolFigures,
    "topics": TopicCount,
    "longest": SessionFigures,
    "most_expensive": SessionFigures,
}
TABLES = (*_SHAPES, "days", "hours", "weekdays")
# A spreadsheet takes a text that begins like this for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def print_csv(app: App, stats: Stats, table: str) -> None:
    """One table of the statistics, with a heading."""
    if table == "days":
        _print(app, ["day", "messages"], list(stats.days.items()))
    elif table in ("hours", "weekdays"):
        _print(app, [table[:-1], "messages"], list(enumerate(getattr(stats, table))))
    else:
        print_rows(app, _SHAPES[table], getattr(stats, table))


def print_rows(app: App, shape: type[msgspec.Struct], rows: Sequence[msgspec.Struct]) -> None:
    """Rows of one shape, a column for each member, the name first."""
    members = sorted(shape.__struct_fields__, key=lambda name: name not in _FIRST)
    _print(app, members, [[getattr(row, name) for name in members] for row in rows])


_FIRST = frozenset({"start", "name", "tag", "session_id", "title", "seq"})


def _print(app: App, heading: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    for row in (heading, *rows):
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(map(_safe, row))
        app.out.line(line.getvalue())


def _safe(value: Any) -> Any:
    if isinstance(value, dict):
        return " ".join(f"{name}:{count}" for name, count in value.items())
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
