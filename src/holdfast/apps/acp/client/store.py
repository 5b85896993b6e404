"""Sessions with external agents as values: views of the log, and when the log is folded."""

from __future__ import annotations

import builtins
import contextlib
import datetime as dt
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.apps.acp.client.config import SNAPSHOT_INTERVAL_S
from holdfast.errors import Conflict, Damaged, DataError, HoldfastError, TooNew, UsageError
from holdfast.library import Holdfast
from holdfast.model import Event, Notice
from holdfast.replay import State, fold, kinds_said
from holdfast.session import Session, Timers, resolve_blobs

SNAPSHOT_VERSION = 2
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WBITS = zlib.MAX_WBITS | 16
_EXPANDED_BYTES_MAX = 256 << 20
_COMPRESSED_FROM = 64 << 10


class SnapshotMessage(msgspec.Struct, frozen=True):
    """One thing that was said. ``timestamp`` is Unix milliseconds."""

    role: str
    content: list[dict[str, Any]]
    timestamp: int = 0


class SessionMetrics(msgspec.Struct, frozen=True):
    """The usage of a session so far; ``last_activity`` is Unix milliseconds."""

    tokens_in: int = 0
    tokens_out: int = 0
    request_count: int = 0
    last_activity: int = 0


class SessionSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A session at one moment. Times are Unix milliseconds."""

    session_id: str
    provider_type: str = ""
    created_at: int = 0
    updated_at: int = 0
    version: int = SNAPSHOT_VERSION
    config: dict[str, Any] = {}
    acp_session_id: str | None = None
    """The agent's own id, which is not ours."""
    messages: list[SnapshotMessage] = []
    current_task: Any = None
    metrics: SessionMetrics = SessionMetrics()
    metadata: dict[str, Any] = {}
    seq: int = -1
    """The newest event that it knows; -1 if it did not come from a log."""

    def to_json(self, *, compress_from: int = _COMPRESSED_FROM) -> bytes:
        """Return the snapshot as JSON; as gzip of it from so many bytes on."""
        data = msgspec.json.encode(self)
        return data if len(data) < compress_from else zlib.compress(data, wbits=_GZIP_WBITS)

    @classmethod
    def from_json(cls, data: bytes) -> SessionSnapshot:
        """Read the output of ``to_json``, or a snapshot of version 1, which is migrated.

        Raises TooNew for a later version, Damaged for what is no whole snapshot.
        """
        try:
            document = msgspec.json.decode(_expanded(data))
        except (ValueError, zlib.error, RecursionError) as error:
            raise _damaged(str(error)) from error
        if not isinstance(document, dict):
            raise _damaged("it is no object")
        try:
            return msgspec.convert(_migrated(document), cls)
        except DataError:
            raise
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise _damaged(str(error)) from error


def _fold_snapshot(session_id: str, state: State, events: Iterable[Event]) -> SessionSnapshot:
    """Return the view of a session, from its state and its events. Raises Damaged if any is missing."""
    links = state.links.get("acp", [])
    return SessionSnapshot(
        session_id=session_id,
        provider_type=state.provider_type or "",
        created_at=state.created_at,
        updated_at=state.updated_at,
        config=state.config,
        acp_session_id=links[-1] if links else None,
        messages=_messages(session_id, events),
        current_task=state.task,
        metrics=metrics_of(state),
        metadata=state.metadata,
        seq=state.seq,
    )


def metrics_of(state: State) -> SessionMetrics:
    """Return tokens as the agent reported them; a prompt is a request whether or not it reported any."""
    usage = state.usage
    return SessionMetrics(
        tokens_in=usage.input_tokens,
        tokens_out=usage.output_tokens,
        request_count=max(usage.requests, state.turns),
        last_activity=state.updated_at,
    )


