"""The part of a conversation that is in memory: chunks of a log around what is looked at. Blocking.

A chunk ends where a turn ends, so that streamed pieces and the message that covers them, and a call
and its result, are in one. Nothing here reads more of a log than it is asked for.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

from holdfast.apps.render.transcript import heading, lost_from, with_blobs
from holdfast.apps.render.words import moment_of
from holdfast.errors import NotFound, UsageError
from holdfast.library import Holdfast
from holdfast.model import Event
from holdfast.replay import Entry, read_transcript

PAGE = 120
_PAGE_MAX = 600  # a turn may be longer than a page; beyond this it is cut
_TURN_STARTS = ("turn_start", "user", "session_start")


class LogChunk(NamedTuple):
    """Events ``first`` to ``stop - 1`` and what they say."""

    first: int
    stop: int
    events: list[Event]
    entries: list[Entry]

    def who(self, entry: Entry) -> str:
        """Return the speaker of an entry; its call may be in an earlier chunk, and an answer may continue."""
        return heading(entry, is_live=self.events[-1].type == "delta", first=self.first)


def chunk_of(events: list[Event], first: int | None = None, lost: int | None = None) -> LogChunk | None:
    """Return events in the order of the log, as a chunk; None if there are none."""
    if not events:
        return None
    begin = events[0].seq if first is None else first
    entries = list(read_transcript(events, begin, lost))
    return LogChunk(begin, events[-1].seq + 1, events, entries)


class PageReader:
    """Reads one session. Each method may take its time; call them in a thread."""

    def __init__(self, library: Holdfast, session_id: str) -> None:
        self._library = library
        self.session_id = session_id

    def before(self, seq: int | None) -> LogChunk | None:
        """Return the chunk before an event (None: the end of the log), from a turn's start; None at the beginning."""
        # Backwards, so that the end of a log of any length is there at once.
        events = self._library.events(self.session_id, stop=seq, reverse=True)
        found: list[Event] = list(islice(events, PAGE))
        for event in islice(events, _PAGE_MAX if found and found[-1].type not in _TURN_STARTS else 0):
            found.append(event)
            if event.type in _TURN_STARTS:
                break
        # Events that cannot be read belong to what comes after them, so that no gap is between two.
        earlier = next(events, None)
        return self._chunk(found[::-1], 0 if earlier is None else earlier.seq + 1)

    def after(self, seq: int, limit: int = PAGE) -> LogChunk | None:
        """Return event ``seq`` and the following ones; None if there are none."""
        events = self._library.events(self.session_id, start=seq)
        found = list(islice(events, limit))
        # On to the end of the turn, or a call would be parted from its result.
        for event in islice(events, _PAGE_MAX):
            if event.type in _TURN_STARTS:
                break
            found.append(event)
        return self._chunk(found, seq)

    def around(self, seq: int) -> LogChunk | None:
        """Return the turn of an event with what stands about it."""
        start = before.first if (before := self.before(seq + 1)) else 0
        return self.after(start, PAGE + max(seq - start, 0))

    def new(self, seq: int) -> list[Event]:
        """Return the events from ``seq`` on; only the end of the log is read for them."""
        found = list(self._library.events(self.session_id, start=seq, reverse=True))[::-1]
        return list(with_blobs(self._library, self.session_id, found))

    def newest_seq(self) -> int:
        """Return the number of the last event; -1 if there is none."""
        last = next(self._library.events(self.session_id, reverse=True, limit=1), None)
        return -1 if last is None else last.seq

    def _chunk(self, events: list[Event], first: int) -> LogChunk | None:
        whole = list(with_blobs(self._library, self.session_id, events))
        return chunk_of(whole, first, lost_from(self._library, self.session_id))


# From what a user typed to an event: a number, a turn, or a time. Blocking.
_TURN = re.compile(r"t(?:urn)?\s*(-?\d+)\Z")
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?\Z")


def find_seq(library: Holdfast, session_id: str, text: str) -> int:
    """Return the event that is meant: ``120``, ``t7``, ``t-1``, ``14:30``, ``2026-05-01``, ``3d``.

    Raises UsageError for what is none of these, and NotFound for a turn that there is not.
    """
    wanted = text.strip().lower().lstrip("#")
    if wanted.isdecimal():
        return min(int(wanted), max(PageReader(library, session_id).newest_seq(), 0))
    if found := _TURN.match(wanted):
        turns, number = library.timeline(session_id).turns, int(found[1])
        place = number - 1 if number > 0 else number
        if not -len(turns) <= place < len(turns):
            raise NotFound(f"there is no turn {found[1]}", session_id=session_id)
        return turns[place].seq
    moment, last = _moment(library, session_id, wanted), -1
    for event in library.events(session_id):
        last = event.seq
        if event.timestamp >= moment:
            break
    if last < 0:
        raise NotFound("nothing has happened in this session yet", session_id=session_id)
    return last


def _moment(library: Holdfast, session_id: str, text: str) -> int:
    """Return a moment; a time of day is on the session's last day."""
    if found := _CLOCK.match(text):
        last = library.last_modified(session_id)
        day = datetime.now().astimezone() if last is None else last.astimezone()
        hour, minute, second = (int(part or 0) for part in found.groups())
        start = day.replace(hour=0, minute=0, second=0, microsecond=0)
        return int((start + timedelta(hours=hour, minutes=minute, seconds=second)).timestamp() * 1000)
    try:
        moment = moment_of(text)
    except (ValueError, OverflowError, OSError):
        told = f"{text[:40]!a} is no event, turn or time"
        raise UsageError(told, remedy="Such as 120, t7, 14:30, 2026-05-01.") from None
    return int(moment.timestamp() * 1000)
