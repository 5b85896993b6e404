"""Holdfast: the one facade that agents, apps and adapters call."""

from __future__ import annotations

import builtins
import contextlib
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakValueDictionary

import msgspec

from holdfast._config import Given, Settings, settle
from holdfast.errors import HoldfastError, KeyMissing, NotFound, StoreError, TooNew, UsageError
from holdfast.model import Event, Limits, Notice, SessionMetadata, check_id
from holdfast.replay import State, check_format, status_of
from holdfast.session import (
    Hub,
    Opening,
    Options,
    Session,
    Snapshots,
    Subscriber,
    Timers,
    is_alive,
    load,
    load_state_at,
    new_session_id,
    read_range,
    resolve_blobs,
)
from holdfast.storage import Entry, Store

if TYPE_CHECKING:
    import datetime as dt

    from holdfast.model import Gap
    from holdfast.replay import Recovery
    from holdfast.session import Follower, Report

__all__ = ["Holdfast", "SnapshotInfo", "open"]

_LEASE_MS = 30_000
_TRASH_STEM_CHARS_MAX = 110
_INSTRUCTIONS = "custom_instructions.md"
_live: WeakValueDictionary[tuple[str, str], Session] = WeakValueDictionary()
_live_lock = threading.RLock()


def _free_live_lock() -> None:
    """In a forked child: whoever held the lock is not there to give it back."""
    global _live_lock  # noqa: PLW0603 - there is one for the process
    _live_lock = threading.RLock()


os.register_at_fork(after_in_child=_free_live_lock)


class SnapshotInfo(msgspec.Struct, frozen=True):
    """One snapshot of a session: what it covers and whether it is whole."""

    seq: int
    taken_at: int
    whole: bool


def open(
    where: str | os.PathLike[str] | Store | None = None,
    *,
    config: Given = None,
    limits: Limits | None = None,
) -> Holdfast:
    """The sessions at a place: a path, a URL, a store object, or the default place.

    The default is ``HOLDFAST_STORE``, else ``.holdfast/`` in the project if there is one, else the
    user's data directory. Nothing is created before the first event.
    """
    return Holdfast(where, config=config, limits=limits)


