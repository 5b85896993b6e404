"""The charts of the results as SVG on logarithmic scales, and their files for the pages."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import NamedTuple

from bench.child import ROOT
from bench.figures import Line
from bench.goals import GOALS
from bench.kept import Section

__all__ = ["FOLDER", "curves", "draw", "save"]

FOLDER = os.path.join(ROOT, "docs", "internals", "pictures")
GOOD, BAD, OTHER = "#2a7f62", "#c4472c", "#8a93a6"
_INK, _GRID = "#4a5160", "#d7dbe2"
_COLOURS = (GOOD, "#2f6db5", BAD, "#8a5fb0", "#b58a1f", "#5f6b7a", "#1f9aa8", "#a84f7a")
_WIDTH = 860
_LEFT, _RIGHT, _TOP, _ROW = 380, 90, 44, 20
_LEAST = 1e-4  # what is nothing has no logarithm
_PLOT = (70, 44, 560, 280)


def draw(sections: Mapping[str, Section]) -> None:
    """Draw every chart that has figures."""
    found = {line.goal: line for one in sections.values() for line in one.lines if line.goal}
    if marks := _marks(found):
        save("bench-marks.svg", bars("Share of the mark: shorter is better", marks, at=1.0))
    if "append-rival" in found:
        save("bench-rivals.svg", bars("One append, microseconds", _rivals(found["append-rival"])))
    grown = {"append": found.get("growth"), "messages() after it": found.get("messages")}
    series = {name: _points(line) for name, line in grown.items() if line is not None}
    if series:
        title = "One append in a session of n events"
        save("bench-growth.svg", curves(title, series, "events", "microseconds"))


def _marks(found: Mapping[str, Line]) -> list[Bar]:
    made = []
    for name, goal in GOALS.items():
        line = found.get(name)
        if line is None:
            continue
        share = goal.mark / line.ratio if goal.at_least else line.ratio / goal.mark
        said = f"{line.ratio:,.3g}{goal.unit} of {goal.mark:g}"
        made.append(Bar(goal.what, share, said, GOOD if line.met else BAD))
    return made


def _rivals(line: Line) -> list[Bar]:
    return [Bar(name, value, f"{value:,.1f}", GOOD if name == "Holdfast" else OTHER) for name, value in line.chart]


def _points(line: Line) -> list[tuple[float, float]]:
    return [(float(n), cost) for n, cost in line.chart]


def save(name: str, picture: str) -> None:
    """Write a picture to its file for the pages."""
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as file:
        file.write(picture)


def _element(name: str, *inside: str, **given: object) -> str:
    """Return an element; ``font_size`` becomes ``font-size``, and fractions are rounded to one digit."""
    pairs = (
        (key.rstrip("_").replace("_", "-"), f"{value:.1f}" if isinstance(value, float) else value)
        for key, value in given.items()
    )
    attributes = "".join(f' {key}="{escape(str(value))}"' for key, value in pairs)
    return f"<{name}{attributes}>{''.join(inside)}</{name}>" if inside else f"<{name}{attributes}/>"


def _text(x: float, y: float, said: str, *, anchor: str = "start", fill: str = _INK) -> str:
    return _element("text", escape(said), x=x, y=y, font_size=12, text_anchor=anchor, fill=fill)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str = _GRID) -> str:
    return _element("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=colour, stroke_width=1)


# The colours can be read on a light and on a dark page.
class Bar(NamedTuple):
    """One bar: what it stands for, how long, what is written at its end, and its colour."""

    label: str
    value: float
    said: str
    colour: str


def bars(title: str, rows: Sequence[Bar], at: float | None = None) -> str:
    """Horizontal bars on a logarithmic scale, with a line at ``at``."""
    values = [max(row.value, _LEAST) for row in rows]
    across, marks = _scale([*values, at] if at else values, _LEFT, _WIDTH - _RIGHT, space=0.05)
    height = _TOP + _ROW * len(rows) + 24
    parts = []
    for mark in marks:
        parts.append(_line(across(mark), _TOP - 6, across(mark), height - 20))
        parts.append(_text(across(mark), height - 6, f"{mark:g}", anchor="middle"))
    for number, (row, value) in enumerate(zip(rows, values, strict=True)):
        y, end = _TOP + _ROW * number, max(across(value), _LEFT + 1.0)
        parts.append(_text(_LEFT - 8, y + 12, row.label, anchor="end"))
        parts.append(_element("rect", x=_LEFT, y=y + 2, width=end - _LEFT, height=_ROW - 7, fill=row.colour))
        parts.append(_text(end + 6, y + 12, row.said))
    if at is not None:
        parts.append(_line(across(at), _TOP - 6, across(at), height - 20, _INK))
    return _picture(height, title, parts)


def curves(title: str, series: Mapping[str, Sequence[tuple[float, float]]], x_said: str, y_said: str) -> str:
    """Curves on two logarithmic scales, each with its name at its end."""
    left, top, width, height = _PLOT
    right, bottom = left + width, top + height
    across, x_marks = _scale([x for points in series.values() for x, _ in points], left, right)
    down, y_marks = _scale([y for points in series.values() for _, y in points], bottom, top)
    parts = []
    for mark in x_marks:
        parts.append(_line(across(mark), top, across(mark), bottom))
        parts.append(_text(across(mark), bottom + 18, f"{mark:,.0f}", anchor="middle"))
    for mark in y_marks:
        parts.append(_line(left, down(mark), right, down(mark)))
        parts.append(_text(left - 8, down(mark) + 4, f"{mark:g}", anchor="end"))
    parts.append(_text(right, bottom + 36, x_said, anchor="end"))
    parts.append(_text(left - 56, top - 10, y_said))
    for number, (name, points) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in points)
        parts.append(_element("polyline", points=path, fill="none", stroke=colour, stroke_width=2))
        end_x, end_y = points[-1]
        parts.append(_text(across(end_x) + 8, down(end_y) + 4, name, fill=colour))
    return _picture(bottom + 48, title, parts)


def _scale(
    values: Sequence[float], start: float, end: float, *, space: float = 0.0
) -> tuple[Callable[[float], float], list[float]]:
    """Return the position of a value between two places, and the powers of ten around all values."""
    low = math.floor(math.log10(min(values)) - space)
    high = max(math.ceil(math.log10(max(values)) + space), low + 1)

    def place(value: float) -> float:
        return start + (math.log10(value) - low) / (high - low) * (end - start)

    return place, [10.0**power for power in range(low, high + 1)]


def _picture(height: int, title: str, parts: Sequence[str]) -> str:
    shown = [
        _element("title", escape(title)),
        _element("rect", width=_WIDTH, height=height, rx=6, fill="#ffffff"),
        _element("text", escape(title), x=12, y=24, font_size=15, fill=_INK, font_weight=600),
    ]
    made = _element(
        "svg",
        "\n".join(["", *shown, *parts, ""]),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_WIDTH} {height}",
        role="img",
        font_family="system-ui, sans-serif",
    )
    return made + "\n"
