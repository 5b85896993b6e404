"""Holdfast: the one facade that agents, apps and adapters call."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast
from weakref import WeakSet, WeakValueDictionary

import msgspec

from holdfast._config import Given
from holdfast.errors import HoldfastError, Locked, UsageError
from holdfast.library._branches import Branching
from holdfast.library._copy import Copying
from holdfast.library._export import Exporting
from holdfast.library._finder import Searching
from holdfast.library._health import Care
from holdfast.library._imports import Importing
from holdfast.library._labels import Labels
from holdfast.library._observers import Observing
from holdfast.library._redaction import Redacting
from holdfast.library._retention import Retention
from holdfast.library._seals import Sealing
from holdfast.library._stats import Counting
from holdfast.library._trash import Erasing
from holdfast.model import Limits, Notice, check_id
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
from holdfast.storage import Store

if TYPE_CHECKING:
    from holdfast.library._keychain import GivenKey
    from holdfast.model import Gap

_live: WeakValueDictionary[tuple[str, str], Session] = WeakValueDictionary()
_live_lock = threading.RLock()
_makers: WeakSet[Holdfast] = WeakSet()
"""Libraries through which sessions were made."""
_LAST_CHORE_S = 1.0


def _begin_in_child() -> None:
    """In a forked child: whoever held the lock is not there to give it back."""
    global _live_lock  # noqa: PLW0603 - there is one for the process
    _live_lock = threading.RLock()
    _makers.clear()


os.register_at_fork(after_in_child=_begin_in_child)


@atexit.register
def _keep_house() -> None:
    """Keep stores within their bounds also where programs end before a background thread could."""
    for library in [*_makers]:
        # What cannot be done now, the next program does.
        with contextlib.suppress(HoldfastError, OSError, RuntimeError):
            library._housekeep(_LAST_CHORE_S)  # noqa: SLF001 - of this very class


def open(
    where: str | os.PathLike[str] | Store | None = None,
    *,
    config: Given = None,
    limits: Limits | None = None,
    space: str | None = None,
    seal: bool | None = None,
    key: GivenKey | None = None,
) -> Holdfast:
    """The sessions at a place: a path, a URL, a store object, or the default place.

    The default is ``HOLDFAST_STORE``, else ``.holdfast/`` in the project if there is one, else the
    user's data directory. Nothing is created before the first event. With ``space`` only what is
    in that space is there, and nothing else can be named; InvalidId if it can be no name of one.

    ``key`` opens sealed sessions: 32 bytes, or where they are (``keyring``, ``file:PATH``,
    ``env:NAME``, ``command:…``, ``passphrase``), or several of these. With ``seal`` new sessions
    are sealed with it.
    """
    return Holdfast(where, config=config, limits=limits, space=space, seal=seal, key=key)


class Holdfast(
    Retention,
    Redacting,
    Erasing,
    Sealing,
    Branching,
    Exporting,
    Importing,
    Searching,
    Labels,
    Counting,
    Care,
    Copying,
    Observing,
):
    """The sessions of one store. Every method may be called from any thread."""

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
        seal: bool | None = None,
        wait_ms: float | None = None,
        **options: Any,
    ) -> Session:
        """Create or resume a session, and take the right to write it.

        The same id gives the same live object within a process. ``seal`` says whether a new one is
        sealed, if it is not to be as the store's settings have it. While another process has it,
        this waits for ``wait_ms`` at the most, then raises Locked; inside of an event loop the
        waiting is done by ``async with``, and nothing else can be done with what this gives before.
        Raises NotFound with ``resume="always"`` if there is none, Damaged unless
        ``repair="auto"``, KeyMissing or Tampered for a sealed one that does not open.
        """
        chosen = self._settings.options(
            redactor=None if read_only else self._redactor(),
            resume=resume,
            title=title,
            agent_id=agent_id,
            read_only=read_only,
            repair=repair,
            durability=durability,
            staged=staged,
            seal=seal,
            wait_ms=wait_ms,
            **options,
        )
        self._check_open()
        if read_only:
            return self._watched(self._opened_to_read, self._known(id), chosen)[0]
        known = new_session_id(chosen.clock) if id is None else check_id(id)
        if not chosen.wait_ms:
            return self._live_session(known, chosen, None)
        patience = Patience(self._store, f"sessions/{known}", chosen.wait_ms)
        if not in_event_loop():
            return self._live_session(known, chosen, patience)
        try:
            return self._live_session(known, chosen, None)
        except Locked as error:
            return cast(
                "Session", _Awaited(partial(self._live_session, known, chosen), patience, error)
            )

    def space(self, name: str) -> Holdfast:
        """The sessions of one space of this store, such as those of one user among many.

        It shares the connection to the store, and is to be closed before it. Raises InvalidId for
        what can be no name of a space: an id in small letters.
        """
        from holdfast.storage import SpaceStore

        self._check_open()
        inside = SpaceStore(self._inner, name, owns=False)
        timers = self._timers is not None
        made = type(self)(
            inside,
            limits=self.limits,
            timers=timers,
            redaction=self._redaction,
            **self._given_keys(),
        )
        made._settings = msgspec.structs.replace(self._settings, store=inside)  # noqa: SLF001 - one of ours
        if self._observers is not None:
            made._observers = self._observers.within(name)  # noqa: SLF001 - the same
        return made

    def subscribe(self, listener: Subscriber) -> Callable[[], None]:
        """Call ``listener(session_id, event_or_notice)`` for sessions opened through this object.

        Returns a function that ends it. A listener that fails disturbs neither the session nor the
        other listeners. Raises UsageError for what cannot be called.
        """
        self._check_open()
        if not callable(listener):
            raise UsageError("a listener is a function that takes a session's id and what happened")
        return self._hub.subscribe(listener)

    def close(self) -> None:
        """Close the store; sessions that are still open are closed first."""
        if self._closed:
            return
        self._housekeep(_LAST_CHORE_S)
        self._closed = True
        with _live_lock:
            mine = [s for key, s in _live.items() if key[0] == self._store.identity]
        with contextlib.ExitStack() as rest:
            rest.callback(self._store.close)
            rest.callback(self._feeder.close)
            if self._timers is not None:
                rest.callback(self._timers.close)
            # One that cannot be closed well must not keep the others open.
            for session in mine:
                if session.store is self._store:
                    rest.callback(session.close_for_all)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open_here(self, id: str) -> Session | None:
        with _live_lock:
            session = _live.get((self._store.identity, id))
        usable = session is not None and not session.closed and not session.orphaned
        return session if usable else None

    def _known(self, id: str | None) -> str:
        if id is None:
            raise UsageError("a session that is only to be read needs an id")
        return check_id(id)

    def _opened_to_read(self, id: str, options: Options) -> tuple[Session, Opening]:
        opening = Opening(self._store, id, options, partial(self._lost_whole, id))
        return Session(self._store, opening), opening

    def _live_session(self, id: str, options: Options, patience: Patience | None) -> Session:
        find = self._live_or_opened
        if patience is not None:
            find = partial(self._live_or_waited, patience=patience)
        session, opening = self._watched(find, id, options)
        if opening is None:
            return session
        if self._timers is not None and self._store.capabilities.stores:
            if not session.restored:
                self._made = True
                _makers.add(self)
            self._feeder.watch(session)
        if self._hub.listeners or opening.repaired:
            self._tell_opened(session, opening)
        return session

    def _live_or_waited(
        self, id: str, options: Options, *, patience: Patience | None
    ) -> tuple[Session, Opening | None]:
        while True:
            try:
                return self._live_or_opened(id, options)
            except Locked:
                if patience is None or not patience.pause():
                    raise

    def _live_or_opened(self, id: str, options: Options) -> tuple[Session, Opening | None]:
        """The session, with its opening if it was not open already."""
        with _live_lock:
            key = (self._store.identity, id)
            session = _live.get(key)
            if session is not None and not session.closed and not session.orphaned:
                _check_resume(session, options)
                if session.retain():
                    return session, None
            opening = Opening(self._store, id, options, partial(self._lost_whole, id))
            try:
                session = _live[key] = self._session_of(opening)
            except BaseException:
                opening.release()
                raise
        return session, opening

    def _tell_opened(self, session: Session, opening: Opening) -> None:
        if opening.held:
            self._hub.publish(session.id, opening.taken())
        if opening.repaired:
            session.tell_repaired(_lost_words(opening.repaired), gaps=len(opening.repaired))
        if opening.loaded.torn:
            detail = {"bytes": opening.loaded.torn}
            self._hub.publish(session.id, Notice("torn_tail", session.id, detail))
        if session.restored:
            age = (opening.opened_at - opening.loaded.fold.state.updated_at) / 1000
            self._hub.publish(session.id, Notice("session_restored", session.id, {"age": age}))


def _lost_words(gaps: list[Gap]) -> str:
    lost = sum(gap.last_seq - gap.first_seq + 1 for gap in gaps)
    least = "at least " if any(gap.at_end for gap in gaps) else ""
    count = f"{least}{lost:,} {'event' if lost == 1 else 'events'}"
    size = sum(gap.size for gap in gaps)
    return (
        f"its log was damaged and has been repaired; {count} ({size:,} bytes) were lost,"
        " all else is kept, and the old bytes are in its quarantine"
    )


def _check_resume(session: Session, options: Options) -> None:
    if options.resume == "never":
        raise UsageError(
            f"session {session.id} is open already, and resume='never' was asked for",
            session_id=session.id,
        )


class _Awaited:
    """A session that another process has, asked for inside of an event loop.

    ``async with`` waits for it; whatever else is done with this raises the error that says so.
    """

    def __init__(
        self, open: Callable[[Patience], Session], patience: Patience, refused: Locked
    ) -> None:
        self._open = open
        self._patience = patience
        self._refused = Locked(
            refused.message,
            remedy="Enter it with `async with`: that waits without stopping the event loop.",
            **refused.fields,
        )
        self._session: Session | None = None

    async def __aenter__(self) -> Session:
        import asyncio

        # A thread of its own: those of the pool are needed by whoever is to give a session back.
        work = asyncio.ensure_future(
            in_thread(partial(self._open, self._patience), name="holdfast-wait")
        )
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
        """Never reached: it cannot be entered."""

    def __getattr__(self, name: str) -> NoReturn:
        raise self._refused


async def _given_back(work: Awaitable[Session]) -> None:
    """Close the session that nobody waits for any more, if it came."""
    with contextlib.suppress(HoldfastError):
        await (await work).aclose()
