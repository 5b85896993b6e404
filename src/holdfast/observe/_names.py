"""Every metric there is: its names, its kind, and what it counts."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["METRICS", "Metric"]

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
