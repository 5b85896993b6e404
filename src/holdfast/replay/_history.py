"""Where a session's events came from: its line of descent and what was merged into it.

A log tells this by itself, whatever became of its parents: ``session_start`` and each ``forked``
give the log a new name, so that every event has one origin, and ``merged`` tells which turns of
which log stand where. Nothing here follows a name to another log, so that no claim can lead round
in circles.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import takewhile
from operator import attrgetter
from typing import Any, NamedTuple

from holdfast.model import Event
from holdfast.replay._turns import TurnEvents, data_of


class Origin(NamedTuple):
    """An event by the log in which it was first recorded, and its number there."""

    log: str
    seq: int


class Segment(NamedTuple):
    """A part of a session's line: the events up to ``last`` that no earlier part has."""

    session: str
    log: str
    last: int


class Copy(NamedTuple):
    """Events ``first`` to ``last`` of another log, which stand here as ``to`` to ``to_last``."""

    log: str
    first: int
    last: int
    to: int
    to_last: int


class Merge(NamedTuple):
    """The end of the other log when its state was merged into this one."""

    session: str
    origin: Origin
    at: int


class Descent:
    """What one log says of its origin."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.copies: list[Copy] = []
        self.merges: list[Merge] = []

    def segment_of(self, seq: int) -> Segment | None:
        """The part of the line that an event stands in."""
        at = bisect_left(self.segments, seq, key=attrgetter("last"))
        return self.segments[at] if at < len(self.segments) else None

    def places(self, origin: Copy) -> Iterator[tuple[int, int]]:
        """Where events of another log would be in this one: the first and the last of a part.

        A log that was copied as a file goes on under the name of the first, so that something else
        may stand there.
        """
        log, first, last, *_ = origin
        end = self._ends.get(log, -1)
        if first <= end:
            yield first, min(last, end)
        copies = self._copies_from.get(log, [])
        at = bisect_right(copies, first, key=attrgetter("first")) - 1
        if at >= 0 and first <= copies[at].last:
            yield copies[at].to, copies[at].to_last

    def origins(self, turn: TurnEvents) -> list[Copy]:
        """Where a turn of this log was first recorded, and where it was copied from."""
        own = self.segment_of(turn.first)
        found = [] if own is None else [Copy(own.log, turn.first, turn.last, 0, 0)]
        at = bisect_right(self._places, turn.first) - 1
        copies = self._copies_to[self._places[at]] if at >= 0 else []
        return found + [one for one in copies if turn.first <= one.to_last]

    @cached_property
    def _ends(self) -> dict[str, int]:
        return {one.log: one.last for one in self.segments}

    @cached_property
    def _copies_from(self) -> dict[str, list[Copy]]:
        found: dict[str, list[Copy]] = {}
        for one in sorted(self.copies, key=attrgetter("first")):
            found.setdefault(one.log, []).append(one)
        return found

    @cached_property
    def _copies_to(self) -> dict[int, list[Copy]]:
        found: dict[int, list[Copy]] = {}
        for one in sorted(self.copies, key=attrgetter("to")):
            found.setdefault(one.to, []).append(one)
        return found

    @cached_property
    def _places(self) -> list[int]:
        return list(self._copies_to)


def read_history(session_id: str, events: Iterable[Event]) -> Descent:
    """What the events of a session say of where they came from. Malformed claims are ignored."""
    found = Descent()
    log: str | None = None
    last = -1
    for event in events:
        last = event.seq
        if event.type == "session_start" and log is None:
            log = _text(data_of(event).get("log"))
        elif event.type == "forked":
            data = data_of(event)
            parent = _text(data.get("session")) or ""
            found.segments.append(Segment(parent, log or f"@{parent}", event.seq - 1))
            log = _text(data.get("log"))
        elif event.type == "merged":
            _read_merge(found, data_of(event), event.seq)
    found.segments.append(Segment(session_id, log or f"@{session_id}", last))
    return found


def _read_merge(found: Descent, data: dict[str, Any], at: int) -> None:
    log, seq, copies = _text(data.get("log")), data.get("seq"), data.get("copies")
    if log is not None and isinstance(seq, int):
        found.merges.append(Merge(_text(data.get("session")) or "", Origin(log, seq), at))
    for one in copies if isinstance(copies, list) else ():
        match one:
            case [str(name), int(first), int(last), int(to), int(to_last)]:
                found.copies.append(Copy(name, first, last, to, to_last))
            case _:
                continue


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def common_prefix(a: Sequence[Event], b: Sequence[Event]) -> int:
    """The seq of the last event that both logs begin with; -1 if their first ones differ."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))
    last = -1
    for event, _ in same:
        last = event.seq
    return last
