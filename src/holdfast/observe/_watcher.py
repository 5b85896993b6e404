"""From what sessions do to figures.

Apart from them, since the figures of a store are told by programs that open no session.
"""

from __future__ import annotations

from typing import Any

from holdfast.errors import HoldfastError, Locked, NotFound, UsageError
from holdfast.model import Event, Notice
from holdfast.observe._figures import Figures, Sink
from holdfast.session import Finished, Observer, Observers

_UNKNOWN = "other"


class Watching(Observer):
    """Gives a sink what is worth counting."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._watched: tuple[Observers, ...] = ()

    def join(self, observers: Observers) -> None:
        """Add a store to those that are observed."""
        self._watched = (*self._watched, observers)

    @property
    def active(self) -> int:
        """The number of sessions that this process has open in the observed stores."""
        return sum(observers.active for observers in self._watched)

    def end(self, begun: Any, done: Finished) -> None:
        sink, error = self._sink, done.error
        if done.idle:
            return
        if error is not None:
            sink.add("holdfast_errors_total", 1, done.operation, code_of(error))
        else:
            sink.observe(f"holdfast_{done.operation}_seconds", done.seconds)
        if done.events:
            sink.add("holdfast_events_total", done.events)
        if done.size_bytes:
            sink.add("holdfast_bytes_total", done.size_bytes)
        if done.operation == "load":
            # A usage error is no failed restore.
            if error is None and done.restored:
                sink.add("holdfast_restores_total", 1, "ok")
                sink.observe("holdfast_restore_seconds", done.seconds)
            elif error is not None and not isinstance(error, NotFound | UsageError):
                sink.add("holdfast_restores_total", 1, "locked" if isinstance(error, Locked) else "failed")

    def tell(self, session_id: str, item: Event | Notice) -> None:
        if isinstance(item, Event):
            if item.type == "interrupted":
                self._sink.add("holdfast_recovery_issues_total", 1, "interrupted")
            return
        sink, kind = self._sink, item.kind
        sink.add("holdfast_notices_total", 1, kind)
        if kind == "snapshot_created":
            sink.add("holdfast_snapshots_total", 1, "ok")
            sink.observe("holdfast_snapshot_size_bytes", item.detail["size_bytes"])
        elif kind == "snapshot_failed":
            sink.add("holdfast_snapshots_total", 1, "failed")
        elif kind == "torn_tail":
            sink.add("holdfast_recovery_issues_total", 1, "torn_tail")
        elif kind == "recovered":
            for type, count in item.detail["issues"].items():
                sink.add("holdfast_recovery_issues_total", count, type)


class Metrics(Watching):
    """An observer that counts in memory, and shows it to Prometheus.

    ``hf.observe(metrics)`` begins; ``metrics.text()`` is what a scrape gets. It may watch several stores.
    """

    def __init__(self) -> None:
        self.figures = Figures()
        super().__init__(self.figures)

    def text(self) -> str:
        """Return all figures so far in the text format of Prometheus."""
        self.figures.set("holdfast_sessions_active", self.active)
        return self.figures.text()


def code_of(error: BaseException) -> str:
    """Return the stable code of an error; never its words, which may name a session."""
    return error.code if isinstance(error, HoldfastError) else _UNKNOWN


# The state of a store as figures: for Prometheus, and for its operators.
