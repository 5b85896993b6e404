"""From bytes back to events: verified block by block, and record by record where a block is damaged.

The quick way checks a whole block with one checksum and decodes it with one call. Only when that
fails does the slow way look at each record: it keeps every record whose checksum follows from the
record before it, names what lies between, and never returns bytes that it could not verify.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from zlib import crc32

import msgspec

from holdfast.errors import KeyMissing
from holdfast.model._event import Event
from holdfast.model._line import CRC_END, CRC_KEY, DIGITS, START, TRAILER, Position
from holdfast.model._salvage import AnyLine, Gap, salvage

__all__ = ["LineReader", "Unseal", "read_events"]

Unseal = Callable[[int, bytes], bytes]
"""Opens a sealed line: (seq, ciphertext) -> the members that a plain line would have."""

_decode_lines = msgspec.json.Decoder(Event).decode_lines
_SHAPE = slice(-TRAILER - len(CRC_KEY), -TRAILER)


_decode_any_lines = msgspec.json.Decoder(AnyLine).decode_lines
_decode_event = msgspec.json.Decoder(Event).decode


class LineReader:
    """Turns the bytes of a log, given in chunks of any size, into verified events.

    ``position`` is the place after the last whole event; ``torn`` the number of bytes after it that
    hold no whole record; ``gaps`` what was damaged before it. A batch is given only once its last
    line is there.
    """

    def __init__(self, position: Position = START, unseal: Unseal | None = None) -> None:
        self.position = position
        self.gaps: list[Gap] = []
        self.torn = 0
        self.chained = position.offset > 0
        """Whether lines carry checksums from here on."""
        self.open_line = False
        """Whether the last event of a plain log lacks its newline."""
        self._unseal = unseal
        self._rest = b""
        self._taken = 0
        self._damaged: list[bytes] | None = None

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that became whole with this chunk."""
        if self._damaged is not None:
            self._damaged.append(chunk)
            return []
        buffer = self._rest + chunk if self._rest else chunk
        end = buffer.rfind(b"\n") + 1
        if not end:
            self._rest = buffer
            return []
        block = buffer if end == len(buffer) else buffer[:end]
        events = self._read_block(block)
        if events is None:
            self._damaged = [buffer]
            return []
        self._rest = buffer[self._taken :]
        return events

    def finish(self) -> list[Event]:
        """What is left at the end of the log: the events of damaged parts, and the torn tail."""
        rest = self._rest if self._damaged is None else b"".join(self._damaged)
        self._rest, self._damaged = b"", None
        if not rest:
            return []
        found = salvage(rest, self.position, chained=self.chained)
        self.gaps += found.gaps
        self.torn = found.torn
        self.open_line = found.open_line
        self.position = found.position
        self.chained = found.chained
        return [self._event(line) for line in found.lines]

    def _read_block(self, block: bytes) -> list[Event] | None:
        """The events of whole lines, or None if any byte of them is not as written."""
        crc = self._verified(block)
        if crc is None:
            return None
        try:
            events = self._decode(block)
        except (ValueError, RecursionError):
            return None
        if not self._number(events):
            return None
        self._taken = len(block)
        held = _held_lines(events)
        if held:
            self._taken = _cut_lines(block, held)
            del events[len(events) - held :]
            crc = crc32(memoryview(block)[: self._taken], self.position.crc)
        if events:
            offset = self.position.offset + self._taken
            self.position = Position(events[-1].seq + 1, offset, crc)
        return events

    def _verified(self, block: bytes) -> int | None:
        """The running checksum after the block, or None if it is not what the block says."""
        if block[_SHAPE] != CRC_KEY or not block.endswith(CRC_END):
            return None if self.chained else crc32(block, self.position.crc)
        digits_at = len(block) - TRAILER
        crc = crc32(memoryview(block)[:digits_at], self.position.crc)
        if b"%08x" % crc != block[digits_at : digits_at + DIGITS]:
            return None
        self.chained = True
        return crc32(block[digits_at:], crc)

    def _decode(self, block: bytes) -> list[Event]:
        try:
            return _decode_lines(block)
        except msgspec.ValidationError:
            if b',"sealed":"' not in block:
                raise
            return [self._event(line) for line in _decode_any_lines(block)]

    def _event(self, line: AnyLine) -> Event:
        seq = -1 if line.seq is None else line.seq
        if line.sealed is None:
            type = msgspec.convert(line.type, str)
            return Event(type, seq, line.timestamp, line.data, line.run, line.key, line.more)
        if self._unseal is None:
            raise KeyMissing(seq=seq)
        plain = self._unseal(seq, base64.b64decode(line.sealed, validate=True))
        return _decode_event(b'{"seq":%d,%b}' % (seq, plain))

    def _number(self, events: list[Event]) -> bool:
        """Give plain lines their line number as seq; False if the numbers of others do not follow."""
        seq = self.position.seq
        for event in events:
            if event.seq != seq:
                if event.seq != -1:
                    return False
                msgspec.structs.force_setattr(event, "seq", seq)
            seq += 1
        return True


def _held_lines(events: list[Event]) -> int:
    """How many events at the end belong to a batch whose last line has not come yet."""
    held = 0
    while held < len(events) and events[-1 - held].more:
        held += 1
    return held


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
