"""Where one conversation of a framework lives: open while it is written, given back when idle.

Frameworks have no moment at which a conversation ends, and several processes may serve the same one
in turn. So the right to write is taken with the first write and given back after a short rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import holdfast
from holdfast.errors import InvalidId, Locked, NotFound, UsageError
from holdfast.formats import session_id_of
from holdfast.model import Event, check_id
from holdfast.session import Patience, Session, Timers, WhenForgotten, resolve_blobs

Library: TypeAlias = "holdfast.Holdfast | str | os.PathLike[str] | None"
"""What an adapter takes as its ``hf``."""

Act: TypeAlias = Callable[[Session], Sequence[Event]]
"""Something that is done with a session that is held; it gives what it recorded."""

_WAIT_MS = 10_000
_IDLE_MS = 1_000
SESSIONS = "sessions/"
_LINK_WITHIN = 6  # a session that an adapter begins says whose it is right after its beginning

_opened: dict[str | None, holdfast.Holdfast] = {}
_opened_lock = threading.Lock()
_timers = Timers()


def library_of(hf: Library) -> holdfast.Holdfast:
    """The sessions that an adapter was given: as they are, or opened once for this process."""
    if isinstance(hf, holdfast.Holdfast):
        return hf
    if not isinstance(hf, (str, os.PathLike, type(None))):
        raise UsageError(f"hf is a Holdfast, a store's address or None, not {type(hf).__name__}")
    where = None if hf is None else os.fspath(hf)
    with _opened_lock:
        known = _opened.get(where)
        if known is None or known.closed:
            known = _opened[where] = holdfast.open(where)
        return known


def own_id(framework: str, foreign_id: str, scope: str | None = None) -> str:
    """The session id for a framework's id: the same text where it can be one, else a stable one."""
    if not isinstance(foreign_id, str):
        raise UsageError(f"the id of a conversation is a text, not {type(foreign_id).__name__}")
    if scope is None:
        with contextlib.suppress(InvalidId):
            return check_id(foreign_id)
    return session_id_of(framework, foreign_id, scope)


