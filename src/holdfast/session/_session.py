"""The live session: wires writer, fold, follower and snapshots, and keeps them in step."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from holdfast.errors import Fenced, HoldfastError, StoreError, UsageError
from holdfast.model import Event
from holdfast.replay import Fold
from holdfast.session._blobs import blob_loader
from holdfast.session._cancellation import uncancelled
from holdfast.session._drafts import as_draft, check_type
from holdfast.session._hub import Hub
from holdfast.session._keeping import Keeper
from holdfast.session._memory import Memory
from holdfast.session._opening import Opening
from holdfast.session._outbox import Outbox
from holdfast.session._readable import Readable
from holdfast.session._talk import Talk
from holdfast.session._timers import Timers
from holdfast.session._todos import Todos
from holdfast.session._variables import Variables
from holdfast.session._writer import Draft
from holdfast.storage import Store, forks

if TYPE_CHECKING:
    from concurrent.futures import Future

    from holdfast.session._redacting import Plan, Redacting

__all__ = ["Session"]

_PATIENCE_S = 1.0
_WAIT_S = 0.002


class Session(Readable):
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
        self.restored = opening.loaded.has_past
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
        # Whether an append may go straight to the log: begun, not ended, and nothing in doubt.
        self._ready = False
        self._in_doubt = False
        self._fold = opening.loaded.fold
        self._writer = opening.writer()
        self._always = options.durability == "always" and not options.staged
        self._redacting = None if options.redactor is None else _redacting(opening)
        self._keyed: dict[str, Event] = {}
        self._outbox = Outbox(self.id, hub or Hub())
        self._talk = Talk(self._as_said, opening.documents)
        self._keeper = Keeper(self, opening, self._writer, self._outbox, timers)
        load = blob_loader(opening.documents)
        self.variables = Variables(self, load, self._variable_lost)
        self.memory = Memory(self, opening.agent_memory(), load, self._redacting)
        self.todos = Todos(self)
        if not store.capabilities.stores:
            self._talk.keep_from_now()
        opening.tell, self._writer.tell = self._outbox.put, self._keeper.tell_lost
        self._release = weakref.finalize(self, opening.release)
        _sessions.add(self)

    # -- recording ---------------------------------------------------------------------------

    def append(
        self,
        event: Event | str,
        data: dict[str, Any] | None = None,
        *,
        run: str | None = None,
        key: str | None = None,
    ) -> Event:
        """Record one event: an Event, or a type and its data.

        Returns the event with its seq once it is in the operating system (files). With a ``key``
        that was used before, nothing is written and the first event comes back.
        """
        timestamp = None
        if isinstance(event, Event):
            data, run, key = event.data, event.run, event.key
            timestamp, event = event.timestamp or None, event.type
        check_type(event)
        return self._record(event, {} if data is None else data, run, key, timestamp)

    def _record(
        self,
        type: str,
        data: dict[str, Any],
        run: str | None = None,
        key: str | None = None,
        timestamp: int | None = None,
    ) -> Event:
        # Every append comes through here: what is rare is asked for at once and done elsewhere.
        with self._lock:
            try:
                if not self._ready or self._forks != forks.count:
                    recorded = self._record_first(Draft(type, data, run, key, timestamp))
                elif key is not None and key in self._fold.state.keys:
                    return self._event_of_key(key)
                else:
                    writer = self._writer
                    recorded = writer.append(type, data, run, key, timestamp)
                    self._fold.apply(recorded, data)
                    if (
                        self._talk.active
                        or writer.offset >= self._keeper.watermark
                        or self._outbox.hub.listeners
                        or key is not None
                    ):
                        self._after(recorded)
            except HoldfastError:
                raise
            except BaseException:
                # Such as a key press: the log may know an event that the state does not.
                self._in_doubt, self._ready = True, False
                raise
        if self._outbox.waiting:
            self._outbox.deliver()
        if self._always:
            self.flush()
        return recorded

    def extend(self, events: Iterable[Event | tuple[str, dict[str, Any]]]) -> list[Event]:
        """Record several events with one write; a reader sees all of them or none."""
        drafts = [as_draft(event) for event in events]
        with self._lock:
            self._check_writable()
            try:
                self._settle()
                recorded = self._extend(drafts)
            except HoldfastError:
                raise
            except BaseException:
                self._in_doubt, self._ready = True, False
                raise
        self._outbox.deliver()
        if self._always:
            self.flush()
        return recorded

    def held_back(self, run: str | None = None) -> dict[str, int]:
        """Characters of streamed text that are not on record yet, by kind ("text", "thinking").

        While secrets are replaced, the last word of a stream waits if a secret may begin with it:
        for the next ``delta``, the message, or the end of the turn.
        """
        return {} if self._redacting is None else self._redacting.held_back(run)

    def record_held(self, run: str | None = None) -> None:
        """Record what is held back of streams as it is, for whoever cannot wait for more.

        If it is the beginning of a secret, only the rest of that secret can be replaced.
        """
        with self._lock:
            self._check_writable()
            self._settle()
            plan = None if self._redacting is None else self._redacting.plan_held(run)
            if plan is None or not plan.drafts:
                return
            self._write(plan.drafts, plan)
        self._outbox.deliver()
        if self._always:
            self.flush()

    def flush(self) -> None:
        """Return once everything recorded so far is on the medium."""
        with self._lock:
            self._check_usable()
            self._hand_over()
            offset = self._writer.offset
        self.memory.flush()
        self._sync()
        self._keeper.flushed = max(self._keeper.flushed, offset)

    async def aflush(self) -> None:
        """The same on the store's own thread: the event loop is never blocked."""
        import asyncio

        with self._lock:
            self._check_usable()
            self._hand_over()
            offset = self._writer.offset
            future = self._begin_sync()
        try:
            await uncancelled(asyncio.wrap_future(future))
            if self.memory.is_dirty:
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
        """The same without blocking the event loop."""
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
        """The same without blocking the event loop; a cancellation waits until it is done."""
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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

    # -- inside ------------------------------------------------------------------------------

    def _check_usable(self) -> None:
        if self._forks != forks.count:
            raise UsageError(
                "this session was opened before a fork; in the child it is dead",
                remedy="Open the session in the child after the parent has closed it.",
                session_id=self.id,
            )
        if self._closed:
            raise UsageError(f"session {self.id} is closed", session_id=self.id)
        if self._opening.read_only:
            raise UsageError(
                f"session {self.id} was opened read-only",
                remedy="Open it without read_only to write.",
                session_id=self.id,
            )

    def _check_writable(self) -> None:
        self._check_usable()
        if self._ended:
            raise UsageError(f"session {self.id} is being closed", session_id=self.id)

    def _record_first(self, draft: Draft) -> Event:
        """The first append of an opening, and every append that must not happen."""
        self._check_writable()
        self._settle()
        if draft.key is not None and draft.key in self._fold.state.keys:
            return self._event_of_key(draft.key)
        return self._write_batch([draft])[0]

    def _write_batch(self, drafts: list[Draft]) -> list[Event]:
        if not drafts:
            return []
        if self._redacting is None:
            return self._write(drafts, None)
        plan = self._redacting.plan(drafts, self.seq + 1)
        return self._write(plan.drafts, plan)

    def _write(self, drafts: list[Draft], plan: Plan | None) -> list[Event]:
        preamble: list[Draft] = []
        if not self._opening.begun:
            # Before anything is made on disk: what cannot be recorded leaves no trace.
            self._writer.check(drafts)
            preamble = self._begin()
        spare = () if plan is None else [len(preamble) + place for place in plan.added]
        events = self._writer.extend([*preamble, *drafts], spare)
        recorded = events[len(preamble) :]
        self._opening.begun = True
        # Without the short way, what is recorded with redaction always comes through here.
        self._ready = self._redacting is None
        if plan is not None and self._redacting is not None:
            for notice in self._redacting.done(plan, recorded):
                self._outbox.put(notice)
            recorded = [one for at, one in enumerate(recorded) if at not in plan.added]
        for event in events:
            self._fold.apply(event)
            self._after(event)
        return recorded

    def _begin(self) -> list[Draft]:
        """Take the lease if it is not held yet, and say what comes before the first event."""
        opening = self._opening
        if not self._options.staged and not opening.goes_on:
            opening.take_over()
            if self._writer.position != opening.loaded.position:
                self._take_over_past()
        self._writer.epoch = opening.epoch
        opening.begin_sealing(self._writer)
        if opening.loaded.open_line:
            self._writer.end_open_line()
        return opening.preamble(self._fold.state)

    def _take_over_past(self) -> None:
        """Someone else made the session between its opening here and its first event."""
        self._fold = self._opening.loaded.fold
        self._talk.begin_again()
        self.restored = True
        self._writer.position = self._opening.loaded.position

    def _extend(self, drafts: list[Draft]) -> list[Event]:
        """Write those whose key is new; a key that comes twice in a batch counts once."""
        known = self._fold.state.keys
        fresh: list[Draft] = []
        keys: set[str] = set()
        for draft in drafts:
            if draft.key is None or (draft.key not in known and draft.key not in keys):
                fresh.append(draft)
            if draft.key is not None:
                keys.add(draft.key)
        unkeyed = iter([event for event in self._write_batch(fresh) if event.key is None])
        return [
            next(unkeyed) if draft.key is None else self._event_of_key(draft.key)
            for draft in drafts
        ]

    def _settle(self) -> None:
        """After an interruption between the log and the state: the state anew, from the log."""
        with self._lock:
            if not self._in_doubt:
                return
            if self._store.capabilities.stores:
                self._fold = Fold()
                self._fold.fold(self.events())
                self._talk.begin_again()
            self._in_doubt = False
            self._ready = self._opening.begun and not self._ended and self._redacting is None

    def _hand_over(self) -> None:
        """Give the log what was staged, under the lease."""
        if self._options.staged and self._writer.has_staged():
            try:
                self._opening.take_over_at(self._writer.saved)
            except Fenced as error:
                raise self._writer.failed(error) from error.__cause__
            self._writer.epoch = self._opening.epoch
            self._writer.write_staged()

    def _after(self, event: Event) -> None:
        if event.key is not None:
            self._keyed[event.key] = event
        if self._talk.active:
            was = self._redacting
            self._talk.take(event if was is None else was.as_it_was(event))
        if self._writer.offset >= self._keeper.watermark:
            self._keeper.pass_watermark()
        self._outbox.put(event)

    def _as_said(self) -> Iterable[Event]:
        """The events with the words that were said while this object was there to hear them."""
        was = self._redacting
        return self.events() if was is None else map(was.as_it_was, self.events())

    def _event_of_key(self, key: str) -> Event:
        found = self._keyed.get(key)
        if found is None:
            seq = self._fold.state.keys[key]
            found = self._keyed[key] = next(self.events(seq))
        return found

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
            self._ended, self._ready = True, False
        self._outbox.deliver()
        remembering = alive and save and not self._opening.read_only and self.memory.is_dirty
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
                self._closed, self._ready = True, False
                try:
                    self._release()
                finally:
                    self._opening.release()  # again, in case the first was interrupted
        self._outbox.deliver()


def _redacting(opening: Opening) -> Redacting:
    from holdfast.session._redacting import Redacting

    found = Redacting(opening.session_id, opening.options.redactor, opening.options.limits)
    opening.options = found.without_secrets(opening.options)
    return found


_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def _free_locks() -> None:
    """In a forked child: whoever held a session's lock is not there to give it back."""
    for session in list(_sessions):
        session._lock = threading.RLock()  # noqa: SLF001 - its own class's business


os.register_at_fork(after_in_child=_free_locks)
