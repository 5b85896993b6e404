"""The slow way through damaged bytes: record by record, keeping all that can still be verified.

A record is believed when its checksum follows from the digits of the record before it. So a damaged
record costs itself, and one more if its own digits were hit; everything else survives. Lines of plain
logs (without checksum) are believed when they parse, until the first line with a checksum.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from zlib import crc32

import msgspec

from holdfast.model._line import CRC_END, CRC_KEY, DIGITS, Position

__all__ = ["AnyLine", "Gap", "Salvage", "decode_any_line", "salvage"]

_RECORD_END = re.compile(rb',"crc":"[0-9a-f]{8}"\}')
_RECORD_START = re.compile(rb'\{"(?:seq|type)"')
_HEX = re.compile(rb"[0-9a-f]{8}\Z")
_STARTS_TRIED_MAX = 8


class Gap(msgspec.Struct, frozen=True):
    """A part of a log that could not be verified: where it is and which events it swallowed."""

    offset: int
    size: int
    first_seq: int
    last_seq: int
    """``first_seq - 1`` if no event is missing: foreign bytes between two whole records."""


class AnyLine(msgspec.Struct):
    """A line of any kind: numbered, plain or sealed."""

    seq: int | None = None
    type: str | None = None
    timestamp: int = 0
    data: msgspec.Raw = msgspec.Raw(b"{}")
    run: str | None = None
    key: str | None = None
    more: bool = False
    sealed: str | None = None


_decode = msgspec.json.Decoder(AnyLine).decode


def decode_any_line(text: bytes) -> AnyLine | None:
    """One line's members, or None if it is not a line of ours or of a plain log."""
    try:
        line = _decode(text)
    except (ValueError, RecursionError):
        return None
    if line.sealed is None:
        return line if line.type else None
    return line if line.seq is not None else None


class Salvage:
    """What was found in a stretch of log, and where the believable part of it ends."""

    def __init__(self, rest: bytes, position: Position, *, chained: bool) -> None:
        self.lines: list[AnyLine] = []
        self.gaps: list[Gap] = []
        self.position = position
        self.chained = chained
        self.open_line = False
        self.torn = 0
        self._rest = rest
        self._origin = position.offset
        self._first_seq = position.seq
        self._end = 0
        self._anchors: list[tuple[int, int]] = [(0, position.crc)]
        self._batch_start: tuple[Position, int, int] | None = None

    def run(self) -> Salvage:
        """Go through all the bytes once."""
        for start, end, whole in _lines(self._rest):
            if not self._take_record(start, end, whole=whole):
                self._take_pieces(start, end)
        self._drop_open_batch()
        self.torn = len(self._rest) - self._end
        return self

    def _take_record(self, start: int, end: int, *, whole: bool) -> bool:
        """Believe the bytes from start to end if they are one whole record."""
        digits_at = end - DIGITS - len(CRC_END) + 1
        value = self._digits(start, digits_at, end)
        if value is None:
            return not self.chained and self._take_plain(start, end, whole=whole)
        believed = whole and any(
            crc32(memoryview(self._rest)[at:digits_at], crc) == value
            for at, crc in self._anchors
            if at <= start
        )
        if self._anchors[-1][0] != digits_at:
            self._anchors = [*self._anchors[-1:], (digits_at, value)]
        line = decode_any_line(self._rest[start:end]) if believed else None
        if line is None or line.seq is None or line.seq < self.position.seq:
            return False
        stop = end + self._rest.startswith(b"\n", end)
        self.chained = True
        self._accept(line, line.seq, start, stop, crc32(self._rest[digits_at:stop], value))
        return True

    def _digits(self, start: int, digits_at: int, end: int) -> int | None:
        """The checksum that a record of the right shape carries."""
        shape = self._rest[digits_at - len(CRC_KEY) : digits_at]
        digits = self._rest[digits_at : digits_at + DIGITS]
        if digits_at - len(CRC_KEY) < start or shape != CRC_KEY or not _HEX.match(digits):
            return None
        return int(digits, 16) if self._rest[end - 2 : end] == CRC_END[:2] else None

    def _take_plain(self, start: int, end: int, *, whole: bool) -> bool:
        text = self._rest[start:end]
        if not text.strip():
            return whole
        # A line of ours with a damaged name for seq or crc must not pass for a plain one.
        line = None if b',"crc":"' in text else decode_any_line(text)
        if line is None or line.seq is not None:
            return False
        stop = end + self._rest.startswith(b"\n", end)
        at, crc = self._anchors[-1]
        running = crc32(memoryview(self._rest)[at:stop], crc)
        self._anchors = [(stop, running)]
        self.open_line = stop == end == len(self._rest)
        self._accept(line, self.position.seq, start, stop, running)
        return True

    def _take_pieces(self, start: int, end: int) -> None:
        """Look for whole records inside a bad line: two glued together, or one behind rubbish."""
        piece = start
        for found in _RECORD_END.finditer(self._rest, start, end):
            for begin in self._starts(piece, found.end()):
                if self._take_record(begin, found.end(), whole=found.end() < len(self._rest)):
                    piece = found.end()
                    break
        if not self.chained:
            self._take_plain_pieces(piece, end)

    def _starts(self, start: int, end: int) -> list[int]:
        found = [match.start() for match in _RECORD_START.finditer(self._rest, start, end)]
        return found[: -_STARTS_TRIED_MAX - 1 : -1]

    def _take_plain_pieces(self, start: int, end: int) -> None:
        found = [match.start() for match in _RECORD_START.finditer(self._rest, start, end)]
        taken = False
        for begin, stop in pairwise([*found, end]):
            taken = self._take_plain(begin, stop, whole=False) or taken
        if not taken and self._rest[end : end + 1] == b"\n":
            self.position = self.position._replace(seq=self.position.seq + 1)

    def _accept(self, line: AnyLine, seq: int, start: int, stop: int, crc: int) -> None:
        if start > self._end and (self._rest[self._end : start].strip() or seq > self._expected):
            self.gaps.append(
                Gap(self._origin + self._end, start - self._end, self._expected, seq - 1)
            )
        if line.more and self._batch_start is None:
            self._batch_start = (self.position, self._end, len(self.lines))
        elif not line.more:
            self._batch_start = None
        line.seq = seq
        self.lines.append(line)
        self._end = stop
        self.position = Position(seq + 1, self._origin + stop, crc)

    @property
    def _expected(self) -> int:
        """The seq that should have come next, whatever damaged plain lines were counted since."""
        last = self.lines[-1].seq if self.lines else None
        return self._first_seq if last is None else last + 1

    def _drop_open_batch(self) -> None:
        """A batch without its last line never happened."""
        if self._batch_start is None:
            return
        self.position, self._end, count = self._batch_start
        del self.lines[count:]


def salvage(rest: bytes, position: Position, *, chained: bool) -> Salvage:
    """Everything believable in ``rest``, the bytes of a log from ``position`` to its end."""
    return Salvage(rest, position, chained=chained).run()


def _lines(rest: bytes) -> Iterator[tuple[int, int, bool]]:
    """(start, end, whether a newline follows) of each line."""
    start = 0
    while (end := rest.find(b"\n", start)) >= 0:
        yield start, end, True
        start = end + 1
    if start < len(rest):
        yield start, len(rest), False