class Holdfast:
    """The sessions of one store. Every method may be called from any thread."""

    def __init__(
        self,
        where: str | os.PathLike[str] | Store | None = None,
        *,
        config: Given = None,
        limits: Limits | None = None,
        timers: bool = True,
    ) -> None:
        self._settings: Settings = settle(where, config, limits)
        self._store = self._settings.store
        self._hub = Hub()
        self._timers = Timers() if timers else None
        self._closed = False
        self._store.check()

    # -- sessions ----------------------------------------------------------------------------

    def session(
        self,
        id: str | None = None,
        *,
        resume: str = "auto",
        title: str | None = None,
        agent_id: str | None = None,
        read_only: bool = False,
        repair: str = "raise",
        durability: str | None = None,
        staged: bool = False,
        **options: Any,
    ) -> Session:
        """Create or resume a session, and take the right to write it.

        The same id gives the same live object within a process. Raises Locked while another
        process has it, NotFound with ``resume="always"`` if there is none, Damaged unless
        ``repair="auto"``.
        """
        chosen = self._settings.options(
            resume=resume,
            title=title,
            agent_id=agent_id,
            read_only=read_only,
            repair=repair,
            durability=durability,
            staged=staged,
            **options,
        )
        self._check_open()
        if read_only:
            return Session(self._store, Opening(self._store, self._known(id), chosen))
        return self._live_session(new_session_id(chosen.clock) if id is None else id, chosen)

    def exists(self, id: str) -> bool:
        """Whether there is a session of that id."""
        return self._store.exists(_key(id))

    def location(self, id: str) -> str:
        """Where the session is kept, for people to look."""
        return self._store.location(_key(id))

    def last_modified(self, id: str) -> dt.datetime | None:
        """When something was last recorded (UTC); None if there is no such session."""
        from datetime import UTC, datetime

        if not self.exists(id):
            return None
        newest = next(self.events(id, reverse=True, limit=1), None)
        if newest is None:
            return None
        try:
            return datetime.fromtimestamp(newest.timestamp / 1000, UTC)
        except (ValueError, OverflowError, OSError):
            # A clock that was wrong by thousands of years; the nearest that can be said.
            return datetime(9999 if newest.timestamp > 0 else 1, 1, 1, tzinfo=UTC)

    # -- reading -----------------------------------------------------------------------------

    def events(
        self,
        id: str,
        start: int = 0,
        stop: int | None = None,
        *,
        types: Collection[str] | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[Event]:
        """The events of a session, lazily: every valid one, also of a damaged log."""
        if limit is not None and limit < 0:
            raise UsageError(f"a limit is a number of events, not {limit}")
        log = self._store.log(self._stored(id))
        return read_range(log, start=start, stop=stop, types=types, reverse=reverse, limit=limit)

    def follow(self, id: str, start: int | None = None) -> Follower:
        """What is there (from ``start`` on), then what comes, also from other processes."""
        from holdfast.session import Follower

        return Follower(self._store, self._stored(id), start or 0)

    def state(self, id: str, at: int | None = None) -> State:
        """The state after the newest event, or after event ``at``."""
        key = self._stored(id)
        log, documents = self._store.log(key), self._store.documents(key)
        if at is None:
            return load(log, documents, tolerant=True).fold.state
        return load_state_at(log, documents, at).state

    def recover(
        self,
        id: str,
        provider: str = "anthropic",
        incomplete: str = "drop",
        window_tokens: int | None = None,
        at: int | None = None,
    ) -> Recovery:
        """A valid conversation from whatever the log holds; about content it never raises."""
        from holdfast._tokens import token_counter
        from holdfast.replay import recover

        key = self._stored(id)
        events = read_range(self._store.log(key), stop=None if at is None else at + 1)
        return recover(
            resolve_blobs(_of_known_format(events), self._store.documents(key)),
            provider=provider,
            incomplete=incomplete,
            window_tokens=window_tokens,
            count_tokens=token_counter(provider) if window_tokens is not None else None,
            session_id=id,
        )

    def snapshots(self, id: str) -> builtins.list[SnapshotInfo]:
        """The session's snapshots, newest first."""
        return [_snapshot_info(seq, found) for seq, found in self._snapshots(id)]

    def list(
        self,
        limit: int | None = 50,
        tags: Collection[str] = (),
        since: float | dt.datetime | None = None,
        until: float | dt.datetime | None = None,
        agent_id: str | None = None,
    ) -> builtins.list[SessionMetadata]:
        """The sessions, newest first; ``since`` and ``until`` are datetimes or Unix seconds."""
        wanted = frozenset(tags)
        first, last = _ms(since), _ms(until)
        found: builtins.list[SessionMetadata] = []
        entries = sorted(self._store.entries(), key=lambda entry: entry.modified, reverse=True)
        for entry in entries:
            if limit is not None and len(found) >= limit:
                break
            row = self._metadata(entry)
            if (
                wanted <= frozenset(row.tags)
                and (first is None or row.updated_at >= first)
                and (last is None or row.updated_at <= last)
                and (agent_id is None or row.agent_id == agent_id)
            ):
                found.append(row)
        return sorted(found, key=lambda row: row.updated_at, reverse=True)

    def info(self, id: str) -> SessionMetadata:
        """One session as ``list`` would show it."""
        key = self._stored(id)
        size = self._store.log(key).size()
        return self._metadata(Entry(key, size, 0, ""))

    # -- care --------------------------------------------------------------------------------

    def verify(self, id: str) -> Report:
        """Look at every byte of a session and say what is whole. Changes nothing."""
        from holdfast.session import verify_log

        key = self._stored(id)
        return verify_log(id, self._store.log(key), self._store.documents(key))

    def repair(self, id: str) -> builtins.list[Gap]:
        """Write a whole log in the place of a damaged one; what was missing from it.

        The old bytes are kept in quarantine. An undamaged session is left alone, and so is one of
        a newer format: TooNew.
        """
        from holdfast.session import repair_log

        key = self._stored(id)
        for _ in _of_known_format(read_range(self._store.log(key))):
            pass
        lease = self._store.lease(key)
        epoch = lease.acquire("repair", _LEASE_MS)
        try:
            gaps = repair_log(self._store.log(key), self._store.documents(key), epoch)
        finally:
            lease.release()
        if gaps:
            self._hub.publish(id, Notice("repaired", id, {"gaps": len(gaps)}))
        return gaps

    def delete(self, id: str) -> None:
        """Put a session into the trash. Raises Locked while anyone has it open."""
        self._store.move(self._stored(id), self._free_trash_key(id))
        self._hub.publish(id, Notice("deleted", id))

    def undelete(self, id: str) -> None:
        """Bring the session of that id that was deleted last back from the trash."""
        newest = max(
            (
                entry
                for entry in self._store.entries("trash/")
                if _trashed_stem(entry.key) == _trash_stem(check_id(id))
            ),
            key=lambda entry: _trash_number(entry.key),
            default=None,
        )
        if newest is None:
            raise NotFound(f"there is no session {id} in the trash", session_id=check_id(id))
        self._store.move(newest.key, _key(id))
        self._hub.publish(id, Notice("undeleted", id))

    def purge_agent(self, agent_id: str, instructions: bool = False) -> int:  # noqa: FBT001, FBT002
        """Put an agent's sessions into the trash and remove its documents; how many sessions.

        What a person wrote into ``custom_instructions.md`` stays unless ``instructions`` is true.
        Raises Locked, before anything is removed, while one of its sessions is open.
        """
        key = f"agents/{check_id(agent_id, what='agent id')}"
        sessions = [row.session_id for row in self.list(limit=None, agent_id=agent_id)]
        for id in sessions:
            self._check_unlocked(id)
        for id in sessions:
            self.delete(id)
        documents = self._store.documents(key)
        for name in documents.names():
            if instructions or name != _INSTRUCTIONS:
                documents.delete(name)
        return len(sessions)

    def subscribe(self, listener: Subscriber) -> Callable[[], None]:
        """Call ``listener(session_id, event_or_notice)`` for sessions opened through this object.

        Returns a function that ends it. A listener that fails disturbs neither the session nor the
        other listeners.
        """
        return self._hub.subscribe(listener)

    def close(self) -> None:
        """Close the store; sessions that are still open are closed first."""
        if self._closed:
            return
        self._closed = True
        with _live_lock:
            mine = [s for key, s in _live.items() if key[0] == self._store.identity]
        with contextlib.ExitStack() as rest:
            rest.callback(self._store.close)
            if self._timers is not None:
                rest.callback(self._timers.close)
            # One that cannot be closed well must not keep the others open.
            for session in mine:
                if session.store is self._store:
                    rest.callback(session.close_for_all)

    @property
    def store(self) -> Store:
        """The store itself."""
        return self._store

    @property
    def url(self) -> str:
        """The store's address."""
        return self._store.url

    @property
    def limits(self) -> Limits:
        """The limits in force."""
        return self._settings.limits

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Holdfast {self.url}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if not self._store.capabilities.shared:
            raise UsageError(f"{self.url} lives in this process and cannot be pickled")
        return Holdfast, (self.url,)

    # -- inside ------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("this Holdfast is closed")

    def _known(self, id: str | None) -> str:
        if id is None:
            raise UsageError("a session that is only to be read needs an id")
        return id

    def _stored(self, id: str) -> str:
        key = _key(id)
        if not self._store.exists(key):
            raise NotFound(f"there is no session {id}", session_id=id)
        return key

    def _live_session(self, id: str, options: Options) -> Session:
        with _live_lock:
            key = (self._store.identity, id)
            session = _live.get(key)
            if session is not None and not session.closed and not session.orphaned:
                _check_resume(session, options)
                if session.retain():
                    return session
            opening = Opening(self._store, id, options)
            try:
                session = Session(self._store, opening, hub=self._hub, timers=self._timers)
                _live[key] = session
            except BaseException:
                opening.release()
                raise
        self._tell_opened(session, opening)
        return session

    def _tell_opened(self, session: Session, opening: Opening) -> None:
        if opening.repaired:
            self._hub.publish(session.id, Notice("repaired", session.id))
        if opening.loaded.torn:
            detail = {"bytes": opening.loaded.torn}
            self._hub.publish(session.id, Notice("torn_tail", session.id, detail))
        if session.restored:
            age = (opening.opened_at - opening.loaded.fold.state.updated_at) / 1000
            self._hub.publish(session.id, Notice("session_restored", session.id, {"age": age}))

    def _snapshots(self, id: str) -> Iterable[tuple[int, Any]]:
        snapshots = Snapshots(self._store.documents(self._stored(id)))
        for seq in snapshots.seqs():
            try:
                yield seq, snapshots.load(seq)
            except HoldfastError:
                yield seq, None

    def _metadata(self, entry: Entry) -> SessionMetadata:
        id = entry.key.rpartition("/")[2]
        log, documents = self._store.log(entry.key), self._store.documents(entry.key)
        try:
            loaded = load(log, documents, tolerant=True)
        except TooNew:
            return SessionMetadata(session_id=id, size_bytes=entry.size, state="too_new")
        except KeyMissing:
            return SessionMetadata(session_id=id, size_bytes=entry.size, state="sealed")
        except StoreError:
            # One log that cannot be read must not hide all the others.
            return SessionMetadata(session_id=id, size_bytes=entry.size, state="unreadable")
        state = loaded.fold.state
        return SessionMetadata(
            session_id=id,
            title=state.shown_title,
            tags=tuple(state.tags),
            created_at=state.created_at,
            updated_at=state.updated_at,
            message_count=state.message_count,
            total_tokens=state.usage.total_tokens,
            event_count=state.event_count,
            size_bytes=entry.size,
            agent_id=state.agent_id,
            parent=state.parent.session if state.parent else None,
            status=status_of(state, alive=is_alive(state)),
            state="damaged" if loaded.gaps else "ok",
        )

    def _check_unlocked(self, id: str) -> None:
        lease = self._store.lease(_key(id))
        lease.acquire("purge", _LEASE_MS)
        lease.release()

    def _free_trash_key(self, id: str) -> str:
        """A session that was deleted before, and made anew, must not stand in the way."""
        number = 0
        while self._store.exists(key := _trash_key(id, number)):
            number += 1
        return key


def _of_known_format(events: Iterator[Event]) -> Iterator[Event]:
    """The events as they are. Raises TooNew where one names a format that is not known here."""
    for event in events:
        check_format(event)
        yield event


def _check_resume(session: Session, options: Options) -> None:
    if options.resume == "never":
        raise UsageError(
            f"session {session.id} is open already, and resume='never' was asked for",
            session_id=session.id,
        )


def _key(id: str) -> str:
    return f"sessions/{check_id(id)}"


def _trash_key(id: str, number: int) -> str:
    return f"trash/{number}.{_trash_stem(id)}"


def _trash_stem(id: str) -> str:
    """The id, or a shorter name that stands for it where the number would make it too long."""
    if len(id) <= _TRASH_STEM_CHARS_MAX:
        return id
    from hashlib import sha256

    digest = sha256(id.encode()).hexdigest()[:32]
    return f"{id[: _TRASH_STEM_CHARS_MAX - 33]}-{digest}"


def _trashed_stem(key: str) -> str:
    return key.rpartition("/")[2].partition(".")[2]


def _trash_number(key: str) -> int:
    return int(key.rpartition("/")[2].partition(".")[0])


def _snapshot_info(seq: int, found: Any) -> SnapshotInfo:
    return SnapshotInfo(seq, 0 if found is None else found.taken_at, found is not None)


def _ms(when: float | dt.datetime | None) -> int | None:
    if when is None:
        return None
    seconds = when if isinstance(when, (int, float)) else when.timestamp()
    return int(seconds * 1000)
