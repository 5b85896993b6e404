"""Automatic work of a session: saving, snapshots, and a notice about its size."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod

from holdfast.errors import HoldfastError
from holdfast.model import Notice, Position
from holdfast.session._loader import Snapshots, prefix_digest
from holdfast.session._opening import Opening
from holdfast.session._subscribers import Outbox
from holdfast.session._writer import Writer
from holdfast.storage import forks

if TYPE_CHECKING:
    from holdfast.session.session import Session

# A snapshot syncs, and a sync delays appends: a burst gets one in a while, not one for every quarter of a megabyte.
_PAUSE_MS = 250
_SWEEP_MIN = 1000


class Keeper:
    """Watches the size of one session's log and does what is due."""

    def __init__(
        self, session: Session, opening: Opening, writer: Writer, outbox: Outbox, timers: Timers | None
    ) -> None:
        self._session = session
        self._opening = opening
        self._writer = writer
        self._outbox = outbox
        self._timers = timers
        self._schedule = SnapshotSchedule(opening)
        self._told_of_size = False
        self.flushed = writer.offset
        """The offset up to which the log is known to be durable."""
        self.watermark = 0
        """The size at which something is due; the first append finds out what."""
        self._started = False

    def start(self) -> None:
        """Start the timers of the session: from now on there is something to save."""
        options, timers = self._opening.options, self._timers
        if self._started or timers is None or self._opening.read_only:
            return
        self._started = True
        if options.autosave_ms and not options.staged:
            timers.every(options.autosave_ms, self._autosave)
        if options.snapshot_ms:
            timers.every(options.snapshot_ms, self._take_snapshot)

    @property
    def snapshot_seq(self) -> int:
        return self._schedule.seq

    def save_snapshot(self, state: bytes, position: Position) -> None:
        size = self._schedule.save(state, position)
        self._set_watermark()
        self._outbox.notify("snapshot_created", size_bytes=size, seq=position.seq - 1)

    def tell_snapshot_failed(self, error: HoldfastError) -> None:
        """Report a failed snapshot, and let the log grow as much again before the next."""
        self._schedule.asked, self._schedule.offset = False, self._writer.offset
        self._set_watermark()
        self._outbox.notify("snapshot_failed", code="SNAPSHOT_ERROR", message=str(error))

    def tell_lost(self, notice: Notice) -> None:
        """Report that the right to write was lost, on another thread, because this one has the lock."""
        self._outbox.put(notice)
        if self._timers is not None:
            self._timers.soon(self._outbox.deliver)

    def pass_watermark(self) -> None:
        offset = self._writer.offset
        if not self._told_of_size and offset >= self._writer.notice_at():
            self._told_of_size = True
            detail = {"bytes": offset, "limit": self._writer.limits.session_bytes_max}
            self._outbox.put(Notice("session_near_limit", self._opening.session_id, detail))
        if self._timers is not None and offset >= self._schedule.due_at():
            self._schedule.asked = True
            self._timers.soon(self._take_snapshot, _PAUSE_MS)
        self._set_watermark()

    def end_of_turn(self) -> None:
        """Do at the end of a turn what is due, where there are no timers."""
        if self._timers is None:
            self.settle()

    def settle(self) -> None:
        if self.is_due:
            self._take_snapshot()

    @property
    def is_due(self) -> bool:
        return self._schedule.asked or self._writer.offset >= self._schedule.due_at()

    def _set_watermark(self) -> None:
        notice_at = sys.maxsize if self._told_of_size else self._writer.notice_at()
        snapshot_at = sys.maxsize if self._timers is None else self._schedule.due_at()
        # When the session is nearly full something is always due: appends take the slow path there.
        self.watermark = min(notice_at, snapshot_at, self._writer.limits.session_bytes_max)

    def _autosave(self) -> None:
        # A sync delays appends: none without something new.
        is_dirty = self._opening.begun and self.flushed < self._writer.offset
        if self._session.closed or self._writer.dead is not None or not (is_dirty or self._session.is_memory_dirty):
            return
        try:
            self._session.flush()
        except HoldfastError as error:
            self._outbox.notify("flush_failed", code=error.code, message=str(error))

    def _take_snapshot(self) -> None:
        is_idle = not self._opening.begun or self._session.closed or self._writer.dead is not None
        if is_idle or self._writer.seq - 1 == self._schedule.seq or self._opening.options.staged:
            return
        with contextlib.suppress(HoldfastError):  # reported by the code that failed
            self._session.snapshot()


