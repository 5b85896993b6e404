"""Counts and distributions, kept in memory, and the text that Prometheus reads."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator
from typing import Literal, NamedTuple, Protocol

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


# Every metric there is: its names, its kind, and what it counts.


Kind = Literal["counter", "gauge", "histogram"]
# An append to a file takes some microseconds, a flush to a bucket may take seconds.
_TIMES_S = (*tuple(float(f"{step}e{power}") for power in range(-6, 1) for step in (1, 2.5, 5)), 10)
_SIZES_BYTES = tuple(float(1 << power) for power in range(8, 27, 2))


class Metric(NamedTuple):
    """One thing that is measured."""

    name: str
    """As Prometheus has it."""
    otel: str
    """As OpenTelemetry has it."""
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    unit: str = "1"
    buckets: tuple[float, ...] = ()
    begins: tuple[tuple[str, ...], ...] = ()
    """Labels that are there from the beginning, with 0, so that a first failure is a change."""


def _counter(name: str, help: str, *labels: str, unit: str = "1", begins: str = "") -> Metric:
    known = tuple((value,) for value in begins.split())
    otel = f"holdfast.{name.replace('_', '.')}"
    return Metric(f"holdfast_{name}_total", otel, "counter", help, labels, unit, (), known)


def _time(name: str, help: str, *labels: str) -> Metric:
    otel = f"holdfast.{name}.duration"
    return Metric(f"holdfast_{name}_seconds", otel, "histogram", help, labels, "s", _TIMES_S)


def _size(name: str, help: str) -> Metric:
    otel = f"holdfast.{name}.size"
    found = f"holdfast_{name}_size_bytes"
    return Metric(found, otel, "histogram", help, (), "By", _SIZES_BYTES)


def _gauge(name: str, help: str, *labels: str, unit: str = "1") -> Metric:
    otel = f"holdfast.{name.replace('_', '.')}"
    return Metric(f"holdfast_{name}", otel, "gauge", help, labels, unit)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        # What this process did.
        _counter("events", "Events that were recorded.", unit="{event}"),
        _counter("bytes", "Bytes by which logs have grown.", unit="By"),
        _time("append", "Time to record an event, as its caller waits for it."),
        _time("flush", "Time of a flush, as its caller waits for it."),
        _time("sync", "Time that the medium takes to sync a log."),
        _time("load", "Time to open a session, new or not."),
        _counter("snapshots", "Snapshots, by how they ended.", "result", begins="ok failed"),
        _size("snapshot", "Size of snapshots."),
        _time("snapshot", "Time to take a snapshot, with the flush before it."),
        _counter(
            "restores", "Openings of a session with a past.", "result", begins="ok failed locked"
        ),
        _time("restore", "Time to open a session with a past."),
        _counter("recovery_issues", "What had to be mended or left out, by type.", "type"),
        _counter("notices", "What happened to sessions beside their events, by kind.", "kind"),
        _counter("errors", "Operations that failed, by error code.", "operation", "code"),
        _gauge("sessions_active", "Sessions that this process has open.", unit="{session}"),
        # What the store is like.
        _gauge("up", "Whether the store can be used."),
        _gauge("info", "The version that runs.", "version", "format"),
        _gauge("sessions", "Sessions in the store.", unit="{session}"),
        _gauge("sessions_by_state", "Sessions, by whether they can be read.", "state"),
        _gauge("sessions_by_status", "Sessions, by what they are at.", "status"),
        _gauge("sessions_open", "Sessions that a living writer has open.", unit="{session}"),
        _gauge("sessions_archived", "Sessions that are compressed.", unit="{session}"),
        _gauge("trash_sessions", "Sessions that can be brought back.", unit="{session}"),
        _gauge("stored_bytes", "Size of all logs.", unit="By"),
        _gauge("index_lag_sessions", "Sessions that the catalogue has to read on."),
        _gauge("index_lag_bytes", "Bytes that the catalogue has to read.", unit="By"),
        _gauge("disk_free_bytes", "Space that is left for the store.", unit="By"),
        _gauge("last_activity_seconds", "When a session last changed, in Unix time.", unit="s"),
        # What the service did.
        _counter(
            "http_requests", "Requests, by what was asked and the status.", "endpoint", "status"
        ),
        _time("http_request", "Time to answer a request, but for streams.", "endpoint"),
    )
}
"""All of them, by the name that Prometheus has for it."""
