"""Counts and distributions, kept in memory, and the text that Prometheus reads."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator
from typing import Protocol

from holdfast.observe._names import METRICS, Metric

__all__ = ["CONTENT_TYPE", "Figures", "Sink"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The media type of the text."""

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
Labels = tuple[str, ...]


class Sink(Protocol):
    """Where measurements go. Any thread may call it."""

    def add(self, name: str, amount: float = 1, *labels: str) -> None:
        """Count something."""

    def observe(self, name: str, value: float, *labels: str) -> None:
        """Put one value into a distribution."""


class _Distribution:
    __slots__ = ("counts", "sum")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * (buckets + 1)
        self.sum = 0.0


class Figures:
    """The metrics of one process, or of one look at a store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, dict[Labels, float]] = {}
        self._distributions: dict[str, dict[Labels, _Distribution]] = {}
        for metric in METRICS.values():
            if metric.kind == "histogram" and not metric.labels:
                self._distribution(metric, ())
            elif metric.kind == "counter" and not metric.labels:
                self._values[metric.name] = {(): 0}
            elif metric.begins:
                self._values[metric.name] = dict.fromkeys(metric.begins, 0)

    def add(self, name: str, amount: float = 1, *labels: str) -> None:
        """Count something."""
        with self._lock:
            known = self._values.setdefault(METRICS[name].name, {})
            known[labels] = known.get(labels, 0) + amount

    def set(self, name: str, value: float, *labels: str) -> None:
        """Say how something is now."""
        with self._lock:
            self._values.setdefault(METRICS[name].name, {})[labels] = value

    def observe(self, name: str, value: float, *labels: str) -> None:
        """Put one value into a distribution."""
        metric = METRICS[name]
        with self._lock:
            found = self._distribution(metric, labels)
            found.counts[bisect_left(metric.buckets, value)] += 1
            found.sum += value

    def value(self, name: str, *labels: str) -> float:
        """One figure: of a distribution, how many values it has."""
        with self._lock:
            if METRICS[name].kind == "histogram":
                found = self._distributions.get(name, {}).get(labels)
                return 0 if found is None else sum(found.counts)
            return self._values.get(name, {}).get(labels, 0)

    def values(self, name: str) -> dict[Labels, float]:
        """A count or a state, by its labels; nothing if nobody said it."""
        with self._lock:
            return dict(self._values.get(name, {}))

    def states(self) -> Iterator[tuple[Metric, dict[Labels, float]]]:
        """Every gauge that was said, by its labels."""
        for metric in METRICS.values():
            if metric.kind == "gauge" and (found := self.values(metric.name)):
                yield metric, found

    def text(self, kinds: tuple[str, ...] = ("counter", "gauge", "histogram")) -> str:
        """All of them as Prometheus reads them; ``kinds`` leaves others out."""
        with self._lock:
            return "".join(
                line
                for metric in METRICS.values()
                if metric.kind in kinds
                for line in self._lines(metric)
            )

    def _distribution(self, metric: Metric, labels: Labels) -> _Distribution:
        known = self._distributions.setdefault(metric.name, {})
        if labels not in known:
            known[labels] = _Distribution(len(metric.buckets))
        return known[labels]

    def _lines(self, metric: Metric) -> Iterator[str]:
        values = self._values.get(metric.name, {})
        distributions = self._distributions.get(metric.name, {})
        if not values and not distributions:
            return
        yield f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}\n"
        for labels, value in sorted(values.items()):
            yield f"{metric.name}{_labelled(metric, labels)} {_number(value)}\n"
        for labels, found in sorted(distributions.items()):
            yield from _distribution_lines(metric, labels, found)


def _distribution_lines(metric: Metric, labels: Labels, found: _Distribution) -> Iterator[str]:
    total = 0
    for edge, count in zip((*metric.buckets, None), found.counts, strict=True):
        total += count
        shown = "+Inf" if edge is None else f"{edge:.6g}"
        yield f"{metric.name}_bucket{_labelled(metric, labels, shown)} {total}\n"
    yield f"{metric.name}_sum{_labelled(metric, labels)} {_number(found.sum)}\n"
    yield f"{metric.name}_count{_labelled(metric, labels)} {total}\n"


def _labelled(metric: Metric, labels: Labels, edge: str | None = None) -> str:
    pairs = [*zip(metric.labels, labels, strict=True)]
    if edge is not None:
        pairs.append(("le", edge))
    inside = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs)
    return f"{{{inside}}}" if inside else ""


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
