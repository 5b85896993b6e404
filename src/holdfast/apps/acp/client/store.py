"""Snapshots of sessions with external agents: views of the log, and when the log is folded."""

from __future__ import annotations

import builtins
import time
from typing import Any

import msgspec

from holdfast.apps.acp.client.config import SNAPSHOT_INTERVAL_S
from holdfast.apps.acp.client.view import SessionSnapshot, SnapshotMessage, fold_snapshot
from holdfast.errors import Conflict, HoldfastError, UsageError
from holdfast.library import Holdfast
from holdfast.model import Event, Notice
from holdfast.replay import fold
from holdfast.session import Session, Timers, resolve_blobs

__all__ = ["SnapshotStats", "SnapshotStore", "Snapshotter"]


Draft = Event | tuple[str, dict[str, Any]]


class SnapshotStore:
    """Sessions as single values. What is saved becomes events; what is loaded is folded from them.

    There is no second store: everything that reads sessions sees the same ones.
    """

    def __init__(self, library: Holdfast) -> None:
        self._library = library

    def save(self, snapshot: SessionSnapshot) -> None:
        """Record what the log of the session does not say yet, and fold it.

        Saving the same again records nothing. Raises Conflict if the log tells otherwise than the
        snapshot: what was recorded is never changed.
        """
        session = self._library.session(
            snapshot.session_id, provider_type=snapshot.provider_type or None
        )
        with session:
            known = self._view(session)
            session.extend(_missing(known, snapshot))
            session.snapshot()

    def load(self, session_id: str) -> SessionSnapshot:
        """A session as it is now.

        Raises NotFound, TooNew for a log of a later format, Damaged if an event cannot be read.
        """
        state = self._library.state(session_id)
        return fold_snapshot(session_id, state, self._events(session_id, state.seq))

    def delete(self, session_id: str) -> None:
        """Put the session into the trash. Raises NotFound, Locked while it is open, Forbidden."""
        self._library.delete(session_id)

    def list(self) -> builtins.list[SessionSnapshot]:
        """Return every session of which a snapshot is stored, as a value, sorted by id."""
        ids = sorted(self._library.session_ids())
        return [self.load(id) for id in ids if self._library.snapshots(id)]

    def _events(self, session_id: str, last: int) -> Any:
        events = self._library.events(session_id, stop=last + 1)
        return resolve_blobs(events, self._library.store.documents(f"sessions/{session_id}"))

    def _view(self, session: Session) -> SessionSnapshot:
        return view_of(self._library, session)


def view_of(library: Holdfast, session: Session) -> SessionSnapshot:
    """A live session as a value: of one moment, whoever records meanwhile."""
    documents = library.store.documents(session.key)
    events: list[Event] = list(resolve_blobs(session.events(), documents))
    return fold_snapshot(session.id, fold(events), events)


def _missing(known: SessionSnapshot, wanted: SessionSnapshot) -> list[Draft]:
    """What has to be recorded so that the log says what the snapshot says."""
    said = [_key(message) for message in known.messages]
    told = [_key(message) for message in wanted.messages]
    if told[: len(said)] != said[: len(told)]:
        raise Conflict(
            f"session {wanted.session_id} went another way than the snapshot",
            remedy="Load it again, or save it under another id.",
            session_id=wanted.session_id,
        )
    drafts: list[Draft] = []
    if wanted.config and wanted.config != known.config:
        drafts.append(("config", wanted.config))
    if wanted.metadata and wanted.metadata != known.metadata:
        drafts.append(("metadata", wanted.metadata))
    if wanted.acp_session_id and wanted.acp_session_id != known.acp_session_id:
        drafts.append(("link", {"kind": "acp", "id": wanted.acp_session_id}))
    drafts += [_event(message) for message in wanted.messages[len(said) :]]
    if wanted.current_task != known.current_task:
        drafts.append(("task", {"task": wanted.current_task}))
    return drafts + _used(known, wanted)


def _used(known: SessionSnapshot, wanted: SessionSnapshot) -> list[Draft]:
    more = {
        "input_tokens": wanted.metrics.tokens_in - known.metrics.tokens_in,
        "output_tokens": wanted.metrics.tokens_out - known.metrics.tokens_out,
        "requests": wanted.metrics.request_count - known.metrics.request_count,
    }
    more = {name: max(0, amount) for name, amount in more.items()}
    return [("usage", more)] if any(more.values()) else []