def _messages(session_id: str, events: Iterable[Event]) -> list[SnapshotMessage]:
    """Return what was said by both; of an answer that broke off, what the user saw of it."""
    found: list[SnapshotMessage] = []
    pieces: list[Event] = []
    for number, event in enumerate(events):
        if event.seq != number:
            what = f"session {session_id} is damaged: event {number} cannot be read"
            raise Damaged(what, session_id=session_id, seq=number)
        content = event.data.get("content")
        if event.type == "delta" and event.data.get("kind") is None:
            pieces.append(event)
        elif event.type in ("assistant", "user"):
            start = event.data.get("covers_from")
            if isinstance(start, int) and event.type == "assistant" and "assistant" in kinds_said("assistant", content):
                pieces = [piece for piece in pieces if piece.seq < start]
            found += [*_joined(pieces), SnapshotMessage(event.type, _blocks(content), event.timestamp)]
            pieces = []
    return found + _joined(pieces)


def _joined(pieces: list[Event]) -> list[SnapshotMessage]:
    text = "".join(str(piece.data.get("content", "")) for piece in pieces)
    return [SnapshotMessage("assistant", _blocks(text), pieces[-1].timestamp)] if text else []


def _blocks(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, list):
        return [block for block in content if isinstance(block, dict)]
    return [{"type": "text", "text": "" if content is None else str(content)}]


def _expanded(data: bytes) -> bytes:
    if not data.startswith(_GZIP_MAGIC):
        return data
    inflater = zlib.decompressobj(wbits=_GZIP_WBITS)
    expanded = inflater.decompress(data, _EXPANDED_BYTES_MAX)
    if not inflater.eof:
        raise ValueError("it is cut short, or expands to too much")
    return expanded


def _damaged(why: str) -> Damaged:
    return Damaged(f"the snapshot is damaged: {why}", remedy="Restore the session from its log.")


def _migrated(document: dict[str, Any]) -> dict[str, Any]:
    version = document.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise _damaged(f"{version!r} is no version")
    if version > SNAPSHOT_VERSION:
        told = f"the snapshot has version {version}; this Holdfast knows {SNAPSHOT_VERSION}"
        raise TooNew(told, remedy="Install a newer Holdfast to read it.")
    return document if version == SNAPSHOT_VERSION else _from_version_1(document)


def _from_version_1(old: dict[str, Any]) -> dict[str, Any]:
    """Convert version 1, which has the agent's part below ``provider_state``, and contents as plain text."""
    names = ("acp_session_id", "messages", "current_task", "metrics")
    part = {**(old.get("provider_state") or {}), **{name: old[name] for name in names if name in old}}
    messages = part.get("messages") or []
    return {
        "session_id": old.get("session_id"),
        "provider_type": old.get("provider_type") or "",
        "created_at": _ms(old.get("created_at")),
        "updated_at": _ms(old.get("updated_at")),
        "version": SNAPSHOT_VERSION,
        "config": old.get("config") or {},
        "acp_session_id": part.get("acp_session_id") or None,
        "messages": [
            {
                "role": message.get("role"),
                "content": _blocks(message.get("content")),
                "timestamp": _ms(message.get("timestamp")),
            }
            for message in messages
        ],
        "current_task": part.get("current_task") or None,
        "metrics": _old_metrics(part.get("metrics") or {}),
        "metadata": old.get("metadata") or {},
    }


def _old_metrics(metrics: Mapping[str, Any]) -> dict[str, int]:
    """Return metrics of early versions, whose names were those of Go fields or of JSON."""

    def read(go: str, plain: str) -> Any:
        return metrics.get(go, metrics.get(plain))

    return {
        "tokens_in": int(read("TokensIn", "tokens_in") or 0),
        "tokens_out": int(read("TokensOut", "tokens_out") or 0),
        "request_count": int(read("RequestCount", "request_count") or 0),
        "last_activity": _ms(read("LastActivityAt", "last_activity")),
    }


