"""From bytes back to events: verified block by block, and record by record where that fails.

The quick way checks a whole block with one checksum and decodes it with one call. Only when that
fails does the slow way look at each record: it keeps every record whose checksum follows from the
record before it, names what lies between, and never returns bytes that it could not verify.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec

from holdfast.errors import Damaged, KeyMissing
from holdfast.model._block import AnyLine, decode_each, decode_line, number_lines
from holdfast.model._event import Event
from holdfast.model._line import (
    CRC_END,
    CRC_KEY,
    DIGITS,
    START,
    TRAILER,
    Position,
    cut_body,
    line_body,
    sealed_body,
)

if TYPE_CHECKING:
    from holdfast.model._salvage import Gap, Salvage

__all__ = ["LineReader", "Unseal", "read_bodies", "read_events"]

Unseal = Callable[[int, bytes], bytes]
"""Opens a sealed line: (seq, ciphertext) -> the members that a plain line would have."""

_event_decoder = msgspec.json.Decoder(Event)
_SHAPE = slice(-TRAILER - len(CRC_KEY), -TRAILER)
_NUMBERED = b'{"seq":'


class LineReader:
    """Turns the bytes of a log, given in chunks of any size, into verified events.

    ``position`` is the place after the last whole event; ``torn`` the number of bytes after it that
    hold no whole record; ``gaps`` what was damaged before it. A batch is given only once its last
    line is there. Chunks of another size give the same events. Raises KeyMissing for a sealed line
    without ``unseal``, and whatever ``unseal`` raises; never for what the bytes are.
    """

    def __init__(
        self,
        position: Position = START,
        unseal: Unseal | None = None,
        *,
        chained: bool | None = None,
    ) -> None:
        self.position = position
        self.gaps: list[Gap] = []
        self.torn = 0
        self.chained = position.offset > 0 if chained is None else chained
        """Whether lines must carry checksums from ``position`` on."""
        self.open_line = False
        """Whether the last event of a plain log lacks its newline."""
        self._unseal = unseal
        self._cursor = position
        self._cursor_chained = self.chained
        self._held: list[Event] = []
        self._held_bytes: list[bytes] = []
        self._rest: list[bytes] = []
        # Whether what waits is blank lines of a plain log and nothing else.
        self._is_blank = False
        self._damaged = False

    @property
    def damaged(self) -> bool:
        """Whether bytes were met that are not as written; ``finish`` gives what follows them."""
        return self._damaged

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that became whole with this chunk."""
        end = chunk.rfind(b"\n") + 1
        self._is_blank = self._is_blank and chunk.isspace()
        if self._damaged or not end or self._is_blank:
            self._rest.append(chunk)
            return []
        block = chunk if end == len(chunk) else chunk[:end]
        if self._rest:
            block = b"".join((*self._rest, block))
        self._rest = [chunk[end:]] if end < len(chunk) else []
        if not self._cursor_chained and not block.endswith(b"}\n"):
            block, blank = _split_blank(block)
            self._rest.insert(0, blank)
            self._is_blank = not block and len(self._rest) == 1
        events = self._read_block(block)
        if events is None:
            self._damaged = True
            self._rest = [*self._held_bytes, block, *self._rest]
            self._held, self._held_bytes = [], []
            return []
        return events

    def finish(self) -> list[Event]:
        """What is left at the end of the log: the events of damaged parts, and the torn tail."""
        rest = b"".join((*self._held_bytes, *self._rest))
        self._held, self._held_bytes, self._rest, self._damaged = [], [], [], False
        if not rest:
            return []
        from holdfast.model._salvage import Salvage

        found = Salvage(rest, self.position, chained=self.chained).run()
        events = _open_lines(found, self._unseal)
        self.gaps += found.gaps
        self.torn = found.torn
        self.open_line = found.open_line
        self.position = self._cursor = found.position
        self.chained = self._cursor_chained = found.chained
        return events

    def _read_block(self, block: bytes) -> list[Event] | None:
        """The events of whole lines, or None if any byte of them is not as written."""
        summed = _is_summed(block)
        crc = self._checksum(block, summed=summed)
        if crc is None:
            return None
        try:
            lines = self._decode(block)
        except (ValueError, RecursionError):
            return None
        seq, offset, _ = before = self._cursor
        if not number_lines(lines, seq, chained=self._cursor_chained, summed=summed):
            return None
        events = self._events(lines)
        self._cursor = Position(seq + len(events), offset + len(block), crc)
        self._cursor_chained = summed or self._cursor_chained
        if self._held or (events and events[-1].more):
            return self._complete(events, block, before)
        self.position, self.chained = self._cursor, self._cursor_chained
        return events

    def _checksum(self, block: bytes, *, summed: bool) -> int | None:
        """The running checksum after the block, or None if it is not what the block says."""
        if not summed:
            return None if self._cursor_chained else crc32(block, self._cursor.crc)
        digits_at = len(block) - TRAILER
        crc = crc32(memoryview(block)[:digits_at], self._cursor.crc)
        if b"%08x" % crc != block[digits_at : digits_at + DIGITS]:
            return None
        return crc32(block[digits_at:], crc)

    def _decode(self, block: bytes) -> list[Any]:
        """The block's lines as events, or of any kind if some are sealed."""
        is_chained = self._cursor_chained or block.startswith(_NUMBERED)
        try:
            if is_chained:
                return _event_decoder.decode_lines(block)
            return decode_each(block, _event_decoder.decode)
        except msgspec.ValidationError:
            if b'"sealed"' not in block:
                raise
        return decode_each(block, decode_line)

    def _events(self, lines: list[Any]) -> list[Event]:
        if lines and type(lines[0]) is AnyLine:
            return [_open_line(line, self._unseal) for line in lines]
        return lines

    def _complete(self, events: list[Event], block: bytes, before: Position) -> list[Event] | None:
        """Those of the events whose batch is complete; the others are held back."""
        waiting = _count_waiting(events)
        if waiting == len(events):
            self._held += events
            self._held_bytes.append(block)
            return []
        if waiting and len(events) != block.count(b"\n"):
            return None
        cut = _cut_lines(block, waiting)
        last = events[-1 - waiting]
        crc = crc32(memoryview(block)[:cut], before.crc)
        self.position = Position(last.seq + 1, before.offset + cut, crc)
        self.chained = self.chained or _is_summed(block[:cut])
        whole = self._held + events[: len(events) - waiting]
        self._held = events[len(events) - waiting :]
        self._held_bytes = [block[cut:]]
        return whole