def linked(library: holdfast.Holdfast, framework: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The sessions that a framework began, the oldest first, each with the link that names it.

    A fork says of itself what its origin said; its name is its own id.
    """
    found: list[tuple[int, bool, str, dict[str, Any]]] = []
    for entry in library.store.entries(SESSIONS):
        id = entry.key.removeprefix(SESSIONS)
        event = _link_of(library, id, framework)
        if event is not None:
            link = event.data
            forked = own_id(framework, link["id"], link.get("scope")) != id
            named = link | {"id": id} if forked else link
            found.append((event.timestamp, forked, id, named))
    return ((id, link) for *_, id, link in sorted(found, key=itemgetter(0, 1, 2)))


def _link_of(library: holdfast.Holdfast, id: str, framework: str) -> Event | None:
    for event in library.events(id, limit=_LINK_WITHIN):
        if event.type == "link" and event.data.get("kind") == framework:
            return event
    return None


def _session_of(
    library: holdfast.Holdfast, framework: str, foreign_id: str, scope: str | None
) -> str:
    """The session of a framework's id: the one it began, or a fork of such that it names."""
    id = own_id(framework, foreign_id, scope)
    if scope is None or library.exists(id):
        return id
    with contextlib.suppress(InvalidId, NotFound):
        link = _link_of(library, check_id(foreign_id), framework)
        if link is not None and link.data.get("scope") == scope:
            return foreign_id
    return id


class Place:
    """One session, for an adapter: read it at any time, hold it while writing.

    ``framework`` and ``foreign_id`` are kept as a link in the session when it is made.
    """

    def __init__(
        self,
        hf: Library,
        framework: str,
        foreign_id: str,
        *,
        scope: str | None = None,
        idle_ms: int = _IDLE_MS,
        wait_ms: float = _WAIT_MS,
    ) -> None:
        self.library = library_of(hf)
        self.id = _session_of(self.library, framework, foreign_id, scope)
        self._link = {"kind": framework, "id": foreign_id} | ({"scope": scope} if scope else {})
        self._idle_ms = idle_ms
        self._wait_ms = wait_ms
        self._lock = threading.RLock()
        self._open_one = _Open()
        self._users = 0
        self._takings = 0
        self._used_at = 0.0
        self._watched = False
        # Nobody says when a conversation ends: it is closed with the adapter, or with the process.
        WhenForgotten(self, self._open_one.close_quietly)

    # -- reading -----------------------------------------------------------------------------

    def held(self) -> tuple[int, int] | None:
        """Which taking of the session this is, and the seq of its newest event; None if free.

        As long as it is the same, nobody else has written.
        """
        seq = self.held_seq()
        return None if seq is None else (self._takings, seq)

    def held_seq(self) -> int | None:
        """The seq of the newest event while the session is held here; None while it is not."""
        held = self._open_one.session
        return None if held is None or held.closed else held.seq

    def log_id(self) -> tuple[Any, ...] | None:
        """What changes when the log is another one: begun anew, repaired, redacted."""
        first = next(self.events(0, 1), None)
        if first is None:
            return None
        data = first.data if first.type == "session_start" else {}
        return data.get("log"), data.get("generation"), first.timestamp

    def events(self, start: int = 0, limit: int | None = None) -> Iterator[Event]:
        """What is recorded, big payloads in place; nothing if there is no session yet."""
        try:
            if start:
                # From the end: what was read before is not read again.
                newest_first = list(self.library.events(self.id, start, reverse=True))
                events = iter(newest_first[::-1][:limit])
            else:
                events = self.library.events(self.id, limit=limit)
        except NotFound:
            return iter(())
        return self.whole(events)

    def whole(self, events: Iterable[Event]) -> Iterator[Event]:
        """Events as they were given to be recorded: big payloads, which lie beside, in place."""
        return resolve_blobs(events, self.library.store.documents(SESSIONS + self.id))

    # -- writing -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def writing(self) -> Iterator[Session]:
        """The session, to write. Waits for another process that has it; Locked if it stays away."""
        session = self._take()
        try:
            yield session
        finally:
            self._leave()

    @contextlib.asynccontextmanager
    async def awriting(self) -> AsyncIterator[Session]:
        """The same without blocking the event loop."""
        session = self._quickly()
        if session is None:
            session = await asyncio.to_thread(self._take)
        try:
            yield session
        finally:
            self._leave()

    def write(self, act: Act) -> None:
        """Do something with the session; what it recorded is on the medium when this returns."""
        with self.writing() as session:
            if act(session):
                session.barrier()

    async def awrite(self, act: Act) -> None:
        """The same without blocking the event loop."""
        async with self.awriting() as session:
            if act(session):
                await session.abarrier()

    def close(self) -> None:
        """Give the session back now. It is taken again when something is written."""
        with self._lock:
            self._open_one.close()

    def _quickly(self) -> Session | None:
        """The session if it is held already: then taking it costs nothing."""
        with self._lock:
            held = self._open_one.session
            if held is None or held.closed:
                return None
            self._users += 1
            return held

    def _take(self) -> Session:
        patience = Patience(self.library.store, SESSIONS + self.id, self._wait_ms)
        while True:
            with self._lock:
                session = self._quickly()
                if session is not None:
                    return session
                try:
                    session = self._open_one.session = self._open()
                except Locked as error:
                    refused = error
                else:
                    self._users += 1
                    return session
            # Without the lock, which whoever gives sessions back needs as well.
            if not patience.pause():
                raise refused

    def _open(self) -> Session:
        session = self.library.session(self.id, repair="auto")
        self._takings += 1
        if not session.restored:
            session.append("link", dict(self._link))
        return session

    def _leave(self) -> None:
        with self._lock:
            self._users -= 1
            self._used_at = time.monotonic()
            if not self._watched:
                self._watched = True
                _timers.soon(self._look_after, self._idle_ms)

    def _look_after(self) -> None:
        """On the timers' thread: give the session back if nobody used it for a while."""
        with self._lock:
            rested_ms = (time.monotonic() - self._used_at) * 1000
            if self._users or rested_ms < self._idle_ms:
                _timers.soon(self._look_after, self._idle_ms)
                return
            self._watched = False
            rested = self._open_one.let_go()  # whoever comes now takes it anew
        _close_quietly(rested)


class _Open:
    """The session that a place holds, apart from it, so that it can be closed after it."""

    def __init__(self) -> None:
        self.session: Session | None = None

    def let_go(self) -> Session | None:
        session, self.session = self.session, None
        return session

    def close(self) -> None:
        session = self.let_go()
        if session is not None and not session.closed:
            session.close()

    def close_quietly(self) -> None:
        _close_quietly(self.let_go())


def _close_quietly(session: Session | None) -> None:
    # What could not be saved was told to whoever wrote it.
    with contextlib.suppress(holdfast.HoldfastError):
        if session is not None and not session.closed:
            session.close()
