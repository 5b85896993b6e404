"""Reading a log from its beginning, while a writer may cut off what was read of its end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from zlib import crc32

from holdfast.model import Event, LineReader, Position, one_by_one
from holdfast.storage import Log

__all__ = ["LINE_END_BYTES", "chunks_after", "crc_after", "read_forwards", "reader_at"]

# The end of a line: eight digits, quote, brace, newline.
LINE_END_BYTES = 11
_DIGITS = 8


def read_forwards(log: Log) -> Iterator[Event]:
    """Every valid event, in order, also of a damaged log."""
    return one_by_one(_batches(log))


def _batches(log: Log) -> Iterator[list[Event]]:
    """The events as they become whole.

    What seems damaged is looked at again from the last whole event on: half a batch that a crash
    left may have been read, cut off by the next writer, and other lines be in its place by now.
    """
    reader, chunks = LineReader(unseal=log.unseal), log.read()
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


def _look_again(
    log: Log, before: LineReader
) -> tuple[LineReader, Iterator[bytes], list[Event]] | None:
    """A reader that found no damage there, what it has yet to read, and the first events of it.

    None if the damage is there still, or what is there follows another log's beginning.
    """
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


def reader_at(log: Log, position: Position, *, chained: bool | None = None) -> LineReader:
    """A reader of what comes after a position, which knows what the line before it ends with."""
    if log.unseal is None or not position.offset:
        return LineReader(position, log.unseal, chained=chained)
    from holdfast.session._sealing import end_before

    before = end_before(log, position.offset)
    return LineReader(position, log.unseal, chained=chained, before=before)


def chunks_after(log: Log, position: Position) -> Iterator[bytes] | None:
    """What the log has from a position on; None if what is before does not end as that says."""
    if position.offset == 0:
        return log.read()
    start = position.offset - LINE_END_BYTES
    if start < 0:
        return None
    chunks = log.read(start)
    first = next(chunks, b"")
    try:
        crc = crc_after(first[:LINE_END_BYTES])
    except ValueError:
        return None
    if crc != position.crc:
        return None
    rest = first[LINE_END_BYTES:]
    return chain((rest,), chunks) if rest else chunks


def crc_after(end: bytes) -> int:
    """The running checksum after a line that ends so. Raises ValueError if that says none."""
    return crc32(end, int(end[:_DIGITS], 16))
