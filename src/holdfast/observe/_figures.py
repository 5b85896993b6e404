"""Counts and distributions, kept in memory, and the text that Prometheus reads."""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from typing import Literal, Protocol

import msgspec

from holdfast.errors import HoldfastError
from holdfast.library import Holdfast
from holdfast.model import FORMAT_VERSION, STATUSES, VERSION

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The media type of the text."""

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
Labels = tuple[str, ...]


class Sink(Protocol):
    """The receiver of measurements. Any thread may call it."""

    def add(self, name: str, amount: float = 1, *labels: str) -> None:
        """Count something."""

    def observe(self, name: str, value: float, *labels: str) -> None:
        """Put one value into a distribution."""


class _Distribution(msgspec.Struct):
    counts: list[int]
    sum: float = 0.0


class Figures:
    """The metrics of one process, or of one look at a store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, dict[Labels, float]] = {}
        self._distributions: dict[str, dict[Labels, _Distribution]] = {}
        # From the beginning with 0: Prometheus sees a first failure only as a change.
        for metric in METRICS.values():
            if metric.kind == "histogram" and not metric.labels:
                self._distribution(metric, ())
            elif metric.begins:
                self._values[metric.name] = dict.fromkeys(metric.begins, 0)

    def add(self, name: str, amount: float = 1, *labels: str) -> None:
        with self._lock:
            known = self._values.setdefault(METRICS[name].name, {})
            known[labels] = known.get(labels, 0) + amount

    def set(self, name: str, value: float, *labels: str) -> None:
        """Say how something is now."""
        with self._lock:
            self._values.setdefault(METRICS[name].name, {})[labels] = value

    def observe(self, name: str, value: float, *labels: str) -> None:
        metric = METRICS[name]
        with self._lock:
            found = self._distribution(metric, labels)
            # Each value in one bucket here; the text adds them up, as Prometheus wants it.
            found.counts[bisect_left(metric.buckets, value)] += 1
            found.sum += value

    def value(self, name: str, *labels: str) -> float:
        """Return one figure; for a distribution, the number of its values."""
        with self._lock:
            found = self._distributions.get(name, {}).get(labels)
            return sum(found.counts) if found else self._values.get(name, {}).get(labels, 0)

    def values(self, name: str) -> dict[Labels, float]:
        """Return a count or a state by its labels; empty if it was never reported."""
        with self._lock:
            return dict(self._values.get(name, {}))

    def states(self) -> Iterator[tuple[Metric, dict[Labels, float]]]:
        """Yield every reported gauge, by its labels."""
        for metric in METRICS.values():
            if metric.kind == "gauge" and (found := self.values(metric.name)):
                yield metric, found

    def text(self, kinds: tuple[str, ...] = ("counter", "gauge", "histogram")) -> str:
        """Return all figures in the text format of Prometheus; ``kinds`` selects some."""
        with self._lock:
            return "".join(line for metric in METRICS.values() if metric.kind in kinds for line in self._lines(metric))

    def _distribution(self, metric: Metric, labels: Labels) -> _Distribution:
        known = self._distributions.setdefault(metric.name, {})
        if labels not in known:
            known[labels] = _Distribution([0] * (len(metric.buckets) + 1))
        return known[labels]

    def _lines(self, metric: Metric) -> Iterator[str]:
        name, values = metric.name, self._values.get(metric.name, {})
        distributions = self._distributions.get(name, {})
        if not values and not distributions:
            return
        yield f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind}\n"
        for labels, value in sorted(values.items()):
            yield f"{name}{_labelled(metric, labels)} {_number(value)}\n"
        for labels, found in sorted(distributions.items()):
            edges = [*(f"{edge:.6g}" for edge in metric.buckets), "+Inf"]
            for edge, total in zip(edges, accumulate(found.counts), strict=True):
                yield f"{name}_bucket{_labelled(metric, labels, ('le', edge))} {total}\n"
            yield f"{name}_sum{_labelled(metric, labels)} {_number(found.sum)}\n"
            yield f"{name}_count{_labelled(metric, labels)} {sum(found.counts)}\n"


def _labelled(metric: Metric, labels: Labels, *more: tuple[str, str]) -> str:
    pairs = [*zip(metric.labels, labels, strict=True), *more]
    inside = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs)
    return f"{{{inside}}}" if inside else ""


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


# Every metric there is: its names, its kind, and what it counts.
Kind = Literal["counter", "gauge", "histogram"]
# An append to a file takes some microseconds, a flush to a bucket may take seconds.
_TIMES_S = (*tuple(float(f"{step}e{power}") for power in range(-6, 1) for step in (1, 2.5, 5)), 10)
_SIZES = tuple(float(1 << power) for power in range(8, 27, 2))


class Metric(msgspec.Struct, frozen=True):
    """One thing that is measured."""

    name: str
    """The name in Prometheus."""
    otel: str
    """The name in OpenTelemetry."""
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    unit: str = "1"
    buckets: tuple[float, ...] = ()
    begins: tuple[tuple[str, ...], ...] = ()
    """Labels that are there from the beginning, with 0, so that a first failure is a change."""


