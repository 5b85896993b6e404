"""What is done for a session by itself: saving what is dirty, snapshots, a word about its size."""

from __future__ import annotations

import contextlib
import sys
from typing import Protocol

from holdfast.errors import HoldfastError
from holdfast.model import Notice, Position
from holdfast.session._memory import Memory
from holdfast.session._opening import Opening
from holdfast.session._outbox import Outbox
from holdfast.session._schedule import SnapshotSchedule
from holdfast.session._timers import Timers
from holdfast.session._writer import Writer

__all__ = ["Keeper"]

# A snapshot syncs, and a sync holds up appends: a burst gets one in a while, not one for every
# quarter of a megabyte.
_PAUSE_MS = 250


class Kept(Protocol):
    """What the keeper needs of a session."""

    memory: Memory

    @property
    def closed(self) -> bool:
        """Whether it can no longer be used."""

    def flush(self) -> None:
        """Bring everything onto the medium."""

    def snapshot(self) -> int:
        """Save the folded state."""


class Keeper:
    """Watches the size of one session's log and does what is due."""

    def __init__(
        self,
        session: Kept,
        opening: Opening,
        writer: Writer,
        outbox: Outbox,
        timers: Timers | None,
    ) -> None:
        self._session = session
        self._opening = opening
        self._writer = writer
        self._outbox = outbox
        self._timers = timers
        self._schedule = SnapshotSchedule(opening)
        self._told_of_size = False
        self.flushed = writer.position.offset
        """Up to here the log is known to be on the medium."""
        self.watermark = 0
        """The size at which something is due."""
        self._set_watermark()
        self._start_timers()

    @property
    def snapshot_seq(self) -> int:
        """The seq that the newest snapshot covers; -1 if there is none."""
        return self._schedule.seq

    def save_snapshot(self, state: bytes, position: Position) -> None:
        """Store a state whose events are on the medium, and tell."""
        size = self._schedule.save(state, position)
        self._set_watermark()
        self._outbox.notify("snapshot_created", size_bytes=size, seq=position.seq - 1)

    def tell_snapshot_failed(self, error: HoldfastError) -> None:
        """One could not be taken: tell it, and let the log grow before the next."""
        self._schedule.postpone(self._writer.offset)
        self._set_watermark()
        self._outbox.notify("snapshot_failed", code="SNAPSHOT_ERROR", message=str(error))

    def tell_lost(self, notice: Notice) -> None:
        """The right to write was lost: tell it, on another thread, as this one has the lock."""
        self._outbox.put(notice)
        if self._timers is not None:
            self._timers.soon(self._outbox.deliver)

    def pass_watermark(self) -> None:
        """The log has reached the watermark."""
        offset = self._writer.offset
        if not self._told_of_size and offset >= self._writer.notice_at():
            self._told_of_size = True
            detail = {"bytes": offset, "limit": self._opening.options.limits.session_bytes_max}
            self._outbox.put(Notice("session_near_limit", self._opening.session_id, detail))
        if self._timers is not None and offset >= self._schedule.due_at():
            self._schedule.ask()
            self._timers.soon(self._take_snapshot, _PAUSE_MS)
        self._set_watermark()

    def end_of_turn(self) -> None:
        """Without timers, what is due is done at the end of a turn."""
        if self._timers is None:
            self.settle()

    def settle(self) -> None:
        """Take the snapshot that is due, if one is."""
        if self.is_due:
            self._take_snapshot()

    @property
    def is_due(self) -> bool:
        """Whether the log has grown enough for a snapshot."""
        return self._schedule.is_due(self._writer.offset)

    def _start_timers(self) -> None:
        options = self._opening.options
        if self._timers is None or self._opening.read_only:
            return
        if options.autosave_ms and not options.staged:
            self._timers.every(options.autosave_ms, self._autosave)
        if options.snapshot_ms:
            self._timers.every(options.snapshot_ms, self._take_snapshot)

    def _set_watermark(self) -> None:
        notice_at = sys.maxsize if self._told_of_size else self._writer.notice_at()
        snapshot_at = sys.maxsize if self._timers is None else self._schedule.due_at()
        # At the end of all space something is always due: appends are looked at more closely there.
        self.watermark = min(notice_at, snapshot_at, self._writer.limits.session_bytes_max)

    def _autosave(self) -> None:
        is_dirty = self._opening.begun and self.flushed < self._writer.offset
        if self._session.closed or not (is_dirty or self._session.memory.is_dirty):
            return
        if self._writer.dead is not None:
            return
        try:
            self._session.flush()
        except HoldfastError as error:
            self._outbox.notify("flush_failed", code=error.code, message=str(error))

    def _take_snapshot(self) -> None:
        newest = self._writer.seq - 1
        if self._idle() or newest == self._schedule.seq or self._opening.options.staged:
            return
        with contextlib.suppress(HoldfastError):  # told by whoever failed
            self._session.snapshot()

    def _idle(self) -> bool:
        begun = self._opening.begun and not self._session.closed
        return not begun or self._writer.dead is not None
