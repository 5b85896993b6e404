"""The session of one conversation of a framework: open while it is written, released when idle.

Frameworks have no moment at which a conversation ends, and several processes may serve the same one
in turn. So the right to write is taken with the first write and given back after a short rest.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from operator import itemgetter
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeAlias, TypeVar
from weakref import WeakValueDictionary

import holdfast
from holdfast.agent import Host
from holdfast.errors import InvalidId, NotFound, UsageError
from holdfast.formats import session_id_of
from holdfast.model import Event, check_id
from holdfast.session import Patience, Session, Timers, WhenForgotten, resolve_blobs

Library: TypeAlias = "holdfast.Holdfast | str | os.PathLike[str] | None"  # what an adapter takes as its ``hf``

Act: TypeAlias = Callable[[Session], Sequence[Event]]
"""An action on a held session; it returns what it recorded."""

_WAIT_MS = 10_000
_IDLE_MS = 1_000
SESSIONS = "sessions/"
_LINK_WITHIN = 6  # a session that an adapter begins says whose it is right after its beginning

_opened: dict[str | None, holdfast.Holdfast] = {}
_opened_lock = threading.Lock()
_timers = Timers()


def library_of(hf: Library) -> holdfast.Holdfast:
    """Return the library for an adapter: the given one, or one that this process opens once."""
    if isinstance(hf, holdfast.Holdfast):
        return hf
    if not isinstance(hf, (str, os.PathLike, type(None))):
        raise UsageError(f"hf is a Holdfast, a store's address or None, not {type(hf).__name__}")
    where = None if hf is None else os.fspath(hf)
    with _opened_lock:
        # One Holdfast for each place: two would lock each other out within the process.
        known = _opened.get(where)
        if known is None or known.closed:
            known = _opened[where] = holdfast.open(where)
        return known


def own_id(framework: str, foreign_id: str, scope: str | None = None) -> str:
    """Return the session id for a framework's id: the same text if it is a valid id, else a stable one."""
    if not isinstance(foreign_id, str):
        raise UsageError(f"the id of a conversation is a text, not {type(foreign_id).__name__}")
    if scope is None:
        with suppress(InvalidId):
            return check_id(foreign_id)
    return session_id_of(framework, foreign_id, scope)