def _key(message: SnapshotMessage) -> tuple[str, bytes]:
    return message.role, msgspec.json.encode(message.content)


def _event(message: SnapshotMessage) -> Event:
    """A message as it was said, and when."""
    if message.role not in ("user", "assistant"):
        raise UsageError(f"{message.role!r} is no role of a message: user or assistant")
    data = {"role": message.role, "content": message.content}
    return Event.make(message.role, data, timestamp=message.timestamp)


class SnapshotStats(msgspec.Struct):
    """How snapshots and restores went since the process began. Times are seconds."""

    taken: int = 0
    failed: int = 0
    restored: int = 0
    restore_failed: int = 0
    sizes: builtins.list[int] = []
    """Bytes of each snapshot that was stored, the newest thousand."""
    snapshot_s: builtins.list[float] = []
    restore_s: builtins.list[float] = []

    @property
    def success_rate(self) -> float:
        """Of the snapshots; 1.0 if there were none."""
        return _rate(self.taken, self.failed)

    @property
    def restore_rate(self) -> float:
        """Of the restores; 1.0 if there were none."""
        return _rate(self.restored, self.restore_failed)


_KEPT = 1000


def _rate(good: int, bad: int) -> float:
    return good / (good + bad) if good + bad else 1.0


def _keep(figures: builtins.list[Any], figure: Any) -> None:
    figures.append(figure)
    del figures[:-_KEPT]


class Snapshotter:
    """Takes snapshots of live sessions, now or again and again, and counts how that goes."""

    def __init__(self, library: Holdfast) -> None:
        self.store = SnapshotStore(library)
        self.stats = SnapshotStats()
        self._library = library
        self._timers = Timers()
        self._autos: dict[str, _Auto] = {}
        self._unsubscribe = library.subscribe(self._count)

    def snapshot(self, session: Session) -> SessionSnapshot:
        """Fold a session, store that, and give it as a value.

        Raises what the store raises; then ``snapshot_failed`` was told.
        """
        begun = time.monotonic()
        session.snapshot()
        found = view_of(self._library, session)
        _keep(self.stats.snapshot_s, time.monotonic() - begun)
        return found

    def try_snapshot(self, session: Session) -> None:
        """Store the folded state; a failure is told as ``snapshot_failed`` and not raised."""
        if session.closed or session.seq < 0:
            return
        begun = time.monotonic()
        try:
            session.snapshot()
        except HoldfastError:
            return
        _keep(self.stats.snapshot_s, time.monotonic() - begun)

    def snapshot_soon(self, session: Session) -> None:
        """Store the folded state in the background, after something that is worth it."""
        auto = self._autos.get(session.id)
        if auto is not None:
            self._timers.soon(auto.take)

    def start_auto_snapshot(self, session: Session, interval: float = SNAPSHOT_INTERVAL_S) -> None:
        """Take a snapshot every so many seconds, if anything was recorded since the last.

        A second start for a session takes the place of the first.
        """
        if interval <= 0:
            raise UsageError(f"an interval is more than 0 seconds, not {interval}")
        auto = _Auto(self, session)
        # The timers hold it weakly: the one that it replaces is called no more.
        self._autos[session.id] = auto
        self._timers.every(max(1, round(interval * 1000)), auto.take)

    def stop_auto_snapshot(self, session_id: str) -> None:
        """End it. Harmless if there was none."""
        self._autos.pop(session_id, None)

    def restore(self, session_id: str) -> SessionSnapshot:
        """A session as it was left. Raises NotFound, TooNew, Damaged."""
        begun = time.monotonic()
        try:
            found = self.store.load(session_id)
        except HoldfastError:
            self.stats.restore_failed += 1
            raise
        self.stats.restored += 1
        _keep(self.stats.restore_s, time.monotonic() - begun)
        return found

    def close(self) -> None:
        """End all automatic snapshots."""
        self._autos.clear()
        self._timers.close()
        self._unsubscribe()

    def _count(self, _session_id: str, what: Event | Notice) -> None:
        if not isinstance(what, Notice):
            return
        if what.kind == "snapshot_created":
            self.stats.taken += 1
            _keep(self.stats.sizes, what.detail["size_bytes"])
        elif what.kind == "snapshot_failed":
            self.stats.failed += 1


class _Auto:
    """One session's automatic snapshots."""

    def __init__(self, owner: Snapshotter, session: Session) -> None:
        self._owner = owner
        self._session = session

    def take(self) -> None:
        """Called by the timer."""
        self._owner.try_snapshot(self._session)
