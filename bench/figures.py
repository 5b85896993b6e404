"""Samples to figures: medians, ratios per round, growth exponents; and the lines of the table."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

__all__ = ["Line", "alternated", "exponent", "line_of", "median", "micros", "millis"]

median = statistics.median


class Line(NamedTuple):
    """One line of the table: what was measured, and whether the mark was reached."""

    what: str
    ratio: float
    """The median over the rounds."""
    spread: tuple[float, float]
    """The lowest and the highest round."""
    mark: float | None
    """At most this; None for a figure that is only told."""
    ours: str
    floor: str

    @property
    def met(self) -> bool | None:
        """Whether the mark was reached; None if there is none."""
        return None if self.mark is None else self.ratio <= self.mark


def line_of(
    what: str, ratios: Sequence[float], mark: float | None, *, ours: str = "", floor: str = ""
) -> Line:
    """A line from one ratio per round."""
    return Line(what, median(ratios), (min(ratios), max(ratios)), mark, ours, floor)


def exponent(points: Sequence[tuple[int, float]]) -> float:
    """The slope of log(cost) over log(n), by least squares: 0 is flat, 1 is linear."""
    xs = [math.log(n) for n, _ in points]
    ys = [math.log(cost) for _, cost in points]
    return statistics.linear_regression(xs, ys).slope


def micros(nanoseconds: float) -> str:
    """A duration for people."""
    return f"{nanoseconds / 1e3:.2f} us"


def millis(nanoseconds: float) -> str:
    """A duration for people."""
    return f"{nanoseconds / 1e6:.1f} ms"


def alternated(count: int, *works: Callable[[], Any]) -> list[float]:
    """The median nanoseconds of each, called in turn, so that all see the same machine."""
    spent: list[list[int]] = [[] for _ in works]
    for _ in range(count):
        for work, times in zip(works, spent, strict=True):
            begin = time.perf_counter_ns()
            work()
            times.append(time.perf_counter_ns() - begin)
    return [median(times) for times in spent]
