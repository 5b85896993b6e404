"""Reading a log without opening a session: forwards, backwards, in parts."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from zlib import crc32

import msgspec

from holdfast.model import START, Event, LineReader, Position
from holdfast.session._forwards import read_forwards
from holdfast.storage import Log

__all__ = ["read_range", "second_line"]

_TAIL_BYTES_MIN = 1 << 16
_TAIL_GROWTH = 2
# The end of a line: eight digits, quote, brace, newline.
_LINE_END_BYTES = 11
_DIGITS = 8


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
    events = _backwards(log) if reverse else read_forwards(log)
    if reverse or start > 0 or stop is not None:
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


def _backwards(log: Log) -> Iterator[Event]:
    """Every valid event, newest first, in ever larger pieces until the beginning is reached."""
    below: int | None = None
    wanted = _TAIL_BYTES_MIN
    size = log.size()
    found = _tail(log, wanted) if wanted < size else None
    while found is not None:
        begin, events = found
        yield from reversed(events)
        if begin.offset == 0:
            return
        below = events[0].seq if events else below
        wanted *= _TAIL_GROWTH
        found = _piece(log, begin, wanted)
    # What is damaged, or cut where no piece may end, is read as a whole.
    for event in reversed(list(read_forwards(log))):
        if below is None or event.seq < below:
            yield event


def _tail(log: Log, max_bytes: int) -> tuple[Position, list[Event]] | None:
    """The events of the log's end and where they begin; None if they cannot be verified."""
    offset, data = log.read_tail(max_bytes)
    found = second_line(offset, data)
    if found is None:
        return None
    position, taken = found
    reader = LineReader(position, log.unseal)
    events = reader.feed(data[taken:])
    if reader.damaged:
        return None
    return position, events + reader.finish()


def _piece(log: Log, end: Position, wanted: int) -> tuple[Position, list[Event]] | None:
    """The events before a place and where they begin; None if that is not what they lead to."""
    start = max(0, end.offset - wanted)
    data = _read_between(log, start, end.offset)
    found = second_line(start, data)
    if found is None:
        return None
    position, taken = found
    reader = LineReader(position, log.unseal)
    events = reader.feed(data[taken:])
    return (position, events) if reader.position == end and not reader.damaged else None


def _read_between(log: Log, start: int, end: int) -> bytes:
    chunks, missing = [], end - start
    for chunk in log.read(start):
        chunks.append(chunk[:missing])
        missing -= len(chunk)
        if missing <= 0:
            break
    return b"".join(chunks)


class _Numbered(msgspec.Struct):
    seq: int


def second_line(offset: int, data: bytes) -> tuple[Position, int] | None:
    """Where the second whole line of a tail begins, by what the first one says of itself."""
    if offset == 0:
        return START, 0
    begin = data.find(b"\n") + 1
    end = data.find(b"\n", begin) + 1
    if not begin or not end:
        return None
    line = data[begin:end]
    try:
        seq = msgspec.json.decode(line, type=_Numbered).seq
        digits = line[-_LINE_END_BYTES:]
        crc = crc32(digits, int(digits[:_DIGITS], 16))
    except ValueError:
        return None
    return Position(seq + 1, offset + end, crc), end
