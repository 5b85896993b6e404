"""Charts of the results as SVG, written by hand: bars and curves on logarithmic scales."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from bench.child import ROOT
from bench.figures import Line
from bench.goals import GOALS
from bench.kept import Section

__all__ = ["FOLDER", "Bar", "bars", "curves", "draw", "save"]

FOLDER = os.path.join(ROOT, "docs", "internals", "pictures")
_WIDTH = 860
_LEFT = 380
_RIGHT = 90
_ROW = 20
_TOP = 44
_GOOD, _BAD, _OTHER, _INK, _GRID = "#2a7f62", "#c4472c", "#8a93a6", "#4a5160", "#d7dbe2"
_PLOT = (70, 44, 560, 280)
_COLOURS = ("#2a7f62", "#2f6db5", "#c4472c", "#8a5fb0", "#b58a1f", "#5f6b7a", "#1f9aa8", "#a84f7a")


class Bar(NamedTuple):
    """One bar: what it stands for, how long, what is written at its end, and its colour."""

    label: str
    value: float
    said: str
    colour: str


def draw(sections: Mapping[str, Section]) -> None:
    """Every chart that the figures are there for."""
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
        made.append(Bar(goal.what, share, said, _GOOD if line.met else _BAD))
    return made


def _rivals(line: Line) -> list[Bar]:
    return [
        Bar(name, value, f"{value:,.1f}", _GOOD if name == "Holdfast" else _OTHER)
        for name, value in line.chart
    ]


def _points(line: Line) -> list[tuple[float, float]]:
    return [(float(n), cost) for n, cost in line.chart]


def bars(title: str, rows: Sequence[Bar], at: float | None = None) -> str:
    """Horizontal bars on a logarithmic scale, with a line at ``at``."""
    values = [max(row.value, 1e-4) for row in rows] + ([at] if at else [])
    low = math.floor(math.log10(min(values)) - 0.05)
    high = max(math.ceil(math.log10(max(values)) + 0.05), low + 1)
    span = _WIDTH - _LEFT - _RIGHT

    def across(value: float) -> float:
        place = (math.log10(max(value, 1e-4)) - low) / (high - low)
        return _LEFT + max(0.0, place) * span

    height = _TOP + _ROW * len(rows) + 24
    parts = [_text(12, 24, title, size=15, bold=True)]
    for power in range(low, high + 1):
        x = across(10.0**power)
        parts.append(_line(x, _TOP - 6, x, height - 20))
        parts.append(_text(x, height - 6, f"{10.0**power:g}", anchor="middle"))
    for number, row in enumerate(rows):
        y = _TOP + _ROW * number
        end = max(across(row.value), _LEFT + 1)
        parts.append(_text(_LEFT - 8, y + 12, row.label, anchor="end"))
        parts.append(
            f'<rect x="{_LEFT}" y="{y + 2}" width="{end - _LEFT:.1f}" height="{_ROW - 7}"'
            f' fill="{row.colour}"/>'
        )
        parts.append(_text(end + 6, y + 12, row.said))
    if at is not None:
        parts.append(_line(across(at), _TOP - 6, across(at), height - 20, _INK))
    return _svg(_WIDTH, height, title, parts)


def curves(
    title: str, series: Mapping[str, Sequence[tuple[float, float]]], x_said: str, y_said: str
) -> str:
    """Curves on two logarithmic scales, each with its name at its end."""
    left, top, width, height = _PLOT
    xs = [x for points in series.values() for x, _ in points]
    ys = [y for points in series.values() for _, y in points]
    x_low, x_high = _decades(xs)
    y_low, y_high = _decades(ys)

    def across(value: float) -> float:
        return left + (math.log10(value) - x_low) / (x_high - x_low) * width

    def down(value: float) -> float:
        return top + height - (math.log10(value) - y_low) / (y_high - y_low) * height

    parts = [_text(12, 24, title, size=15, bold=True)]
    for power in range(x_low, x_high + 1):
        x = across(10.0**power)
        parts.append(_line(x, top, x, top + height))
        parts.append(_text(x, top + height + 18, f"{10**power:,}", anchor="middle"))
    for power in range(y_low, y_high + 1):
        y = down(10.0**power)
        parts.append(_line(left, y, left + width, y))
        parts.append(_text(left - 8, y + 4, f"{10.0**power:g}", anchor="end"))
    parts.append(_text(left + width, top + height + 36, x_said, anchor="end"))
    parts.append(_text(left - 56, top - 10, y_said))
    for number, (name, points) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        end_x, end_y = points[-1]
        parts.append(_text(across(end_x) + 8, down(end_y) + 4, name, fill=colour))
    return _svg(_WIDTH, top + height + 48, title, parts)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low = math.floor(math.log10(min(values)))
    return low, max(math.ceil(math.log10(max(values))), low + 1)


def _text(
    x: float,
    y: float,
    said: str,
    *,
    anchor: str = "start",
    size: int = 12,
    bold: bool = False,
    fill: str = _INK,
) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"'
        f' fill="{fill}"{weight}>{escape(said)}</text>'
    )


def _line(x1: float, y1: float, x2: float, y2: float, colour: str = _GRID) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"'
        ' stroke-width="1"/>'
    )


def _svg(width: int, height: float, title: str, parts: Sequence[str]) -> str:
    """A picture of its own: readable on a light and on a dark page."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" role="img"'
        f' font-family="system-ui, sans-serif"><title>{escape(title)}</title>'
        f'<rect width="{width}" height="{height:.0f}" rx="6" fill="#ffffff"/>'
    )
    return head + "\n" + "\n".join(parts) + "\n</svg>\n"


def save(name: str, picture: str) -> None:
    """Put a picture where the pages show it from."""
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as file:
        file.write(picture)