def _ms(when: Any) -> int:
    if isinstance(when, str) and when:
        moment = dt.datetime.fromisoformat(when)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
        return max(0, int(moment.timestamp() * 1000))
    return when if isinstance(when, int) else 0


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
        session = self._library.session(snapshot.session_id, provider_type=snapshot.provider_type or None)
        with session:
            session.extend(_missing(_view_of(self._library, session), snapshot))
            session.snapshot()

    def load(self, session_id: str) -> SessionSnapshot:
        """Return a session as it is now. Raises NotFound, TooNew for a later format, Damaged if an event is lost."""
        state = self._library.state(session_id)
        events = self._library.events(session_id, stop=state.seq + 1)
        documents = self._library.store.documents(f"sessions/{session_id}")
        return _fold_snapshot(session_id, state, resolve_blobs(events, documents))

    def delete(self, session_id: str) -> None:
        """Put the session into the trash. Raises NotFound, Locked while it is open, Forbidden."""
        self._library.delete(session_id)

    def list(self) -> builtins.list[SessionSnapshot]:
        """Return every session of which a snapshot is stored, as a value, sorted by id."""
        ids = sorted(self._library.session_ids())
        return [self.load(id) for id in ids if self._library.snapshots(id)]


def _view_of(library: Holdfast, session: Session) -> SessionSnapshot:
    """Return a live session as a value: of one moment, whatever is recorded meanwhile."""
    documents = library.store.documents(session.key)
    events: list[Event] = list(resolve_blobs(session.events(), documents))
    return _fold_snapshot(session.id, fold(events), events)


def _missing(known: SessionSnapshot, wanted: SessionSnapshot) -> list[Draft]:
    """Return the events to record so that the log agrees with the snapshot."""
    said = [_key(message) for message in known.messages]
    told = [_key(message) for message in wanted.messages]
    if told[: len(said)] != said[: len(told)]:
        what = f"session {wanted.session_id} went another way than the snapshot"
        raise Conflict(what, remedy="Load it again, or save it under another id.", session_id=wanted.session_id)
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
    new, old = wanted.metrics, known.metrics
    more = {
        "input_tokens": max(0, new.tokens_in - old.tokens_in),
        "output_tokens": max(0, new.tokens_out - old.tokens_out),
        "requests": max(0, new.request_count - old.request_count),
    }
    return [*drafts, ("usage", more)] if any(more.values()) else drafts


def _key(message: SnapshotMessage) -> tuple[str, bytes]:
    return message.role, msgspec.json.encode(message.content)


def _event(message: SnapshotMessage) -> Event:
    """Return a message as it was said, and when."""
    if message.role not in ("user", "assistant"):
        raise UsageError(f"{message.role!r} is no role of a message: user or assistant")
    data = {"role": message.role, "content": message.content}
    return Event.make(message.role, data, timestamp=message.timestamp)


class SnapshotStats(msgspec.Struct):
    """The results of snapshots and restores since the process began. Times are seconds."""

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
        """The success rate of snapshots; 1.0 if there were none."""
        return _rate(self.taken, self.failed)

    @property
    def restore_rate(self) -> float:
        """The success rate of restores; 1.0 if there were none."""
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
        """Fold a session, store that, and return it. Raises as the store does; ``snapshot_failed`` was told then."""
        begun = time.monotonic()
        session.snapshot()
        found = _view_of(self._library, session)
        _keep(self.stats.snapshot_s, time.monotonic() - begun)
        return found

    def try_snapshot(self, session: Session) -> None:
        """Store the folded state; a failure is published as ``snapshot_failed`` and not raised."""
        if not session.closed and session.seq >= 0:
            begun = time.monotonic()
            with contextlib.suppress(HoldfastError):
                session.snapshot()
                _keep(self.stats.snapshot_s, time.monotonic() - begun)

    def snapshot_soon(self, session: Session) -> None:
        """Store the folded state in the background, after something that is worth it."""
        auto = self._autos.get(session.id)
        if auto is not None:
            self._timers.soon(auto.take)

    def start_auto_snapshot(self, session: Session, interval: float = SNAPSHOT_INTERVAL_S) -> None:
        """Take a snapshot every so many seconds, if anything was recorded since. A second start replaces the first."""
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
        """Return a session as it was left. Raises NotFound, TooNew, Damaged."""
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


@dataclass(eq=False)
class _Auto:
    """One session's automatic snapshots."""

    owner: Snapshotter
    session: Session

    def take(self) -> None:
        """Take a snapshot when the timer fires."""
        self.owner.try_snapshot(self.session)