def _split_blank(block: bytes) -> tuple[bytes, bytes]:
    """A block of a plain log up to its last event, and the blank lines behind that."""
    used = len(block.rstrip())
    end = block.find(b"\n", used) + 1 if used else 0
    return block[:end], block[end:]


def _is_summed(block: bytes) -> bool:
    """Whether the last line of a block has a checksum."""
    return block[_SHAPE] == CRC_KEY and block.endswith(CRC_END)


def _count_waiting(events: list[Event]) -> int:
    """How many events at the end belong to a batch whose last line has not come yet."""
    waiting = 0
    while waiting < len(events) and events[-1 - waiting].more:
        waiting += 1
    return waiting


def _cut_lines(block: bytes, count: int) -> int:
    """The offset at which the last ``count`` lines of the block begin."""
    end = len(block) - 1
    for _ in range(count):
        end = block.rfind(b"\n", 0, end)
    return end + 1


def read_events(
    chunks: Iterable[bytes], position: Position = START, unseal: Unseal | None = None
) -> Iterator[Event]:
    """Every valid event of a log, in order, also of a damaged one."""
    reader = LineReader(position, unseal)
    for chunk in chunks:
        yield from reader.feed(chunk)
    yield from reader.finish()


def read_bodies(
    chunks: Iterable[bytes], position: Position = START, unseal: Unseal | None = None
) -> Iterator[tuple[Event, bytes]]:
    """Every valid event with the bytes of its line between seq and crc, for moving it elsewhere.

    ``encode_line`` makes a line of them again; members that this version does not know are in it.
    """
    from holdfast.model._salvage import Salvage

    rest = b"".join(chunks)
    found = Salvage(rest, position, chained=position.offset > 0).run()
    events = _open_lines(found, unseal)
    for event, line, (start, end) in zip(events, found.lines, found.spans, strict=True):
        yield event, cut_body(rest[start:end]) or _make_body(event, line)


def _make_body(event: Event, line: AnyLine) -> bytes:
    """The body of a line whose members stand in an order that no writer of ours uses."""
    return line_body(event) if line.sealed is None else sealed_body(line.sealed)


def _open_lines(found: Salvage, unseal: Unseal | None) -> list[Event]:
    """The events of what was found, without those at the end that are not whole."""
    events = [_open_line(line, unseal) for line in found.lines]
    found.trim([event.more for event in events])
    return events[: len(found.lines)]


def _open_line(line: AnyLine, unseal: Unseal | None) -> Event:
    if line.sealed is None or line.type is not None:
        return line.event()
    if unseal is None:
        raise KeyMissing(seq=line.seq)
    members = unseal(line.seq, line.sealed)
    try:
        event = _event_decoder.decode(b"{%b}" % members)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"what was sealed as event {line.seq} is none", seq=line.seq) from error
    msgspec.structs.force_setattr(event, "seq", line.seq)
    return event
