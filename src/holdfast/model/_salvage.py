"""The slow path through damaged bytes: record by record, keeping all that can still be verified.

A record is accepted when its checksum follows from the digits of the record before it. So a damaged record costs
itself, and one more if its own digits were hit; everything else survives. Lines of plain logs (without checksum) are
accepted when they parse, until the first line with a checksum. The rules are in docs/internals/format.md, section 7.
Every byte is read a bounded number of times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from zlib import crc32

import msgspec

from holdfast.model._line import CRC_END, CRC_KEY, Position, checksum_after
from holdfast.model._reader import AnyLine, Gap, decode_each, decode_line, decode_plain_line, number_lines

_SEQ_KEY = b'{"seq":'
_SEQ = re.compile(rb'([0-9]{1,18}),"')
_DIGITS = re.compile(rb'([0-9a-f]{8})"\}')
_RECORD_END = re.compile(rb',"crc":"[0-9a-f]{8}"\}\Z')
_PLAIN_START = re.compile(rb'\{[ \t]*"type"')
_GLUE = re.compile(rb'\}(?=[\0 \t\r]*\{[ \t]*"type")')
_NOT_BLANK = re.compile(rb"[^\n]*[^\s][^\n]*")
# Hostile bytes may begin a record at every place: more starts than that are not followed.
_TRIES_MAX = 4
_CONTEXT_BYTES = 16


class _Mark(msgspec.Struct, frozen=True):
    """The state after an accepted event."""

    position: Position
    chained: bool
    ended: bool = True  # False for a record with a checksum but without its newline
    open_line: bool = False  # True for a plain line without its newline


class _Try:
    """A place where a record may begin, and the running values that it may follow."""

    __slots__ = ("_at", "_crcs", "start")

    def __init__(self, start: int, crcs: set[int]) -> None:
        self.start = start
        self._at = start
        self._crcs = list(crcs)

    def fits(self, rest: memoryview, digits_at: int, value: int) -> bool:
        """Return whether the digits match; each byte is summed once, however many digits are tried."""
        self._crcs = [crc32(rest[self._at : digits_at], crc) for crc in self._crcs]
        self._at = digits_at
        return value in self._crcs


class Salvage:
    """The verifiable part of ``rest``, the bytes of a log from ``position`` to its end."""

    def __init__(self, rest: bytes, position: Position, *, chained: bool) -> None:
        self.lines: list[AnyLine] = []
        self.spans: list[tuple[int, int]] = []
        """The range of each line in ``rest``, without its newline."""
        self.gaps: list[Gap] = []
        self.torn = len(rest)
        self._rest = rest
        self._view = memoryview(rest)
        self._origin = position.offset
        self._marks = [_Mark(position, chained)]
        self._end = 0
        self._unread_lines = 0
        # The running value over all bytes since the last accepted event, as far as it was computed.
        self._span_at, self._span_crc, self._span_start_crc = 0, position.crc, position.crc
        self._span_is_open = True
        # The running value that follows from the digits nearest before the current place.
        self._before = position.crc
        self._tries: list[_Try] = []
        self._line_start = 0
        self._looked_to = 0

    @property
    def position(self) -> Position:
        return self._marks[-1].position

    @property
    def chained(self) -> bool:
        return self._marks[-1].chained

    @property
    def open_line(self) -> bool:
        return self._marks[-1].open_line

    def run(self) -> Salvage:
        start = 0
        while start < len(self._rest) and not self.chained:
            newline = self._rest.find(b"\n", start)
            end = newline if newline >= 0 else len(self._rest)
            text = self._rest[start:end]
            line = decode_plain_line(text) if b"}" in text else None
            if line is not None:
                self._accept_plain(line, start, end)
            elif text and not text.isspace() and (b"}" not in text or not self._look_inside(start, end)):
                self._unread_lines += 1
            start = end + 1
        if self.chained:
            self._sweep(self._end, len(self._rest))
        return self

    def trim(self, waiting: list[bool]) -> None:
        """Drop events at the end whose batch is incomplete, or that were cut short."""
        # As after a crash: a record without its newline, followed by zeros only.
        while self.lines and (
            waiting[len(self.lines) - 1]
            or not (self._marks[-1].ended or self._rest[self.position.offset - self._origin :].strip(b"\0"))
        ):
            self.lines.pop()
            self.spans.pop()
            self._marks.pop()
        seq, end, _ = self.position
        self.gaps = [gap for gap in self.gaps if gap.offset < end]
        self.torn = self._origin + len(self._rest) - end
        if not self._marks[-1].ended:
            self.gaps.append(Gap(end, 0, seq, seq - 1))

    # --- lines without checksum ---
    def _look_inside(self, start: int, end: int) -> bool:
        """Take complete records out of a bad line: two joined, or one behind garbage."""
        count = len(self.lines)
        self._sweep(start, end)
        if not self.chained:
            begin = start
            for glue in _GLUE.finditer(self._rest, start, end):
                self._take_plain_piece(begin, glue.end())
                begin = glue.end()
            self._take_plain_piece(begin, end)
        return len(self.lines) > count

    def _take_plain_piece(self, begin: int, end: int) -> None:
        """Take the record that extends to the end of this part of a line, if there is one."""
        for found in _PLAIN_START.finditer(self._rest, begin, end):
            start = found.start()
            # It may begin inside a value: a block of a message, for example.
            context = self._rest[max(begin, start - _CONTEXT_BYTES) : start]
            shown = context.rstrip()
            if shown.endswith((b":", b",", b"[")) if shown else len(context) == _CONTEXT_BYTES:
                continue
            line = decode_plain_line(self._view[start:end])
            if line is not None and line.timestamp is not msgspec.UNSET and bytes(line.data):
                self._accept_plain(line, start, end)
                return

    def _accept_plain(self, line: AnyLine, start: int, end: int) -> None:
        seq = self.position.seq + self._unread_lines
        stop = end + self._rest.startswith(b"\n", end)
        crc = crc32(self._view[self._end : stop], self.position.crc)
        if self._rest[self._end : start].strip():
            self._note_gap(start, seq)
        line.seq = seq
        mark = _Mark(Position(seq + 1, self._origin + stop, crc), False, open_line=stop == end)
        self._believe(line, start, end, mark)
        self._before = crc
        self._go_on(stop, crc)

    # --- records with checksum ---
    def _sweep(self, start: int, stop: int) -> None:
        """Find records between two places by their starts and ends, whatever is between."""
        self._tries = []
        self._looked_to = start
        self._begin_line(start)
        for place, digits in _tokens(self._rest, start, stop):
            if digits is None:
                # A record may begin here; certainly so after a byte that cannot precede it inside one.
                before = self._rest[place - 1] if place > self._end else 0
                if before < 0x20 or before == ord("}"):
                    self._tries = [self._try(place)]
                elif len(self._tries) < _TRIES_MAX:
                    seq = _SEQ.match(self._rest, place + len(_SEQ_KEY))
                    if seq and int(seq[1]) >= self.position.seq:
                        self._tries.append(self._try(place))
                continue
            # Each stretch is searched once, however many digits there are.
            newline = self._rest.rfind(b"\n", self._looked_to, place)
            self._looked_to = place
            if newline >= 0:
                self._begin_line(newline + 1)
            self._take_record(place, place + len(digits) + 2, int(digits, 16))
            self._before = checksum_after(digits + CRC_END)

    def _begin_line(self, start: int) -> None:
        self._line_start = start
        inside = [attempt for attempt in self._tries if attempt.start > start]
        self._tries = [self._try(start), *inside]

    def _try(self, start: int) -> _Try:
        crcs = {self.position.crc, self._before}
        if start == self._end:
            crcs.discard(self._span_start_crc)  # the span has that one
        return _Try(start, crcs)

    def _take_record(self, digits_at: int, end: int, value: int) -> None:
        """Accept the record that ends here, if there is one."""
        self._span_crc = crc32(self._view[self._span_at : digits_at], self._span_crc)
        self._span_at = digits_at
        if self._span_crc == value and self._span_is_open:
            self._span_is_open = False  # one attempt, or hostile digits would make this quadratic
            # All bytes since the last accepted event are as written: take the records in them.
            if not (self._take(self._end, digits_at, end, as_written=True) or self._take_lines(digits_at, end)):
                starts = [self._line_start, *(attempt.start for attempt in self._tries)]
                any(self._take(start, digits_at, end) for start in starts if start > self._end)
            return
        for attempt in self._tries:
            if attempt.fits(self._view, digits_at, value):
                self._tries.remove(attempt)
                self._take(attempt.start, digits_at, end)
                return

    def _take(self, start: int, digits_at: int, end: int, *, as_written: bool = False) -> bool:
        line = decode_line(self._rest[start:end])
        expected = self.position.seq
        if line is None or line.seq < expected:
            return False
        if line.seq > expected or not as_written:
            self._note_gap(start, line.seq)
        digits = self._rest[digits_at : end - 2]
        ended = self._rest.startswith(b"\n", end)
        stop = end + ended
        position = Position(line.seq + 1, self._origin + stop, checksum_after(digits + CRC_END))
        self._believe(line, start, end, _Mark(position, True, ended=ended))
        self._go_on(stop, crc32(self._rest[digits_at:stop], int(digits, 16)))
        return True

    def _take_lines(self, digits_at: int, end: int) -> bool:
        """Take the lines since the last accepted event, if a reader would accept them."""
        block = self._rest[self._end : end]
        try:
            lines = decode_each(block, decode_line)
        except ValueError:
            return False
        if not number_lines(lines, self.position.seq, chained=self.chained, summed=True):
            return False
        *covered, (last_start, _) = [found.span() for found in _NOT_BLANK.finditer(self._rest, self._end, end)]
        # The others are verified by the checksum of the last one.
        for line, (start, stop) in zip(lines, covered, strict=False):
            crc = crc32(self._view[self._end : stop + 1], self._span_start_crc)
            position = Position(line.seq + 1, self._origin + stop + 1, crc)
            chained = self.chained or _RECORD_END.search(self._rest, start, stop) is not None
            self._believe(line, start, stop, _Mark(position, chained))
            self._go_on(stop + 1, crc)
        return self._take(last_start, digits_at, end, as_written=True)

    # --- both ---
    def _note_gap(self, start: int, seq: int) -> None:
        offset = self._origin + self._end
        self.gaps.append(Gap(offset, start - self._end, self.position.seq, seq - 1))

    def _believe(self, line: AnyLine, start: int, end: int, mark: _Mark) -> None:
        self.lines.append(line)
        self.spans.append((start, end))
        self._marks.append(mark)

    def _go_on(self, stop: int, crc: int) -> None:
        """Continue from here; ``crc`` is the running value over the bytes as they are."""
        self._end = stop
        self._span_at, self._span_crc, self._span_start_crc = stop, crc, crc
        self._span_is_open = True
        self._unread_lines = 0
        self._tries = []


def _tokens(rest: bytes, start: int, stop: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield where records may begin (without digits) and where the digits at their ends are, in order."""
    begin = rest.find(_SEQ_KEY, start, stop)
    end = rest.find(CRC_KEY, start, stop)
    while end >= 0:
        if 0 <= begin < end:
            yield begin, None
            begin = rest.find(_SEQ_KEY, begin + 1, stop)
            continue
        digits = _DIGITS.match(rest, end + len(CRC_KEY), stop)
        if digits:
            yield digits.start(), digits[1]
        end = rest.find(CRC_KEY, end + 1, stop)


def salvage(rest: bytes, position: Position, *, chained: bool) -> Salvage:
    """Return everything verifiable in ``rest``, the bytes of a log from ``position`` to its end."""
    found = Salvage(rest, position, chained=chained).run()
    found.trim([line.more for line in found.lines])
    return found
