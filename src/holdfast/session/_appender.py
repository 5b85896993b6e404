"""Recording: from what a caller gives to a line in the log and a state that knows of it."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, InvalidData, StoreError, UsageError
from holdfast.model import Event, line_maker
from holdfast.replay import Fold
from holdfast.session import _clock
from holdfast.session._readable import Readable
from holdfast.session._writer import Draft
from holdfast.storage import forks

if TYPE_CHECKING:
    from holdfast.session._keeper import Keeper
    from holdfast.session._redaction import RedactionPlan, SessionRedaction
    from holdfast.session._subscribers import Hub, Outbox
    from holdfast.storage import Store


_make_line = line_maker(pure=bool(os.environ.get("HOLDFAST_PURE")))
_UNUSUAL = Event(""), b"", 0


class Appending(Readable):
    """The recording half of a session. One lock keeps log and state in step."""

    id: str
    restored: bool
    _store: Store
    _forks: int
    _closed: bool
    _ended: bool
    _always: bool
    _redacting: SessionRedaction | None
    _keyed: dict[str, Event]
    _hub: Hub
    _outbox: Outbox
    _keeper: Keeper
    _ready = False
    """Whether this opening is on record, not ended, and nothing is in doubt."""
    _straight = False
    """Whether an append may moreover go to the log as it is."""

    @abstractmethod
    def flush(self) -> None:
        """Return once everything recorded so far is on the medium."""

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
        # Every append comes through here, and each call on the way is to be felt: what is usual is
        # done in this one function, what is rare elsewhere. Acquired inside, so that a key press
        # just after it does not leave the lock with nobody.
        lock, writer = self._lock, self._writer
        try:
            try:
                lock.acquire()
                is_usual = run is None and key is None and timestamp is None
                if not is_usual or not self._straight or writer.dead is not None:
                    recorded = self._record_rare(Draft(type, data, run, key, timestamp))
                else:
                    seq = writer.seq
                    clock, depth = _clock.time_ns, self.limits.depth_max
                    made = _make_line(type, data, seq, writer.crc, clock, depth)
                    # No line is made of what is unusual, and needs a closer look.
                    recorded, line, crc = made or _UNUSUAL
                    size = len(line)
                    end = writer.offset + size
                    secrets = self._redacting
                    if (
                        not size
                        or size > writer.line_bytes_max
                        or end >= self._keeper.watermark
                        or (secrets is not None and not secrets.passes(recorded, data))
                    ):
                        recorded = self._record_rare(Draft(type, data))
                    else:
                        try:
                            writer.log.append(line, seq, 1, writer.epoch)
                        except StoreError as error:
                            writer.failed(error)
                            raise
                        # No call in between: a key press is noticed after calls, and must not come
                        # between the line in the log and its number being taken.
                        writer.seq, writer.offset, writer.crc = seq + 1, end, crc
                        self._fold.apply(recorded, data)
                        if self._hub.listeners or self._talk.active:
                            self._after(recorded)
            except HoldfastError:
                raise
            except BaseException:
                # Such as a key press: the log may know an event that the state does not.
                self._in_doubt, self._ready, self._straight = True, False, False
                raise
        except BaseException:
            try:
                lock.release()
            except RuntimeError:
                pass  # interrupted while it waited for the lock
            raise
        lock.release()
        if self._outbox.waiting:
            self._outbox.deliver()
        if self._always:
            self.flush()
        return recorded

    def extend(self, events: Iterable[Event | tuple[str, dict[str, Any]]]) -> list[Event]:
        """Record several events with one write; a reader sees all of them or none."""
        if not isinstance(events, Iterable):
            raise UsageError(f"events are a list, not {type(events).__name__}")
        drafts = [as_draft(event) for event in events]
        with self._lock:
            self._check_writable()
            try:
                self._settle()
                recorded = self._extend(drafts)
            except HoldfastError:
                raise
            except BaseException:
                self._in_doubt, self._ready, self._straight = True, False, False
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

    def _record_rare(self, draft: Draft) -> Event:
        """An append that does not go straight, for whatever reason; under the lock."""
        if not self._ready or self._forks != forks.count or self._redacting is not None:
            return self._record_first(draft)
        if isinstance(draft.key, str) and draft.key in self._fold.state.keys:
            return self._event_of_key(draft.key)
        recorded = self._writer.append(*draft)
        self._fold.apply(recorded, draft.data)
        self._after(recorded)
        return recorded

    def _record_first(self, draft: Draft) -> Event:
        """The first append of an opening, and every append that must not happen."""
        self._check_writable()
        self._settle()
        if isinstance(draft.key, str) and draft.key in self._fold.state.keys:
            return self._event_of_key(draft.key)
        return self._write_batch([draft])[0]

    def _write_batch(self, drafts: list[Draft]) -> list[Event]:
        if not drafts:
            return []
        if self._redacting is None:
            return self._write(drafts, None)
        plan = self._redacting.plan(drafts, self.seq + 1)
        return self._write(plan.drafts, plan)

    def _write(self, drafts: list[Draft], plan: RedactionPlan | None) -> list[Event]:
        preamble: list[Draft] = []
        if not self._opening.begun:
            # Before anything is made on disk: what cannot be recorded leaves no trace.
            self._writer.check(drafts)
            preamble = self._begin()
            self._keeper.start()
        spare = () if plan is None else [len(preamble) + place for place in plan.added]
        events = self._writer.extend([*preamble, *drafts], spare)
        recorded = events[len(preamble) :]
        self._opening.begun = True
        self._make_ready()
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
            self._fold = Fold()
            self._fold.fold(self.events())
            self._talk.begin_again()
            self._in_doubt = False
            if self._opening.begun and not self._ended:
                self._make_ready()

    def _make_ready(self) -> None:
        """This opening is on record: appends can be quick now."""
        self._ready = True
        self._straight = self._writer.goes_straight

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
        return self.events() if self._redacting is None else map(self._as_it_was, self.events())

    def _as_it_was(self, event: Event) -> Event:
        return event if self._redacting is None else self._redacting.as_it_was(event)

    def _event_of_key(self, key: str) -> Event:
        found = self._keyed.get(key)
        if found is None:
            seq = self._fold.state.keys[key]
            found = self._keyed[key] = next(self.events(seq))
        return found


# What callers give to be recorded, made into drafts of events.


# What the session itself records of its life; nobody else may claim it.
_OWN_TYPES = frozenset(["session_start", "opened", "closed"])


def as_draft(event: Event | tuple[str, dict[str, Any]]) -> Draft:
    """An event of a batch. Raises InvalidData for what is none, UsageError for one of our own."""
    if isinstance(event, Event):
        draft = Draft(event.type, event.data, event.run, event.key, event.timestamp or None)
    else:
        try:
            draft = Draft(*event)
        except TypeError as error:
            raise InvalidData("an event of a batch is an Event, or a type and its data") from error
    check_type(draft.type)
    return draft


def check_type(type: str) -> None:
    """Raise UsageError for a type that only the session itself records."""
    if isinstance(type, str) and type in _OWN_TYPES:
        raise UsageError(
            f"{type!r} is recorded by the session itself",
            remedy="Choose another type for your event.",
        )