class SnapshotSchedule:
    """When a snapshot is worth its cost: after growth by 256 KiB or 4 times the state's size, whichever is more."""

    def __init__(self, opening: Opening) -> None:
        self._limits = opening.options.limits
        self._clock = opening.options.clock
        self._documents = opening.documents
        newest = opening.loaded.snapshot
        self.seq = -1 if newest is None else newest.seq
        """The seq that the newest snapshot covers; -1 if there is none."""
        self.offset = 0 if newest is None else newest.offset
        """The size of the log from which growth is counted."""
        self._log = opening.log
        self._link = ("" if newest is None else newest.link, self.offset)
        self._state_bytes = 0
        self.asked = False
        """True if a snapshot is scheduled."""

    def due_at(self) -> int:
        """Return the size of the log at which to ask for the next one."""
        if self.asked:
            return sys.maxsize
        grown = self._limits.snapshot_growth_factor * self._state_bytes
        return self.offset + max(self._limits.snapshot_growth_bytes_min, grown)

    def save(self, state: bytes, position: Position) -> int:
        prefix = prefix_digest(self._log, position.offset, *self._link)
        size = Snapshots(self._documents, self._limits).save(state, position, self._clock(), prefix)
        self._link = prefix[1], position.offset
        self.seq, self.offset, self._state_bytes, self.asked = position.seq - 1, position.offset, len(state), False
        return size


class Timers:
    """Calls methods once or repeatedly on a daemon thread; holds objects weakly, keeps no process alive."""

    def __init__(self) -> None:
        # A plain lock: an interrupt could leave a condition, which is Python code, locked.
        self._lock = threading.RLock()
        self._condition = threading.Condition(self._lock)
        self._due: list[tuple[float, int, WeakMethod[Any], float]] = []
        self._sweep_at = _SWEEP_MIN
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._forks = forks.count
        self._closed = False

    def every(self, interval_ms: int, method: Callable[[], None], *, repeat: bool = True) -> None:
        """Call a bound method every ``interval_ms`` while its object lives."""
        delay = interval_ms / 1000
        with self._lock:
            if self._closed:
                return
            when = time.monotonic() + delay
            # Numbered, because methods due at the same time cannot be compared.
            item = (when, next(self._numbers), WeakMethod(method), delay if repeat else 0.0)
            heapq.heappush(self._due, item)
            if len(self._due) >= self._sweep_at:
                # Entries of closed sessions are not kept until they are due: that may be minutes, and many sessions.
                self._due = [one for one in self._due if one[2]() is not None]
                heapq.heapify(self._due)
                self._sweep_at = max(_SWEEP_MIN, 2 * len(self._due))
            if self._thread is None or self._forks != forks.count:
                thread = threading.Thread(target=self._run, name="holdfast-timers", daemon=True)
                # At the end of the interpreter no thread can be started, and nothing is left to do.
                with contextlib.suppress(RuntimeError):
                    thread.start()
                    self._forks, self._thread = forks.count, thread
            self._condition.notify()

    def soon(self, method: Callable[[], None], delay_ms: int = 0) -> None:
        """Call a bound method once, on the timer thread."""
        self.every(delay_ms, method, repeat=False)

    def close(self) -> None:
        """Stop the thread. Pending calls are dropped."""
        with self._lock:
            self._closed = True
            self._due.clear()
            self._condition.notify()
            thread = self._thread
        if thread and thread is not threading.current_thread() and self._forks == forks.count:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._lock:
                if self._closed:
                    return
                reference = self._next_due()
            method = reference() if reference else None
            if method is not None:
                method()

    def _next_due(self) -> WeakMethod[Any] | None:
        """Wait until something is due, or until the schedule changes."""
        if not self._due:
            self._condition.wait()
            return None
        when, _, reference, interval = self._due[0]
        left = when - time.monotonic()
        if left > 0:
            self._condition.wait(left)
            return None
        heapq.heappop(self._due)
        if interval and reference() is not None:
            again = (time.monotonic() + interval, next(self._numbers), reference, interval)
            heapq.heappush(self._due, again)
        return reference