def linked(library: holdfast.Holdfast, framework: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the sessions that a framework began, oldest first, each with the link that names it.

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
    links = (event for event in library.events(id, limit=_LINK_WITHIN) if event.type == "link")
    return next((link for link in links if link.data.get("kind") == framework), None)


def _session_of(library: holdfast.Holdfast, framework: str, foreign_id: str, scope: str | None) -> str:
    """Return the session of a framework's id: the one it began, or a fork of it that the id names."""
    id = own_id(framework, foreign_id, scope)
    if scope is None or library.exists(id):
        return id
    with suppress(InvalidId, NotFound):
        link = _link_of(library, check_id(foreign_id), framework)
        if link is not None and link.data.get("scope") == scope:
            return foreign_id
    return id


class AdapterSession:
    """One session, linked to its framework's id: it can be read at any time, and is held while writing."""

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
        self._wait_ms = wait_ms
        self._host: Host[str, Session] = Host(idle_ms=idle_ms, timers=_timers)
        self._takings = 0
        # Frameworks do not say when a conversation ends: it is closed with the adapter or the process.
        WhenForgotten(self, self._host.close_quietly)

    def held(self) -> tuple[int, int] | None:
        """Return the count of acquisitions (unchanged: nobody else wrote) and the newest seq; None if not held."""
        held = self._host.get(self.id)
        return None if held is None else (self._takings, held.seq)

    def log_id(self) -> tuple[Any, ...] | None:
        """Return a value that changes when the log is replaced: started anew, repaired, redacted."""
        first = next(self.events(0, 1), None)
        if first is None:
            return None
        data = first.data if first.type == "session_start" else {}
        return data.get("log"), data.get("generation"), first.timestamp

    def events(self, start: int = 0, limit: int | None = None) -> Iterator[Event]:
        """Yield the recorded events, with large payloads in place; nothing if there is no session yet."""
        try:
            # From the end, so that of a log of any length only the new events are read.
            found = self.library.events(self.id, start, limit=limit, reverse=start > 0)
        except NotFound:
            return iter(())
        return self.whole(list(found)[::-1] if start else found)

    def whole(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield events as they were recorded, with large payloads, which are stored beside the log, in place."""
        return resolve_blobs(events, self.library.store.documents(SESSIONS + self.id))

    def writing(self) -> AbstractContextManager[Session]:
        """Hold the session, to write. Waits for another process that has it; Locked if it stays away."""
        return self._host.use(self.id, self._open, self._patience())

    def awriting(self) -> AbstractAsyncContextManager[Session]:
        """Do what ``writing`` does, without blocking the event loop."""
        return self._host.ause(self.id, self._open, self._patience())

    def write(self, act: Act) -> None:
        """Run an action on the session; its events are on the medium when this returns."""
        with self.writing() as session:
            if act(session):
                session.barrier()

    async def awrite(self, act: Act) -> None:
        """Do what ``write`` does, without blocking the event loop."""
        async with self.awriting() as session:
            if act(session):
                await session.abarrier()

    def close(self) -> None:
        """Release the session now. It is taken again for the next write."""
        self._host.let_go(self.id, used=True)

    def exists(self) -> bool:
        """Return whether the session exists yet."""
        return self.library.exists(self.id)

    def delete(self) -> None:
        """Release the session, and move it to the trash; ``undelete`` brings it back."""
        self.close()
        if self.exists():
            self.library.delete(self.id)

    def _open(self) -> Session:
        # A process that died at this point must not prevent the next one from continuing.
        session = self.library.session(self.id, repair="auto")
        self._takings += 1
        # Other processes find a conversation of the framework by this link.
        if not session.restored:
            session.append("link", dict(self._link))
        return session

    def _patience(self) -> Patience:
        return Patience(self.library.store, SESSIONS + self.id, self._wait_ms)


_Self = TypeVar("_Self")
_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


def unblocked(
    method: Callable[Concatenate[_Self, _Given], _Made],
) -> Callable[Concatenate[_Self, _Given], Coroutine[Any, Any, _Made]]:
    """Return the twin of a method that does not block the event loop: it does the same on a thread."""

    @functools.wraps(method)
    async def twin(self: _Self, /, *args: _Given.args, **kwargs: _Given.kwargs) -> _Made:
        return await asyncio.to_thread(method, self, *args, **kwargs)

    return twin


LIMIT = 256  # conversations that an adapter keeps: what it ever read does not stay in memory
_AT_ONCE = 4  # whoever comes makes room for more than itself, and waits for little


class _Placed(Protocol):
    place: AdapterSession


_Key = TypeVar("_Key", bound=Hashable)
_Kept = TypeVar("_Kept", bound=_Placed)


class Recent(Generic[_Key, _Kept]):
    """Conversations by name, created on request; there is one object for each while anybody uses it.

    The few hundred that were asked for last are kept. Of the others those go that nobody has, and
    whose session is not held; asked for again, they are made and read anew.
    """

    def __init__(self, make: Callable[[_Key], _Kept]) -> None:
        # The factory must not keep the adapter alive: its sessions are closed when it is collected.
        self._make = make
        self._lock = threading.Lock()
        self._last: OrderedDict[_Key, _Kept] = OrderedDict()
        # Two objects for one conversation would wait for each other: the first one is kept.
        self._known: WeakValueDictionary[_Key, _Kept] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._last)

    def __call__(self, key: _Key) -> _Kept:
        """Return the one with this name. Keep a reference while using it."""
        with self._lock:
            found = self._known.get(key)
            if found is None:
                found = self._known[key] = self._make(key)
            self._last[key] = found
            self._last.move_to_end(key)
            for _ in range(_AT_ONCE):
                if len(self._last) <= LIMIT:
                    break
                key, oldest = self._last.popitem(last=False)
                if oldest.place.held() is not None:
                    self._last[key] = oldest  # still being written, or just now: among the newest
            return found

    def pop(self, key: _Key) -> _Kept | None:
        """Forget the one with this name and return it; None if there was none."""
        with self._lock:
            self._last.pop(key, None)
            return self._known.pop(key, None)

    def known(self) -> dict[_Key, _Kept]:
        """Return all that are cached here, and those in use."""
        with self._lock:
            return dict(self._known.items())
