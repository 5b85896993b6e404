"""Opening sessions: one live object for each in a process, and waiting for those of others."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, cast
from weakref import WeakSet

from holdfast.errors import HoldfastError, Locked, UsageError
from holdfast.library._core import Core, live
from holdfast.model import Notice, check_id
from holdfast.session import (
    Opening,
    Options,
    Patience,
    Session,
    Subscriber,
    in_event_loop,
    in_thread,
    new_session_id,
    uncancelled,
)

if TYPE_CHECKING:
    from holdfast.session import Observer

Open = Callable[[str, Options], tuple[Session, Opening | None]]

_makers: WeakSet[Core] = WeakSet()  # stores in which this process created sessions
_changing = threading.Lock()

os.register_at_fork(after_in_child=_makers.clear)


@atexit.register
def _housekeep_all() -> None:
    """Keep stores within their bounds also where programs end before a background thread could."""
    for core in [*_makers]:
        # If it fails now, the next program does it.
        with contextlib.suppress(HoldfastError, OSError, RuntimeError):
            core.housekeep()


def open_session(core: Core, id: str | None = None, *, read_only: bool = False, **options: Any) -> Session:
    redactor = None if read_only else core.redactor()
    chosen = core.settings.options(redactor=redactor, read_only=read_only, **options)
    core.check_open()
    if read_only:
        if id is None:
            raise UsageError("a session that is only to be read needs an id")

        def read(id: str, options: Options) -> tuple[Session, Opening]:
            opening = Opening(core.store, id, options, partial(core.lost_whole, id))
            opening.open()
            return Session(core.store, opening), opening

        return _watched(core, read, check_id(id), chosen)[0]
    known = new_session_id(chosen.clock) if id is None else check_id(id)
    if not chosen.wait_ms:
        return _live_session(core, known, chosen, None)
    patience = Patience(core.store, f"sessions/{known}", chosen.wait_ms)
    if not in_event_loop():
        return _live_session(core, known, chosen, patience)
    try:
        return _live_session(core, known, chosen, None)
    except Locked as error:
        return cast("Session", _Awaited(partial(_live_session, core, known, chosen), patience, error))


class _Claim:
    """The session that one call is about to hand out; while the claim exists, that call counts as a user."""

    session: Session | None = None
    mark: object = None


def subscribe(core: Core, listener: Subscriber) -> Callable[[], None]:
    core.check_open()
    if not callable(listener):
        raise UsageError("a listener is a function that takes a session's id and what happened")
    return core.hub.subscribe(listener)


def observe(core: Core, observer: Observer) -> Callable[[], None]:
    from holdfast.session import Observers

    with _changing:
        if core.observers is None:
            core.observers = Observers()
    _hear(core)
    return core.observers.add(observer)


def _hear(core: Core) -> None:
    """Subscribe the observers to what is published, once: twice would count it twice."""
    with _changing:
        if core.observers is not None and not core.is_heard:
            core.hub.subscribe(core.observers.tell)
            core.is_heard = True


def _watched(core: Core, find: Open, id: str, options: Options) -> tuple[Session, Opening | None]:
    """Return the result of ``find``, and report how long it took if there are observers."""
    if core.observers is None:
        return find(id, options)
    _hear(core)
    with core.observers.watch("load", id) as watch:
        session, opening = find(id, options)
        watch.about = {"restored": session.restored, "idle": opening is None}
    return session, opening


def _live_session(core: Core, id: str, options: Options, patience: Patience | None) -> Session:
    claim = _Claim()
    find = partial(_live_or_opened, core, claim=claim)
    if patience is not None:
        find = partial(_live_or_waited, core, claim=claim, patience=patience)
    try:
        # There are rarely observers, and opening has to stay cheap.
        if core.observers is None:
            session, opening = find(id, options)
        else:
            session, opening = _watched(core, find, id, options)
        if opening is None:
            return session
        if core.timers is not None and core.store.capabilities.stores:
            if not session.restored:
                core.has_new_sessions = True
                _makers.add(core)
            core.feeder.watch(session)
        if core.hub.listeners or opening.repaired:
            _tell_opened(core, session, opening)
        return session
    except BaseException:
        # Interrupted on the way: close it, or it would stay open, and locked, for a caller who never got it.
        if claim.session is not None:
            with contextlib.suppress(HoldfastError):
                claim.session.forgo(claim.mark)
        raise


def _tell_opened(core: Core, session: Session, opening: Opening) -> None:
    if opening.held:
        core.hub.publish(session.id, opening.taken())
    if opening.repaired:
        lost = sum(gap.last_seq - gap.first_seq + 1 for gap in opening.repaired)
        least = "at least " if any(gap.at_end for gap in opening.repaired) else ""
        count = f"{least}{lost:,} {'event' if lost == 1 else 'events'}"
        size = sum(gap.size for gap in opening.repaired)
        told = (
            f"its log was damaged and has been repaired; {count} ({size:,} bytes) were lost,"
            " all else is kept, and the old bytes are in its quarantine"
        )
        session.tell_repaired(told, gaps=len(opening.repaired))
    if opening.loaded.torn:
        core.hub.publish(session.id, Notice("torn_tail", session.id, {"bytes": opening.loaded.torn}))
    if session.restored:
        age = (opening.opened_at - opening.loaded.fold.state.updated_at) / 1000
        core.hub.publish(session.id, Notice("session_restored", session.id, {"age": age}))


def _live_or_waited(
    core: Core, id: str, options: Options, *, claim: _Claim, patience: Patience
) -> tuple[Session, Opening | None]:
    while True:
        try:
            return _live_or_opened(core, id, options, claim=claim)
        except Locked:
            if not patience.pause():
                raise


def _live_or_opened(core: Core, id: str, options: Options, *, claim: _Claim) -> tuple[Session, Opening | None]:
    """Return the session, with its opening if it was not open already."""
    # Held for the whole opening: of two threads that ask for one id, both get one object.
    with live.lock:
        key = (core.store.identity, id)
        session = live.sessions.get(key)
        if session is not None and not session.closed and not session.orphaned:
            if options.resume == "never":
                said = f"session {id} is open already, and resume='never' was asked for"
                raise UsageError(said, session_id=id)
            claim.session, claim.mark = session, claim
            if session.retain(claim):
                return session, None
        opening = Opening(core.store, id, options, partial(core.lost_whole, id))
        try:
            opening.open()
            claim.session = session = Session(
                core.store, opening, hub=core.hub, timers=core.timers, observers=core.observers
            )
            claim.mark = opening
            live.sessions[key] = session
        except BaseException:
            opening.release()
            raise
    return session, opening


class _Awaited:
    """A session that another process holds, to be awaited by ``async with``; any other use raises Locked."""

    def __init__(self, opener: Callable[[Patience], Session], patience: Patience, refused: Locked) -> None:
        self._opener = opener
        self._patience = patience
        self._refused = Locked(
            refused.message,
            remedy="Enter it with `async with`: that waits without stopping the event loop.",
            **refused.fields,
        )
        self._session: Session | None = None

    async def __aenter__(self) -> Session:
        import asyncio

        # Uses a thread of its own: those of the pool are needed by whoever is to release a session.
        work = asyncio.ensure_future(in_thread(partial(self._opener, self._patience), name="holdfast-wait"))
        try:
            self._session = await asyncio.shield(work)
        except asyncio.CancelledError:
            self._patience.stop()
            await uncancelled(_given_back(work))
            raise
        return self._session

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.aclose()

    def __enter__(self) -> NoReturn:
        raise self._refused

    def __exit__(self, *_: object) -> None:
        """Do nothing: it cannot be entered, so this is never reached."""

    def __getattr__(self, name: str) -> NoReturn:
        raise self._refused


async def _given_back(work: Awaitable[Session]) -> None:
    """Close the session if it was opened after the wait was cancelled."""
    with contextlib.suppress(HoldfastError):
        await (await work).aclose()


# Titles and tags of sessions.
# Labels are events: each function opens the session, records, and closes it again. A session that this process has open
# is used as it is. All raise NotFound, and Locked while another process holds it.
def title(core: Core, id: str, text: str) -> str | None:
    with _labelled(core, id) as session:
        session.title = text
        return session.title


def tag(core: Core, id: str, *tags: str) -> list[str]:
    with _labelled(core, id) as session:
        session.tag(*tags)
        return list(session.tags)


def untag(core: Core, id: str, *tags: str) -> list[str]:
    with _labelled(core, id) as session:
        session.untag(*tags)
        return list(session.tags)


def _labelled(core: Core, id: str) -> Session:
    core.stored(id)
    return open_session(core, id, resume="always")


def set_metadata(core: Core, id: str, members: dict[str, Any]) -> None:
    """Record the members of a session's metadata that changed."""
    with _labelled(core, id) as session:
        known = session.live_state.metadata
        if any(known.get(name) != value for name, value in members.items()):
            session.append("metadata", members)
