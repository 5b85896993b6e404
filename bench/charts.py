"""The charts of the results, and their files for the pages."""

from __future__ import annotations

import os
from collections.abc import Mapping

from bench.child import ROOT
from bench.figures import Line
from bench.goals import GOALS
from bench.kept import Section
from holdfast.apps.render.charts import BAD, GOOD, OTHER, Bar, bars, curves

__all__ = ["FOLDER", "curves", "draw", "save"]

FOLDER = os.path.join(ROOT, "docs", "internals", "pictures")


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
