"""The live session: wires writer, fold, follower and snapshots, and keeps them in step."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from holdfast.errors import Fenced, HoldfastError, StoreError, UsageError
from holdfast.model import Event, Notice
from holdfast.session._appender import Appending
from holdfast.session._cancellation import uncancelled
from holdfast.session._conversation import LiveConversation, log_recovery
from holdfast.session._finalizers import WhenForgotten
from holdfast.session._keeper import Keeper, Timers
from holdfast.session._opening import Opening
from holdfast.session._parts import Memory, Todos, Variables
from holdfast.session._subscribers import Hub, Outbox
from holdfast.session._turn import Turns
from holdfast.session._writer import Draft, Writer
from holdfast.session.reader import blob_loader
from holdfast.storage import Store, forks

if TYPE_CHECKING:
    from concurrent.futures import Future

    from holdfast.session._redaction import SessionRedaction

T = TypeVar("T")
_PATIENCE_S = 1.0
_WAIT_S = 0.002


class Part(Generic[T]):
    """What a session makes when it is first asked for, once however many threads ask."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __get__(self, session: Session | None, _owner: Any = None) -> T:
        if session is None:
            return self  # type: ignore[return-value]  # for whoever looks at the class
        made: T = vars(session).setdefault(self._make.__name__, self._make(session))
        return made


