"""Reading a log without opening a session: forwards, backwards, in parts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any

import msgspec

from holdfast.errors import Damaged, HoldfastError
from holdfast.model import (
    BLOB_KEY,
    LINE_END_BYTES,
    START,
    Event,
    LazyDecoder,
    LineReader,
    Position,
    blob_name,
    checksum_after,
    decode_json,
    fill_references,
    has_blob,
    is_reference,
    one_by_one,
    read_blob,
    verified_blocks,
)
from holdfast.replay import LoadBlob
from holdfast.storage import Documents, Log

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
    after: Position = START,
) -> Iterator[Event]:
    """Return the valid events with ``start <= seq < stop``, of these types, at most ``limit`` of them.

    Backwards, only as much of the log is read as the limit needs; forwards, reading starts ``after``
    a position that a reader has reached.
    """
    events = one_by_one(_backwards(log)) if reverse else read_forwards(log, after)
    if start > 0 or stop is not None:
        events = _chosen(events, start, stop, types, reverse=reverse)
    elif types is not None:
        events = (event for event in events if event.type in types)
    return events if limit is None else islice(events, limit)


def _chosen(
    events: Iterator[Event], start: int, stop: int | None, types: Collection[str] | None, *, reverse: bool
) -> Iterator[Event]:
    for event in events:
        if event.seq < start or (stop is not None and event.seq >= stop):
            if (event.seq < start) == reverse:
                return  # past the end
            continue
        if types is None or event.type in types:
            yield event


def _backwards(log: Log) -> Iterator[Sequence[Event]]:
    """Yield every valid event, newest first, in slowly growing pieces until the beginning is reached."""
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
    # A log that is damaged, or cut where no piece may end, is read as a whole.
    whole = list(read_forwards(log))
    yield [event for event in reversed(whole) if below is None or event.seq < below]


def _piece(log: Log, start: int, data: bytes, end: Position | None) -> tuple[Position, list[Event]] | None:
    """Return the events from ``start`` on, and where they begin; None if not verified, or not leading to ``end``."""
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


_number_decoder = LazyDecoder(_Numbered)


def second_line(offset: int, data: bytes) -> tuple[Position, int] | None:
    """Return where the second complete line of a tail begins, according to the line before it.

    A later one if that is inside a batch.
    """
    if offset == 0:
        return START, 0
    end = data.find(b"\n") + 1
    while end:
        begin, end = end, data.find(b"\n", end) + 1
        line = data[begin:end]
        try:
            before = _number_decoder.decode(line)
            crc = checksum_after(line[-LINE_END_BYTES:])
        except ValueError:
            return None
        if not before.more:
            return Position(before.seq + 1, offset + end, crc), end
    return None


def whole_end(log: Log) -> Position | None:
    """Return where the last complete event of a log ends; None if its tail alone does not show that."""
    offset, data = log.read_tail(_TAIL_BYTES)
    found = second_line(offset, data)
    if found is None:
        return None
    begin, taken = found
    reader = LineReader(begin, log.unseal)
    reader.feed(data[taken:])
    # The first position was taken from a line without checking its checksum; the line after it was checked.
    is_verified = not reader.damaged and (offset == 0 or reader.position != begin)
    return reader.position if is_verified else None


def read_forwards(log: Log, after: Position = START) -> Iterator[Event]:
    """Yield every valid event in order, also of a damaged log; a log recreated since ``after`` from its beginning."""
    return one_by_one(_batches(log, after))


def _batches(log: Log, after: Position) -> Iterator[list[Event]]:
    """Yield the events as they become complete.

    Apparent damage is checked again from the last complete event on: half a batch that a crash
    left may have been read, cut off by the next writer, and replaced by other lines since.
    """
    begun = chunks_after(log, after)
    reader = reader_at(log, START if begun is None else after)
    chunks = log.read() if begun is None else begun
    while True:
        for chunk in chunks:
            yield reader.feed(chunk)
            if reader.damaged:
                break
        else:
            break
        looked = _look_again(log, reader)
        if looked is None:
            for chunk in chunks:
                reader.feed(chunk)
            break
        reader, chunks, events = looked
        yield events
    yield reader.finish()


def read_blocks(log: Log, block_bytes: int) -> Iterator[tuple[bytes, Position]]:
    """Yield the lines of a log, at least ``size`` bytes at a time, and the position after them.

    They are verified and not decoded: for readers that need little of each event. It ends with the first bytes that
    Holdfast would not write; from there on :func:`read_range` continues ``after`` the last position.
    """
    end = START
    for block in verified_blocks(log.read(), block_bytes):
        crc = checksum_after(block[-LINE_END_BYTES:])
        end = Position(end.seq + block.count(b"\n"), end.offset + len(block), crc)
        yield block, end


def _look_again(log: Log, before: LineReader) -> tuple[LineReader, Iterator[bytes], list[Event]] | None:
    """Return a reader that finds no damage there, its unread data and first events; None if it is still there."""
    chunks = chunks_after(log, before.position)
    if chunks is None:
        return None
    reader = reader_at(log, before.position, chained=before.chained)
    for chunk in chunks:
        events = reader.feed(chunk)
        if reader.damaged:
            return None
        if events:
            return reader, chunks, events
    return reader, chunks, []


class Step(msgspec.Struct, frozen=True):
    """The next events of a log, and the state needed to continue after them."""

    events: list[Event]
    ended: bool
    """True if these are the last events."""
    position: Position
    chained: bool
    damaged: bool


def read_step(log: Log, position: Position, size: int, *, chained: bool | None = None) -> Step:
    """Return the events after a position, of about ``size`` bytes, for readers that continue another time."""
    reader = reader_at(log, position, chained=chained)
    events: list[Event] = []
    ended, taken = True, 0
    for chunk in log.read(position.offset):
        events += reader.feed(chunk)
        taken += len(chunk)
        # What follows damage is known only at the end of the log.
        if taken >= size and events and not reader.damaged:
            ended = False
            break
    if ended:
        events += reader.finish()
    return Step(events, ended, reader.position, reader.chained, bool(reader.gaps))


def reader_at(log: Log, position: Position, *, chained: bool | None = None) -> LineReader:
    """Return a reader of the events after a position, which knows the end of the line before."""
    if log.unseal is None or not position.offset:
        return LineReader(position, log.unseal, chained=chained)
    from holdfast.session._sealed_store import end_before

    return LineReader(position, log.unseal, chained=chained, before=end_before(log, position.offset))


def chunks_after(log: Log, position: Position) -> Iterator[bytes] | None:
    """Return what the log has from a position on; None if the bytes before do not match it."""
    if position.offset == 0:
        return log.read()
    start = position.offset - LINE_END_BYTES
    if start < 0:
        return None
    chunks = log.read(start)
    first = next(chunks, b"")
    while len(first) < LINE_END_BYTES and (more := next(chunks, b"")):
        first += more
    try:
        if checksum_after(first[:LINE_END_BYTES]) != position.crc:
            return None
    except ValueError:
        return None
    rest = first[LINE_END_BYTES:]
    return chain((rest,), chunks) if rest else chunks


def fits(log: Log, position: Position) -> bool:
    """Return whether the log's bytes before a position, which is not its beginning, match it."""
    return position.offset > 0 and chunks_after(log, position) is not None


