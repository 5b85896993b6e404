"""From what a user typed to an event: a number, a turn, or a time. Blocking."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from holdfast.apps.shown.moments import moment_of
from holdfast.apps.tui._window import Reader
from holdfast.errors import NotFound, UsageError

if TYPE_CHECKING:
    from holdfast.library import Holdfast

__all__ = ["find_seq"]

_TURN = re.compile(r"t(?:urn)?\s*(-?\d+)\Z")
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?\Z")


def find_seq(library: Holdfast, session_id: str, text: str) -> int:
    """The event that is meant: ``120``, ``t7``, ``t-1``, ``14:30``, ``2026-05-01``, ``3d``.

    Raises UsageError for what is none of these, and NotFound for a turn that there is not.
    """
    wanted = text.strip().lower().lstrip("#")
    reader = Reader(library, session_id)
    if wanted.isdecimal():
        return min(int(wanted), max(reader.newest_seq(), 0))
    if found := _TURN.match(wanted):
        seq = reader.seq_of_turn(int(found[1]))
        if seq is None:
            raise NotFound(f"there is no turn {found[1]}", session_id=session_id)
        return seq
    seq = reader.seq_at(_moment(library, session_id, wanted))
    if seq is None:
        raise NotFound("nothing has happened in this session yet", session_id=session_id)
    return seq


def _moment(library: Holdfast, session_id: str, text: str) -> int:
    """A time of day is that of the session's last day."""
    if found := _CLOCK.match(text):
        last = library.last_modified(session_id)
        day = datetime.now().astimezone() if last is None else last.astimezone()
        hour, minute, second = (int(part or 0) for part in found.groups())
        start = day.replace(hour=0, minute=0, second=0, microsecond=0)
        asked = start + timedelta(hours=hour, minutes=minute, seconds=second)
        return int(asked.timestamp() * 1000)
    try:
        moment = moment_of(text)
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"{text[:40]!a} is no event, turn or time", remedy="Such as 120, t7, 14:30, 2026-05-01."
        ) from None
    return int(moment.timestamp() * 1000)