def _counter(name: str, help: str, *labels: str, unit: str = "1", begins: str = "") -> Metric:
    known = tuple((value,) for value in begins.split()) if labels else ((),)
    otel = f"holdfast.{name.replace('_', '.')}"
    return Metric(f"holdfast_{name}_total", otel, "counter", help, labels, unit, begins=known)


def _time(name: str, help: str, *labels: str) -> Metric:
    otel = f"holdfast.{name}.duration"
    return Metric(f"holdfast_{name}_seconds", otel, "histogram", help, labels, "s", _TIMES_S)


def _size(name: str, help: str) -> Metric:
    return Metric(f"holdfast_{name}_size_bytes", f"holdfast.{name}.size", "histogram", help, (), "By", _SIZES)


def _gauge(name: str, help: str, *labels: str, unit: str = "1") -> Metric:
    return Metric(f"holdfast_{name}", f"holdfast.{name.replace('_', '.')}", "gauge", help, labels, unit)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        # Metrics of this process.
        _counter("events", "Events that were recorded.", unit="{event}"),
        _counter("bytes", "Bytes by which logs have grown.", unit="By"),
        _time("append", "Time to record an event, as its caller waits for it."),
        _time("flush", "Time of a flush, as its caller waits for it."),
        _time("sync", "Time that the medium takes to sync a log."),
        _time("load", "Time to open a session, new or not."),
        _counter("snapshots", "Snapshots, by how they ended.", "result", begins="ok failed"),
        _size("snapshot", "Size of snapshots."),
        _time("snapshot", "Time to take a snapshot, with the flush before it."),
        _counter("restores", "Openings of a session with a past.", "result", begins="ok failed locked"),
        _time("restore", "Time to open a session with a past."),
        _counter("recovery_issues", "What had to be mended or left out, by type.", "type"),
        _counter("notices", "What happened to sessions beside their events, by kind.", "kind"),
        _counter("errors", "Operations that failed, by error code.", "operation", "code"),
        _gauge("sessions_active", "Sessions that this process has open.", unit="{session}"),
        # Metrics of the store.
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
        # Metrics of the service.
        _counter("http_requests", "Requests, by what was asked and the status.", "endpoint", "status"),
        _time("http_request", "Time to answer a request, but for streams.", "endpoint"),
    )
}
"""All of them, by the name that Prometheus has for it."""

_STATES = ("ok", "damaged", "sealed", "too_new", "unreadable")
_PAGE = 1000


def store_figures(hf: Holdfast) -> Figures:
    """Return the figures of a whole store, each session listed once; for an unusable one ``holdfast_up 0`` alone."""
    figures = Figures()
    if add_health(figures, [hf]):
        _add_sessions(figures, hf)
    return figures


def add_health(figures: Figures, libraries: list[Holdfast]) -> bool:
    """Add the cheap figures of stores, summed; return whether all can be used."""
    figures.set("holdfast_info", 1, VERSION, str(FORMAT_VERSION))
    try:
        # All or nothing: a sum of some of the stores would look like sessions that were lost.
        for library in libraries:
            library.store.check()
        health = [library.catalog_health() for library in libraries]
    except HoldfastError:
        figures.set("holdfast_up", 0)
        return False
    figures.set("holdfast_up", 1)
    figures.set("holdfast_sessions", sum(one.sessions for one in health))
    figures.set("holdfast_index_lag_sessions", sum(one.lag_sessions for one in health))
    figures.set("holdfast_index_lag_bytes", sum(one.lag_bytes for one in health))
    # Only a store of files has a path.
    paths = [path for library in libraries if (path := getattr(library.store, "path", None)) is not None]
    if paths:
        figures.set("holdfast_disk_free_bytes", min(map(_disk_free, paths)))
    return True


def _disk_free(path: str) -> int:
    """Return the free bytes on the disk of a store on files."""
    # A store that nobody has written to yet has no folder; its disk is that of the one above.
    while not os.path.isdir(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def _add_sessions(figures: Figures, hf: Holdfast) -> None:
    states = Counter(dict.fromkeys(_STATES, 0))
    statuses: Counter[str] = Counter(dict.fromkeys(STATUSES, 0))
    size = is_open = archived = newest = 0
    page = hf.list(_PAGE)
    while True:
        for row in page:
            states[row.state] += 1
            statuses[row.status] += 1
            size += row.size_bytes
            is_open += row.open
            archived += row.archived
            newest = max(newest, row.updated_at)
        if page.next is None:
            break
        page = hf.list(_PAGE, after=page.next)
    for state, count in states.items():
        figures.set("holdfast_sessions_by_state", count, state)
    for status, count in statuses.items():
        figures.set("holdfast_sessions_by_status", count, status)
    figures.set("holdfast_stored_bytes", size)
    figures.set("holdfast_sessions_open", is_open)
    figures.set("holdfast_sessions_archived", archived)
    figures.set("holdfast_trash_sessions", sum(1 for _ in hf.store.entries("trash/")))
    if newest:
        figures.set("holdfast_last_activity_seconds", newest / 1000)


def dashboard() -> str:
    """Return the bundled Grafana dashboard as JSON for import; it requires a Prometheus data source."""
    from importlib.resources import files

    return files("holdfast.observe").joinpath("grafana-dashboard.json").read_text("utf-8")