def resolve_blobs(events: Iterable[Event], documents: Documents) -> Iterator[Event]:
    """Yield the events with references replaced by their payloads, or by a text that one is missing or damaged."""
    for event in events:
        if event.is_whole or not has_blob(bytes(event.raw)):
            yield event
            continue
        whole = Event(event.type, event.seq, event.timestamp, event.raw, event.run, event.key)
        # From the recorded bytes: only there a reference differs from user data that looks like one.
        whole.__dict__["data"] = fill_references(decode_json(event.raw), blob_loader(documents))
        yield whole


def whole_event(event: Event, documents: Documents) -> Event:
    """Return the event with its payloads in its own bytes; as it is recorded if one of them is missing."""
    if not has_blob(bytes(event.raw)):
        return event
    try:
        data = event.data if event.is_whole else fill_references(decode_json(event.raw), partial(_payload, documents))
    except (HoldfastError, ValueError):
        return event
    return Event.make(event.type, data, seq=event.seq, timestamp=event.timestamp, run=event.run, key=event.key)


def blob_loader(documents: Documents) -> LoadBlob:
    """Return a function that loads the payload of a reference, for values in the state."""

    def payload(reference: dict[str, Any]) -> Any:
        try:
            return _payload(documents, reference)
        except Damaged:
            return f"[{reference['bytes']} bytes that are missing or damaged]"
        except (HoldfastError, ValueError):
            return f"[{reference['bytes']} bytes that could not be read]"

    return payload


def _payload(documents: Documents, reference: dict[str, Any]) -> Any:
    name = reference[BLOB_KEY]
    found = documents.get(f"blobs/{name}")
    # Its length was counted before it was asked for.
    if found is None or len(found[0]) != reference["bytes"] or blob_name(found[0]) != name:
        raise Damaged(f"payload {name} is missing or damaged")
    return read_blob(found[0], str(reference.get("media")))


def references(value: object) -> Iterator[str]:
    """Yield the names of all payloads that a value refers to."""
    if is_reference(value):
        assert isinstance(value, dict)
        yield value[BLOB_KEY]
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from references(item)
