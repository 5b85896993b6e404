"""Reading a log without opening a session: forwards, backwards, in parts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice

import msgspec

from holdfast.model import START, Event, LineReader, Position, one_by_one
from holdfast.session._forwards import LINE_END_BYTES, crc_after, read_forwards
from holdfast.storage import Log

__all__ = ["read_range", "second_line"]

_TAIL_BYTES = 1 << 16
_PIECE_BYTES_MIN = 1 << 17
_PIECE_GROWTH = 1.25


def read_range(
    log: Log,
    *,
    start: int = 0,
    stop: int | None = None,
    types: Collection[str] | None = None,
    reverse: bool = False,
    limit: int | None = None,
) -> Iterator[Event]:
    """The valid events with ``start <= seq < stop``, of these types, at most ``limit`` of them.

    Backwards, only as much of the log is read as the limit needs.
    """
    events = one_by_one(_backwards(log)) if reverse else read_forwards(log)
    if start > 0 or stop is not None:
        events = _chosen(events, start, stop, types, reverse=reverse)
    elif types is not None:
        events = (event for event in events if event.type in types)
    return events if limit is None else islice(events, limit)


def _chosen(
    events: Iterator[Event],
    start: int,
    stop: int | None,
    types: Collection[str] | None,
    *,
    reverse: bool,
) -> Iterator[Event]:
    for event in events:
        if event.seq < start or (stop is not None and event.seq >= stop):
            past_the_end = event.seq < start if reverse else event.seq >= start
            if past_the_end:
                return
            continue
        if types is None or event.type in types:
            yield event


def _backwards(log: Log) -> Iterator[Sequence[Event]]:
    """Every valid event, newest first, in slowly growing pieces until the beginning is reached."""
    below: int | None = None
    wanted = _PIECE_BYTES_MIN
    offset, data = log.read_tail(_TAIL_BYTES)
    found = _piece(log, offset, data, None)
    while found is not None:
        begin, events = found
        yield events[::-1]
        if begin.offset == 0:
            return
        below = events[0].seq if events else below
        start = max(0, begin.offset - wanted)
        found = _piece(log, start, log.read_part(start, begin.offset), begin)
        wanted = int(wanted * _PIECE_GROWTH)
    # What is damaged, or cut where no piece may end, is read as a whole.
    whole = list(read_forwards(log))
    yield [event for event in reversed(whole) if below is None or event.seq < below]


def _piece(
    log: Log, start: int, data: bytes, end: Position | None
) -> tuple[Position, list[Event]] | None:
    """The events of what was read from ``start`` on, and where they begin.

    None if they cannot be verified, or do not lead to ``end``; that is the log's end if it is None.
    """
    found = second_line(start, data)
    if found is None:
        return None
    position, taken = found
    reader = LineReader(position, log.unseal)
    events = reader.feed(data[taken:])
    if reader.damaged or (end is not None and reader.position != end):
        return None
    return position, events if end is not None else events + reader.finish()


class _Numbered(msgspec.Struct):
    seq: int
    more: bool = False


_decode_number = msgspec.json.Decoder(_Numbered).decode


def second_line(offset: int, data: bytes) -> tuple[Position, int] | None:
    """Where a line of a tail begins by what the one before it says of itself: the second whole one.

    Or a later one: none is told that stands inside of a batch.
    """
    if offset == 0:
        return START, 0
    end = data.find(b"\n") + 1
    while end:
        begin, end = end, data.find(b"\n", end) + 1
        line = data[begin:end]
        try:
            before = _decode_number(line)
            crc = crc_after(line[-LINE_END_BYTES:])
        except ValueError:
            return None
        if not before.more:
            return Position(before.seq + 1, offset + end, crc), end
    return None
