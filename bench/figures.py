"""Samples to figures: medians, ratios per round, growth exponents; and the lines of the table."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from bench.goals import GOALS

__all__ = ["Line", "alternated", "exponent", "high", "line_of", "median", "micros", "millis", "ratios_of"]

median = statistics.median


class Line(NamedTuple):
    """One line of the table: what was measured, and whether the mark was reached."""

    what: str
    ratio: float
    """The median over the rounds."""
    spread: tuple[float, float]
    """The lowest and the highest round."""
    mark: float | None
    """The mark; None for a figure without one."""
    ours: str
    floor: str
    goal: str = ""
    """The name of its target in `bench/goals.py`, which has the mark."""
    at_least: bool = False
    """True if more is better."""
    chart: tuple[tuple[str, float], ...] = ()
    """The points or bars of the figure's chart."""

    @property
    def met(self) -> bool | None:
        """Return whether the mark was reached; None if there is none."""
        if self.mark is None:
            return None
        return self.ratio >= self.mark if self.at_least else self.ratio <= self.mark

    def shows(self, goal: str) -> Line:
        """Return the same line as the figure of a target, with its mark."""
        promise = GOALS[goal]
        return self._replace(goal=goal, mark=promise.mark, at_least=promise.at_least)


def line_of(what: str, ratios: Sequence[float], mark: float | None, *, ours: str = "", floor: str = "") -> Line:
    """Return a line from one ratio per round."""
    return Line(what, median(ratios), (min(ratios), max(ratios)), mark, ours, floor)


def ratios_of(ours: Sequence[float], floors: Sequence[float]) -> list[float]:
    """Return the ratios of ours to the floor of the same round, round by round."""
    return [one / floor for one, floor in zip(ours, floors, strict=True)]


def high(spent: Sequence[float], share: float) -> float:
    """Return the value below which a given share of all values is."""
    return sorted(spent)[min(len(spent) - 1, int(len(spent) * share))]


def exponent(points: Sequence[tuple[int, float]]) -> float:
    """Return the slope of log(cost) over log(n), by least squares: 0 is flat, 1 is linear."""
    xs = [math.log(n) for n, _ in points]
    ys = [math.log(cost) for _, cost in points]
    return statistics.linear_regression(xs, ys).slope


def micros(nanoseconds: float) -> str:
    """Return a duration for people."""
    return f"{nanoseconds / 1e3:.2f} us"


def millis(nanoseconds: float) -> str:
    """Return a duration for people."""
    return f"{nanoseconds / 1e6:.1f} ms"


def alternated(count: int, *works: Callable[[], Any], run: int = 1) -> list[float]:
    """Return the median nanoseconds of each, called in turn, ``run`` times in a row, under the same load."""
    spent: list[list[int]] = [[] for _ in works]
    for _ in range(max(count // run, 1)):
        for work, times in zip(works, spent, strict=True):
            for _ in range(run):
                begin = time.perf_counter_ns()
                work()
                times.append(time.perf_counter_ns() - begin)
    return [median(times) for times in spent]
