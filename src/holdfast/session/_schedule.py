"""When the next snapshot is due: when it would save more than it costs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from holdfast.model import Position
from holdfast.session._snapshots import Snapshots

if TYPE_CHECKING:
    from holdfast.session._opening import Opening

__all__ = ["SnapshotSchedule"]


class SnapshotSchedule:
    """Due when the log has grown by 256 KiB or by 4 times the state's size, whichever is more."""

    def __init__(self, opening: Opening) -> None:
        self._limits = opening.options.limits
        self._clock = opening.options.clock
        self._snapshots = Snapshots(opening.documents, self._limits)
        newest = opening.loaded.snapshot
        self.seq = -1 if newest is None else newest.seq
        """The seq that the newest snapshot covers; -1 if there is none."""
        self._offset = 0 if newest is None else newest.offset
        self._log = opening.log
        self._link = ("", 0) if newest is None else (newest.link, newest.offset)
        self._state_bytes = 0
        self._asked = False

    def due_at(self) -> int:
        """The size of the log at which to ask for the next one."""
        if self._asked:
            return sys.maxsize
        grown = self._limits.snapshot_growth_factor * self._state_bytes
        return self._offset + max(self._limits.snapshot_growth_bytes_min, grown)

    def is_due(self, offset: int) -> bool:
        """Whether a log of this size should have one that it has not."""
        return self._asked or offset >= self.due_at()

    def ask(self) -> None:
        """One will be taken soon."""
        self._asked = True

    def postpone(self, offset: int) -> None:
        """It could not be taken: the next is due after as much growth again."""
        self._asked, self._offset = False, offset

    def save(self, state: bytes, position: Position) -> int:
        """Store the state; the size of the snapshot."""
        from holdfast.session._prefix import prefix_digest

        prefix = prefix_digest(self._log, position.offset, *self._link)
        size = self._snapshots.save(state, position, self._clock(), prefix)
        self._link = prefix[1], position.offset
        self.seq, self._offset, self._state_bytes = position.seq - 1, position.offset, len(state)
        self._asked = False
        return size