class Session(Appending):
    """One conversation with its state. Any thread may call any method.

    Get one from ``Holdfast.session``; use it as a context manager, sync or async.
    """

    def __init__(
        self,
        store: Store,
        opening: Opening,
        *,
        hub: Hub | None = None,
        timers: Timers | None = None,
    ) -> None:
        options = opening.options
        self.id = opening.session_id
        self.restored = opening.loaded.position.seq > 0
        self.repairs: list[Notice] = []
        """What was found damaged and set right while this object was in use."""
        self._answered_for = 0
        self._store = store
        self.limits = options.limits
        self._options = options
        self._opening = opening
        self._lock = threading.RLock()
        self._forks = forks.count
        self._closed = False
        self._ended = False
        self._users = 1
        self._closers = 0
        self._ready = self._straight = False
        self._in_doubt = False
        self._fold = opening.loaded.fold
        self._writer = Writer(
            opening.log,
            opening.documents,
            position=opening.loaded.position,
            epoch=opening.epoch,
            limits=options.limits,
            clock=options.clock,
            staged=options.staged,
            defers=store.capabilities.defers,
        )
        self._always = options.durability == "always" and not options.staged
        self._redacting = None if options.redactor is None else _redacting(opening)
        self._keyed: dict[str, Event] = {}
        self._hub = hub or Hub()
        self._outbox = Outbox(self.id, self._hub)
        self._talk = LiveConversation(self._as_said, opening.documents)
        self._keeper = Keeper(self, opening, self._writer, self._outbox, timers)
        opening.tell, self._writer.tell = self._outbox.put, self._keeper.tell_lost
        self._release = WhenForgotten(self, opening.release)
        _sessions.add(self)

    @Part
    def turns(self) -> Turns:
        """Who has the turn, and who waits for it."""
        return Turns(self.id)

    @Part
    def variables(self) -> Variables:
        """The session's variables."""
        return Variables(self, blob_loader(self._opening.documents), self._variable_lost)

    @Part
    def memory(self) -> Memory:
        """The session's memory, and its agent's."""
        kept = self._opening.agent_memory()
        kept.tell = self.tell_repaired
        self._keeper.start()
        return Memory(self, kept, blob_loader(self._opening.documents), self._redacting)

    @property
    def is_memory_dirty(self) -> bool:
        """Whether entries of the agent are waiting for the next flush."""
        memory = vars(self).get("memory")
        return memory is not None and memory.is_dirty

    @Part
    def todos(self) -> Todos:
        """The session's todo list."""
        return Todos(self)

    def flush(self) -> None:
        """Return once everything recorded so far is on the medium."""
        with self._lock:
            self._check_usable()
            self._hand_over()
            offset = self._writer.offset
        if self.is_memory_dirty:
            self.memory.flush()
        self._sync()
        self._keeper.flushed = max(self._keeper.flushed, offset)

    async def aflush(self) -> None:
        """Flush on the store's own thread: the event loop is never blocked."""
        import asyncio

        with self._lock:
            self._check_usable()
            self._hand_over()
            offset = self._writer.offset
            future = self._begin_sync()
        try:
            await uncancelled(asyncio.wrap_future(future))
            if self.is_memory_dirty:
                await uncancelled(asyncio.to_thread(self.memory.flush))
        except StoreError as error:
            raise self._writer.failed(error) from error
        self._keeper.flushed = max(self._keeper.flushed, offset)

    def _sync(self) -> None:
        self._writer.sync()

    def _begin_sync(self) -> Future[None]:
        return self._store.sync({self._opening.key: self._writer.log})

    def barrier(self) -> None:
        """Flush, unless the session was opened with ``durability="os"`` or is staged."""
        if self._options.durability != "os" and not self._options.staged:
            self.flush()
        self._keeper.end_of_turn()

    async def abarrier(self) -> None:
        """Do what ``barrier`` does without blocking the event loop."""
        if self._options.durability != "os" and not self._options.staged:
            await self.aflush()

    def snapshot(self) -> int:
        """Save the folded state, so that the next opening is quick; the seq that it covers.

        A failure is raised, and told to subscribers as ``snapshot_failed``.
        """
        with self._lock:
            self._check_usable()
            self._settle()
            if self.seq < 0 or self.seq == self._keeper.snapshot_seq:
                return self._keeper.snapshot_seq
            state, position = self._fold.state.to_json(), self._writer.position
        try:
            # Only now: the log must be safe up to what the state knows.
            self.flush()
            self._keeper.save_snapshot(state, position)
        except HoldfastError as error:
            self._keeper.tell_snapshot_failed(error)
            raise
        return position.seq - 1

    # -- life --------------------------------------------------------------------------------

    def close(self, *, save: bool = True) -> None:
        """Record the end, flush, and give the session back. Harmless the second time.

        With ``save=False`` what is staged is given up. An object that was opened several times is
        closed by as many calls.
        """
        if not self._leave():
            return
        try:
            if self._end(save=save):
                self.flush()
                self._keeper.settle()
        except StoreError as error:
            self._last_words(error)
            raise
        finally:
            self._finish()

    async def aclose(self, *, save: bool = True) -> None:
        """Close it without blocking the event loop; a cancellation waits until it is done."""
        await uncancelled(self._aclose(save=save))

    async def _aclose(self, *, save: bool) -> None:
        import asyncio

        if not self._leave():
            return
        try:
            if self._end(save=save):
                await self.aflush()
                if self._keeper.is_due:
                    await asyncio.to_thread(self._keeper.settle)
        except StoreError as error:
            self._last_words(error)
            raise
        finally:
            self._finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<Session {self.id} seq={self.seq}{' closed' if self._closed else ''}>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise UsageError(
            "a live session cannot be pickled",
            remedy="Pass its id, and open it again where it is needed.",
        )

    @property
    def closed(self) -> bool:
        """Whether this object can no longer be used."""
        return self._closed

    @property
    def redacts(self) -> bool:
        """Whether secrets are replaced in what this session records."""
        return self._redacting is not None

    def redacted(self, data: dict[str, Any]) -> dict[str, Any]:
        """Data that is to be kept beside the log, as this session would record it."""
        return data if self._redacting is None else self._redacting.value(data)

    @property
    def orphaned(self) -> bool:
        """Whether this object came into this process by a fork."""
        return self._forks != forks.count

    @property
    def store(self) -> Store:
        """The store object that this session writes to."""
        return self._store

    def log_recovery(self) -> None:
        """Warn, in the log of the program, of what of this session had to be changed to go on."""
        with self._lock:
            issues = self._talk.issues("mark")
        log_recovery(self._store, self.id, issues)

    def close_for_all(self) -> None:
        """Close it however many have it open, also if an earlier closing was interrupted."""
        while not self._closed and not self._ended:
            self.close()
        patience = time.monotonic() + _PATIENCE_S
        while not self._closed:
            if time.monotonic() > patience:
                self._closers = 0  # whoever was at it has been interrupted
                self._finish()
            time.sleep(_WAIT_S)

    def retain(self) -> bool:
        """Count one more user of this object; False if it has been closed.

        One that is just being closed goes on instead: nobody has to wait for the end of it.
        """
        with self._lock:
            if self._closed or self.orphaned:
                return False
            if self._ended:
                self._opening.go_on()
                self._ended = False
                self.restored = True
            self._users += 1
        return True

    def tell_repaired(self, what: str, **detail: Any) -> None:
        """Tell subscribers, and the log of the program, what was damaged and has been set right.

        Once: whoever finds it again finds nothing new.
        """
        import logging

        if any(notice.detail["what"] == what for notice in self.repairs):
            return
        notice = Notice("repaired", self.id, {"what": what, **detail})
        self.repairs.append(notice)
        logging.getLogger("holdfast").warning("session %s: %s", self.id, what)
        self._outbox.put(notice)
        self._outbox.deliver()

    def untold_repairs(self) -> list[Notice]:
        """What was set right since this was asked last: for whoever answers a caller."""
        with self._lock:
            told, self._answered_for = self._answered_for, len(self.repairs)
        return self.repairs[told:]

    # -- inside ------------------------------------------------------------------------------

    def _hand_over(self) -> None:
        """Give the log what was staged, under the lease."""
        if self._options.staged and self._writer.has_staged():
            try:
                self._opening.take_over_at(self._writer.saved)
            except Fenced as error:
                raise self._writer.failed(error) from error.__cause__
            self._writer.epoch = self._opening.epoch
            self._writer.write_staged()

    def _variable_lost(self, name: str, lost: list[str]) -> None:
        self._outbox.notify("variable_not_stored", name=name, lost=lost)

    def _leave(self) -> bool:
        """Whether this call is the one that closes."""
        with self._lock:
            if self._closed or self._ended:
                return False
            self._users -= 1
            self._closers += not self._users
            return not self._users

    def _end(self, *, save: bool) -> bool:
        """Write the last event and take no more; whether there is anything to flush."""
        alive = not self.orphaned and self._writer.dead is None
        with self._lock:
            if self._users or self._ended:
                return False  # someone has opened it again meanwhile, and perhaps closed it
            ending = alive and save and self._opening.begun
            if ending:
                self._write_batch([Draft("closed", {})])
            self._ended, self._ready, self._straight = True, False, False
        self._outbox.deliver()
        remembering = alive and save and not self._opening.read_only and self.is_memory_dirty
        return ending or remembering

    def _last_words(self, error: StoreError) -> None:
        """What was staged and cannot be saved at the end is on the error."""
        if self._writer.has_staged():
            self._writer.hand_out_unsaved(error)

    def _finish(self) -> None:
        # Under the lock: whoever sees it closed must be able to take the lease. When it was opened
        # and closed again meanwhile, several are closing it, and the last one gives it back.
        with self._lock:
            self._closers -= 1
            if not self._users and self._closers <= 0:
                self._closed, self._ready, self._straight = True, False, False
                try:
                    self._release()
                finally:
                    self._opening.release()  # again, in case the first was interrupted
        self._outbox.deliver()


def _redacting(opening: Opening) -> SessionRedaction:
    from holdfast.session._redaction import SessionRedaction

    found = SessionRedaction(opening.session_id, opening.options.redactor, opening.options.limits)
    opening.options = found.without_secrets(opening.options)
    return found


_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def _free_locks() -> None:
    """In a forked child: whoever held a session's lock is not there to give it back."""
    for session in list(_sessions):
        session._lock, session._straight = threading.RLock(), False  # noqa: SLF001 - its own class
        vars(session).pop("turns", None)


os.register_at_fork(after_in_child=_free_locks)
