"""Where an event ends in a log: found by looking at a few places, however long the log is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from holdfast.errors import Damaged, NotFound
from holdfast.model import START, LineReader, Position, read_line, running_checksum
from holdfast.replay import check_format
from holdfast.session._snapshots import Snapshot, Snapshots
from holdfast.session.reader import fits, second_line
from holdfast.storage import Documents, Log

# A part as short as this is simply read; a longer one is halved until it is.
_NEAR_BYTES = 1 << 15
_NEAR_EVENTS = 16
# In as many bytes there is a whole line and its end, unless it is a huge one.
_LOOK_BYTES = 1 << 18
# Up to here every byte before the place is checked as well; that takes half a millisecond.
_CHECKED_BYTES_MAX = 1 << 19


class EventEnd(NamedTuple):
    """The end of an event, and what is known there."""

    position: Position
    open_line: bool = False
    """Whether the last line of a plain log lacks its newline."""
    snapshot: Snapshot | None = None
    """The newest whole snapshot of the events before."""


def find_place(log: Log, documents: Documents, at: int | None) -> EventEnd:
    """The end of event ``at``, or of the last whole one; of its batch, if it is inside one.

    Raises NotFound for an event that is not there, Damaged if bytes before it are not as written
    (as far as they are looked at: all since the newest snapshot, unless that is more than 512 KiB),
    TooNew for a format that is not known here. The time does not grow with the log.
    """
    snapshot = _newest_snapshot(log, documents, at)
    return _find(log, snapshot, at)._replace(snapshot=snapshot)


def has_place(log: Log, place: EventEnd) -> bool:
    """Whether a log has the same events up to a place that was found in another one.

    As far as they are looked at, as in ``find_place``.
    """
    if place.snapshot is not None and not fits(log, place.snapshot.position):
        return False
    try:
        return _find(log, place.snapshot, place.position.seq - 1).position == place.position
    except (NotFound, Damaged):
        return False


def _find(log: Log, snapshot: Snapshot | None, at: int | None) -> EventEnd:
    first = read_line(line_at(log, 0), log.unseal)
    if first is not None:
        check_format(first)
    start = START if snapshot is None else snapshot.position
    wanted = sys.maxsize if at is None else at
    near = _approach(log, start, wanted) if first is not None and first.seq == 0 else start
    # A snapshot may end with the very event; then nothing is left to read.
    place = EventEnd(near) if near.seq > wanted else _walk(log, near, wanted)
    end = place.position
    if end.seq == 0:
        raise NotFound("the session has no events", remedy="Record something in it first.", seq=at)
    if at is not None and end.seq <= at:
        raise NotFound(
            f"there is no event {at}; the last is {end.seq - 1}",
            remedy="Choose an earlier one.",
            seq=at,
        )
    _check_bytes(log, start, near)
    return place


def line_at(log: Log, offset: int) -> bytes:
    """The line that begins at an offset; as much as there is of one that is not whole."""
    found = b""
    for chunk in log.read(offset):
        found += chunk
        if b"\n" in chunk:
            break
    return found[: found.find(b"\n") + 1]


def is_foreign(log: Log) -> bool:
    """Whether a log begins with a whole line that no writer of ours left: numbered, not summed.

    A plain line has neither number nor checksum, one of ours has both, and a write that a crash
    broke off has no whole line that lacks its end.
    """
    try:
        found = msgspec.json.decode(line_at(log, 0), type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return {"seq", "type"} <= found.keys() and "crc" not in found


def _newest_snapshot(log: Log, documents: Documents, at: int | None) -> Snapshot | None:
    found = Snapshots(documents).newest(at)
    usable = found is not None and found.offset <= log.size() and fits(log, found.position)
    return found if usable else None


def _approach(log: Log, start: Position, wanted: int) -> Position:
    """A place before the event, near enough to read on from; lines say themselves where they are.

    Looks where the event is likely to be, and every second time in the middle of what is left, so
    that it ends soon; also where a place has no line that says where it is.
    """
    near, end = start, log.size()
    event_bytes, is_halving = 0.0, True
    while end - near.offset > _NEAR_BYTES and wanted - near.seq > _NEAR_EVENTS:
        look = (near.offset + end) // 2
        if not is_halving:
            look = _likely(near, end, (wanted - near.seq) * event_bytes)
        found = second_line(look, log.read_part(look, look + _LOOK_BYTES))
        if found is None or not near.offset < found[0].offset <= end:
            if is_halving:
                break
            is_halving = True
            continue
        event_bytes = found[0].offset / max(found[0].seq, 1)
        is_halving = not is_halving
        if found[0].seq <= wanted:
            near = found[0]
        else:
            end = look
    return near


def _likely(near: Position, end: int, distance: float) -> int:
    """Where to look for an event that is about so many bytes behind a place: a little before it."""
    first, last = near.offset + 1, end - _NEAR_BYTES // 2
    return int(min(max(near.offset + distance - _NEAR_BYTES // 8, first), last))


def _walk(log: Log, start: Position, wanted: int) -> EventEnd:
    """Read on from a place until the event has ended. Raises Damaged where a line is not whole."""
    reader = LineReader(start, log.unseal)
    for block in _blocks(log, start.offset, wanted - start.seq + 1):
        for event in reader.feed(block):
            check_format(event)
        if reader.position.seq > wanted:
            return EventEnd(reader.position)
    for event in reader.finish():
        check_format(event)
    if reader.gaps:
        raise _damaged(reader.gaps[0].first_seq)
    return EventEnd(reader.position, reader.open_line)


def _blocks(log: Log, offset: int, count: int) -> Iterator[bytes]:
    """So many lines in as few pieces as they come, then what follows line by line."""
    for chunk in log.read(offset):
        rest = chunk
        while rest:
            lines = rest.count(b"\n")
            after = b"" if lines < count else rest.split(b"\n", max(count, 1))[-1]
            if not lines:
                after = b""
            yield rest[: len(rest) - len(after)]
            count, rest = count - lines if lines < count else 0, after


def _check_bytes(log: Log, start: Position, end: Position) -> None:
    """Whether the bytes between two places are as written, unless there are too many of them."""
    left = end.offset - start.offset
    if not 0 < left <= _CHECKED_BYTES_MAX:
        return
    if running_checksum(log.read(start.offset), left, start.crc) != end.crc:
        raise _damaged(None)


def _damaged(seq: int | None) -> Damaged:
    where = "" if seq is None else f" at event {seq}"
    return Damaged(
        f"the log is damaged{where}, before the place that was asked for",
        remedy="Choose an event before the damage, or run `holdfast repair` first.",
        seq=seq,
    )
