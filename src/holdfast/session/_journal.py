"""The journal: from a caller's data to a line in the log and a state that includes it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from holdfast.errors import Fenced, HoldfastError, StoreError, UsageError
from holdfast.model import Event, line_maker, make_line, read_events
from holdfast.replay import State
from holdfast.session import _clock
from holdfast.session._conversation import LiveConversation
from holdfast.session._keeper import Keeper, Timers
from holdfast.session._lifetime import WhenForgotten, settled, uncancelled
from holdfast.session._loader import load_whole
from holdfast.session._opening import Opening
from holdfast.session._subscribers import Hub, Outbox
from holdfast.session._writer import OWN_TYPES, Draft, Writer, as_draft, own_type
from holdfast.session.reader import read_range
from holdfast.storage import Store, forks

if TYPE_CHECKING:
    from concurrent.futures import Future

    from holdfast.replay import Issue
    from holdfast.session._agent_documents import AgentMemory
    from holdfast.session._redaction import RedactionPlan
    from holdfast.session.session import Session

_make_line = line_maker(pure=bool(os.environ.get("HOLDFAST_PURE")))
_UNUSUAL = Event(""), b"", 0
_PATIENCE_S, _WAIT_S = 1.0, 0.002


class _Closing:
    """Held by the thread or task that is closing a session, until it is done."""


class Journal:
    """The log of one open session, and the state derived from it. One lock keeps both in step.

    The contract of each method is on the method of the session that has its name.
    """

    def __init__(
        self, session: Session, store: Store, opening: Opening, hub: Hub | None, timers: Timers | None
    ) -> None:
        options = opening.options
        self.id = opening.session_id
        self.store = store
        self.opening = opening
        self.options = options
        self.limits = options.limits
        # Reentrant: reading the state settles it first, also in code that holds the lock already.
        self.lock = threading.RLock()
        self.forks = forks.count
        self.restored = opening.loaded.position.seq > 0
        """True if the session had events when it was opened."""
        self.closed = False
        self.ended = False
        """True once the last event of this opening is written, so that no more may follow."""
        self.users: set[object] = {opening}
        """A mark for each time that the object was opened and not closed again."""
        self.closers: WeakValueDictionary[object, _Closing] = WeakValueDictionary()
        """The running closings by thread or task. An interrupted one disappears with its holder."""
        self.leaving = False
        """True while the lease is being released."""
        self.ready = False
        """True if this opening is recorded and not ended, and no write is in doubt."""
        self.straight = False
        """True if an append may also go to the log unchanged."""
        self.in_doubt = False
        """True if the log may have an event that the state lacks."""
        self.fold = opening.loaded.fold
        self.writer = Writer(
            opening.log,
            opening.documents,
            position=opening.loaded.position,
            epoch=opening.epoch,
            limits=options.limits,
            clock=options.clock,
            staged=options.staged,
            defers=store.capabilities.defers,
        )
        self.always = options.durability == "always" and not options.staged
        self.redacting = None if options.redactor is None else opening.redaction()
        self.agent_memory: AgentMemory | None = None
        """The agent's memory, once it was asked for."""
        self._keyed: dict[str, Event] = {}
        self.hub = hub or Hub()
        self.outbox = Outbox(self.id, self.hub)
        self.talk = LiveConversation(lambda: map(self.as_it_was, self.events()), opening.documents)
        self.keeper = Keeper(session, opening, self.writer, self.outbox, timers)
        opening.tell, self.writer.tell = self.outbox.put, self.keeper.tell_lost
        self.release = WhenForgotten(session, opening.release)

    def append(self, event: Event | str, data: dict[str, Any] | None, run: str | None, key: str | None) -> Event:
        timestamp = None
        if isinstance(event, Event):
            data, run, key = event.data, event.run, event.key
            timestamp, event = event.timestamp or None, event.type
        if isinstance(event, str) and event in OWN_TYPES:
            raise own_type(event)
        return self.record(event, {} if data is None else data, run, key, timestamp)

    def record(
        self,
        type: str,
        data: dict[str, Any],
        run: str | None = None,
        key: str | None = None,
        timestamp: int | None = None,
    ) -> Event:
        """Record one event of a type that callers may record."""
        # Every append comes through here, and each call costs measurable time: the common case is in this one function,
        # the rare ones elsewhere.
        writer = self.writer
        with self.lock:
            try:
                if not self.straight or timestamp is not None or writer.dead is not None:
                    recorded = self._record_rare(Draft(type, data, run, key, timestamp))
                else:
                    seq = writer.seq
                    clock, depth = _clock.time_ns, self.limits.depth_max
                    made = (
                        _make_line(type, data, seq, writer.crc, clock, depth)
                        if run is None and key is None
                        else self._named_line(type, data, run, key)
                    )
                    # An unusual event gets no line here and takes the slow path.
                    recorded, line, crc = made or _UNUSUAL
                    size = len(line)
                    end = writer.offset + size
                    secrets = self.redacting
                    if (
                        not size
                        or size > writer.line_bytes_max
                        or end >= self.keeper.watermark
                        or (secrets is not None and not secrets.passes(recorded, data))
                    ):
                        recorded = self._record_rare(Draft(type, data, run, key))
                    else:
                        try:
                            writer.log.append(line, seq, 1, writer.epoch)
                        except StoreError as error:
                            writer.failed(error)
                            raise
                        writer.seq, writer.offset, writer.crc = seq + 1, end, crc
                        self.fold.apply(recorded, data)
                        if key is not None or self.hub.listeners or self.talk.active:
                            self._after(recorded)
            except HoldfastError:
                raise
            except BaseException:
                self._doubt()
                raise
        if self.outbox.waiting:
            self.outbox.deliver()
        if self.always:
            self.flush()
        return recorded

    def extend(self, events: Iterable[Event | tuple[str, dict[str, Any]]]) -> list[Event]:
        if not isinstance(events, Iterable):
            raise UsageError(f"events are a list, not {type(events).__name__}")
        drafts = [as_draft(event) for event in events]
        with self.lock:
            self._check_writable()
            self.settle()
            recorded = self._extend(drafts)
        self._told()
        return recorded

    def begin(self) -> None:
        """Take the session for writing now: from here on its state is the newest there is."""
        if self.ready and not self.orphaned:
            return
        with self.lock:
            self._check_writable()
            self.settle()
            if not self.opening.begun:
                self._write([], None)

    def record_held(self, run: str | None) -> None:
        with self.lock:
            self._check_writable()
            self.settle()
            plan = None if self.redacting is None else self.redacting.plan_held(run)
            if plan is None or not plan.drafts:
                return
            self._write(plan.drafts, plan)
        self._told()

    def flush(self) -> None:
        offset, _ = self._handed_over()
        if self.agent_memory is not None:
            self.agent_memory.flush()
        self.sync()
        self.keeper.flushed = max(self.keeper.flushed, offset)

    async def aflush(self) -> None:
        import asyncio

        offset, future = self._handed_over(syncing=True)
        assert future is not None
        try:
            await settled(future)
            if self.agent_memory is not None and self.agent_memory.is_dirty:
                await uncancelled(asyncio.to_thread(self.agent_memory.flush))
        except StoreError as error:
            raise self.writer.failed(error) from error
        self.keeper.flushed = max(self.keeper.flushed, offset)

    def snapshot(self) -> int:
        with self.lock:
            self._check_usable()
            self.settle()
            if self.seq < 0 or self.seq == self.keeper.snapshot_seq:
                return self.keeper.snapshot_seq
            state, position = self.fold.state.to_json(), self.writer.position
        try:
            # Only after the flush: the log must be safe up to what the state knows.
            self.flush()
            self.keeper.save_snapshot(state, position)
        except HoldfastError as error:
            self.keeper.tell_snapshot_failed(error)
            raise
        return position.seq - 1

    def sync(self) -> None:
        self.writer.sync()

    def begin_sync(self) -> Future[None]:
        """Begin to sync what was handed over, on the store's own thread."""
        return self.store.sync({self.opening.key: self.writer.log})

    def barrier(self) -> None:
        if self.options.durability != "os" and not self.options.staged:
            self.flush()
        self.keeper.end_of_turn()

    async def abarrier(self) -> None:
        if self.options.durability != "os" and not self.options.staged:
            await self.aflush()

    def remember(self, tell: Callable[..., None]) -> AgentMemory:
        """Return the memory of the session's agent; it is saved with the session from now on."""
        kept = self.opening.agent_memory()
        kept.tell = tell
        self.agent_memory = kept
        self.keeper.start()
        return kept

    @property
    def is_memory_dirty(self) -> bool:
        return self.agent_memory is not None and self.agent_memory.is_dirty

    def _handed_over(self, *, syncing: bool = False) -> tuple[int, Future[None] | None]:
        """Write the staged events to the log, under the lease; return the offset that then has to be synced."""
        with self.lock:
            self._check_usable()
            if self.options.staged and self.writer.has_staged():
                try:
                    self.opening.take_over_at(self.writer.saved)
                except Fenced as error:
                    raise self.writer.failed(error) from error.__cause__
                self.writer.epoch = self.opening.epoch
                self.writer.write_staged()
            return self.writer.offset, self.begin_sync() if syncing else None

    @property
    def seq(self) -> int:
        return self.writer.seq - 1

    @property
    def orphaned(self) -> bool:
        return self.forks != forks.count

    @property
    def live_state(self) -> State:
        with self.lock:
            if self.in_doubt:
                self.settle()
            return self.fold.state

    def state(self) -> State:
        with self.lock:
            return self.live_state.copy()

    def issues(self) -> list[Issue]:
        with self.lock:
            return self.talk.issues("mark")

    def events(self, start: int = 0) -> Iterator[Event]:
        if not isinstance(start, int):
            raise UsageError(f"start is a whole number, not {start!r:.40}")
        with self.lock:
            waiting = self.writer.staged_lines()
        log = self.writer.log
        events = read_events(chain(log.read(), waiting), unseal=log.unseal)
        return (event for event in events if event.seq >= start)

    def newest(self, seq: int) -> Iterator[Event]:
        if self.writer.staged_lines():
            return reversed(list(self.events(seq)))
        return read_range(self.writer.log, start=seq, reverse=True)

    def as_it_was(self, event: Event) -> Event:
        """Return the event with the original words, if this object saw them before redaction."""
        return event if self.redacting is None else self.redacting.as_it_was(event)

    def settle(self) -> None:
        """Rebuild the state from the log after an interruption between the two."""
        with self.lock:
            if not self.in_doubt:
                return
            opening = self.opening
            opening.loaded = load_whole(self.writer.log, self.writer.staged_lines())
            self.fold = opening.loaded.fold
            self.writer.go_on_from(opening.loaded.position)
            self.talk.begin_again()
            opening.begun = opening.begun or opening.is_recorded
            self.in_doubt = False
            if opening.begun and not self.ended:
                self._make_ready()

    def close(self, *, save: bool) -> None:
        who, closing = threading.get_ident(), _Closing()
        if not self._leave(who, closing):
            return
        try:
            if self._end(save=save):
                self.flush()
                self.keeper.settle()
        except StoreError as error:
            self._last_words(error)
            raise
        finally:
            self._finish(who)

    async def aclose(self, *, save: bool) -> None:
        await uncancelled(self._aclose(save=save))

    def close_for_all(self) -> None:
        while not self.closed and not self.ended:
            self.close(save=True)
        patience = time.monotonic() + _PATIENCE_S
        while not self.closed:
            if time.monotonic() > patience:
                self.closers.clear()  # the thread that was closing has been interrupted
                self._finish(None)
            time.sleep(_WAIT_S)

    def retain(self, mark: object) -> bool:
        with self.lock:
            if self.leaving and not self.closed:
                self._give_back()  # it was interrupted
            if self.closed or self.orphaned:
                return False
            if self.ended:
                self.opening.go_on()
                self.ended = False
                self.restored = True
            self.users.add(mark)
        return True

    def forgo(self, mark: object) -> None:
        """Close it for an opening that was interrupted before its caller had the object."""
        with self.lock:
            if mark not in self.users:
                return
            if len(self.users) > 1:
                self.users.discard(mark)
                return
        self.close(save=True)

    async def _aclose(self, *, save: bool) -> None:
        import asyncio

        # a task keeps the exception it raised, and with it the frames
        who, closing = id(asyncio.current_task()), _Closing()
        if not self._leave(who, closing):
            return
        try:
            if self._end(save=save):
                await self.aflush()
                if self.keeper.is_due:
                    await asyncio.to_thread(self.keeper.settle)
        except StoreError as error:
            self._last_words(error)
            raise
        finally:
            self._finish(who)

    def _leave(self, who: object, closing: _Closing) -> bool:
        """Return whether this call is the one that closes, or completes an interrupted closing."""
        with self.lock:
            if not self.closed and len(self.users) <= 1:
                self.closers[who] = closing
                self.users.clear()
                return True
            if not self.closed:
                self.users.pop()
            return False

    def _last_words(self, error: StoreError) -> None:
        if self.writer.has_staged():
            self.writer.hand_out_unsaved(error)

    def _finish(self, who: object) -> None:
        # Opened again meanwhile, it has several users, and the last one to close releases it.
        with self.lock:
            self.closers.pop(who, None)
            if not self.users and not self.closers:
                self._give_back()
        self.outbox.deliver()

    def _give_back(self) -> None:
        """Release the lease; once begun it cannot be undone."""
        self.leaving, self.ready, self.straight = True, False, False
        try:
            self.release()
        finally:
            self.opening.release()  # again, in case the first was interrupted
            # When a thread sees it closed, without the lock, it must be able to take the lease: closed comes last.
            self.closed = True

    def _end(self, *, save: bool) -> bool:
        """Write the last event and accept no more; return whether there is anything to flush."""
        alive = not self.orphaned and self.writer.dead is None
        with self.lock:
            if self.users or self.ended:
                return False  # another thread has opened it again meanwhile, and perhaps closed it
            if alive and save:
                self.settle()  # an interrupted append may be in the log, and the last event comes after it
            ending = alive and save and self.opening.begun
            if ending:
                self._write_batch([Draft("closed", {})])
            self.ended, self.ready, self.straight = True, False, False
        self.outbox.deliver()
        remembering = alive and save and not self.opening.read_only and self.is_memory_dirty
        return ending or remembering

    def _told(self) -> None:
        self.outbox.deliver()
        if self.always:
            self.flush()

    def _check_usable(self) -> None:
        what, remedy = "", None
        if self.orphaned:
            what = "this session was opened before a fork; in the child it is dead"
            remedy = "Open the session in the child after the parent has closed it."
        elif self.closed:
            what = f"session {self.id} is closed"
        elif self.opening.read_only:
            what, remedy = f"session {self.id} was opened read-only", "Open it without read_only to write."
        if what:
            raise UsageError(what, remedy=remedy, session_id=self.id)

    def _check_writable(self) -> None:
        self._check_usable()
        if self.ended:
            raise UsageError(f"session {self.id} is being closed", session_id=self.id)

    def _named_line(
        self, kind: str, data: dict[str, Any], run: str | None, key: str | None
    ) -> tuple[Event, bytes, int] | None:
        """Return the line of an event with a run or a new key; None if it needs the slow path."""
        if key is not None:
            is_usual = type(key) is str and len(key) <= self.limits.key_chars_max
            if not is_usual or key in self.fold.state.keys:
                return None
        writer, depth = self.writer, self.limits.depth_max
        return make_line(kind, data, writer.seq, writer.crc, _clock.time_ns, depth, run, key)

    def _record_rare(self, draft: Draft) -> Event:
        """Append on the slow path, whatever the reason; under the lock."""
        is_first = not self.ready or self.orphaned
        if is_first or self.redacting is not None:
            # The first append of an opening, and every append that must be refused.
            self._check_writable()
            self.settle()
        if isinstance(draft.key, str):
            if self.redacting is not None:
                draft = draft._replace(key=self.redacting.key(draft.key))
            if draft.key in self.fold.state.keys:
                return self._event_of_key(draft.key)
        if is_first or self.redacting is not None:
            return self._write_batch([draft])[0]
        recorded = self.writer.append(draft)
        self.fold.apply(recorded, draft.data)
        self._after(recorded)
        return recorded

    def _write_batch(self, drafts: list[Draft]) -> list[Event]:
        if not drafts:
            return []
        if self.redacting is None:
            return self._write(drafts, None)
        plan = self.redacting.plan(drafts, self.seq + 1)
        return self._write(plan.drafts, plan)

    def _doubt(self) -> None:
        """Note after an interruption that the log may have an event that is not known here."""
        self.in_doubt, self.ready, self.straight = True, False, False

    def _write(self, drafts: list[Draft], plan: RedactionPlan | None) -> list[Event]:
        try:
            return self._write_lines(drafts, plan)
        except HoldfastError:
            raise
        except BaseException:
            self._doubt()
            raise

    def _write_lines(self, drafts: list[Draft], plan: RedactionPlan | None) -> list[Event]:
        preamble: list[Draft] = []
        if not self.opening.begun:
            # Before anything is created on disk: an invalid event leaves no trace.
            self.writer.check(drafts)
            preamble = self._begin()
            self.keeper.start()
        # Text that a stream held back was accepted earlier, and must not fail for its size now.
        spare = () if plan is None else [len(preamble) + place for place in plan.added]
        events = self.writer.extend([*preamble, *drafts], spare)
        recorded = events[len(preamble) :]
        # Only after the write: if the opening could not be recorded, the next append tries again.
        self.opening.begun = True
        self._make_ready()
        if plan is not None and self.redacting is not None:
            for notice in self.redacting.done(plan, recorded):
                self.outbox.put(notice)
            recorded = [one for at, one in enumerate(recorded) if at not in plan.added]
        for event in events:
            self.fold.apply(event)
            self._after(event)
        return recorded

    def _begin(self) -> list[Draft]:
        """Take the lease if it is not held yet, and return the events that precede the first one."""
        opening = self.opening
        if not self.options.staged and not opening.goes_on:
            opening.take_over()
            if self.writer.position != opening.loaded.position:
                # Another process created the session between its opening here and its first event.
                self.fold = opening.loaded.fold
                self.talk.begin_again()
                self.restored = True
                self.writer.position = opening.loaded.position
        self.writer.epoch = opening.epoch
        opening.begin_sealing(self.writer)
        if opening.loaded.open_line:
            self.writer.lead = b"\n"
        return opening.preamble(self.fold.state)

    def _extend(self, drafts: list[Draft]) -> list[Event]:
        """Write the events whose key is new; a key that comes twice in a batch counts once."""
        known, keys = self.fold.state.keys, set[str]()
        if self.redacting is not None:
            key = self.redacting.key
            drafts = [one if one.key is None else one._replace(key=key(one.key)) for one in drafts]
        fresh: list[Draft] = []
        for draft in drafts:
            if draft.key is None or (draft.key not in known and draft.key not in keys):
                fresh.append(draft)
            if draft.key is not None:
                keys.add(draft.key)
        unkeyed = iter([event for event in self._write_batch(fresh) if event.key is None])
        return [next(unkeyed) if draft.key is None else self._event_of_key(draft.key) for draft in drafts]

    def _make_ready(self) -> None:
        self.ready = True
        self.straight = self.writer.goes_straight

    def _after(self, event: Event) -> None:
        if event.key is not None:
            self._keyed[event.key] = event
        if self.talk.active:
            self.talk.take(self.as_it_was(event))
        if self.writer.offset >= self.keeper.watermark:
            self.keeper.pass_watermark()
        self.outbox.put(event)

    def _event_of_key(self, key: str) -> Event:
        found = self._keyed.get(key)
        if found is None:
            seq = self.fold.state.keys[key]
            found = self._keyed[key] = next(self.events(seq))
        return found
