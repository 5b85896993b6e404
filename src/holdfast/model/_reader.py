"""From bytes back to events: verified block by block, and record by record where that fails.

The fast path checks a whole block with one checksum and decodes it with one call. Only when that fails does the slow
path examine each record: it keeps every record whose checksum follows from the record before it, reports what is
between, and never returns bytes that it could not verify.
"""

from __future__ import annotations

import sys
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec

from holdfast.errors import Damaged, KeyMissing, Tampered
from holdfast.model._data import LazyDecoder
from holdfast.model._event import Event, one_by_one
from holdfast.model._line import CRC_END, CRC_KEY, DIGITS, START, TRAILER, Position, checksum_after, is_as_written

if TYPE_CHECKING:
    from holdfast.model._salvage import Salvage

Unseal = Callable[[int, bytes, bytes | None], bytes]
"""Opens a sealed line: (seq, ciphertext, end of the one before) -> a plain line's members.

The end is the last ``SEAL_END`` bytes of the ciphertext before, zeros if the line before is not sealed or there is
none, None if it is unknown. An opener may have ``sealed_from``, the first event that must be sealed: from there
on a plain line is Tampered; and ``open_all(first, texts, before)`` for consecutive lines, which returns all
their members and the last one's end.
"""

SEAL_END = 8
BEFORE_ALL = bytes(SEAL_END)

_event_decoder = LazyDecoder(Event)
_set_seq = msgspec.structs.force_setattr
_SHAPE = slice(-TRAILER - len(CRC_KEY), -TRAILER)
_NUMBERED = b'{"seq":'
_HEAD = _NUMBERED + b"%d,"


class _SealedLine(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A line in the exact form that the writer of a sealed log uses."""

    seq: int
    sealed: bytes
    crc: str


_sealed_decoder = LazyDecoder(_SealedLine)


class Gap(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a log that could not be verified: where it is and which events it contained."""

    offset: int
    size: int
    first_seq: int
    last_seq: int
    """``first_seq - 1`` if no event is missing: foreign bytes between two whole records."""
    at_end: bool = False
    """True if the end of the log is lost, perhaps with more events than the numbers say."""


class LineReader:
    """Turns the bytes of a log, given in chunks of any size, into verified events.

    ``position`` is the place after the last complete event; ``torn`` the number of bytes after it that hold no complete
    record; ``gaps`` what was damaged before it. A batch is returned only once its last line is there. Chunks of another
    size give the same events. Raises KeyMissing for a sealed line without ``unseal``, Tampered for a plain one where
    all must be sealed, and whatever ``unseal`` raises; never for the content of the bytes.
    """

    def __init__(
        self,
        position: Position = START,
        unseal: Unseal | None = None,
        *,
        chained: bool | None = None,
        before: bytes | None = None,
    ) -> None:
        """``before`` is the end of the sealed line before ``position``, if that is known."""
        self.position = position
        self._before = self._cursor_before = BEFORE_ALL if position.offset == 0 else before
        self.gaps: list[Gap] = []
        self.torn = 0
        self.chained = position.offset > 0 if chained is None else chained
        """True if every line from ``position`` on must have a checksum."""
        self.open_line = False
        """True if the last event of a plain log lacks its newline."""
        self._unseal = unseal
        self._cursor = position
        self._cursor_chained = self.chained
        self._held: list[Event] = []
        self._held_bytes: list[bytes] = []
        self._rest: list[bytes] = []
        # Whether only blank lines of a plain log are waiting.
        self._is_blank = False
        self.damaged = False
        """True if damaged bytes were met; ``finish`` returns the events after them."""

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that became complete with this chunk."""
        end = chunk.rfind(b"\n") + 1
        self._is_blank = self._is_blank and chunk.isspace()
        if self.damaged or not end or self._is_blank:
            self._rest.append(chunk)
            return []
        block = chunk if end == len(chunk) else chunk[:end]
        if self._rest:
            block = b"".join((*self._rest, block))
        self._rest = [chunk[end:]] if end < len(chunk) else []
        if not self._cursor_chained and not block.endswith(b"}\n"):
            # The blank lines behind its last event are not its own.
            used = len(block.rstrip())
            end = block.find(b"\n", used) + 1 if used else 0
            self._rest.insert(0, block[end:])
            block = block[:end]
            self._is_blank = not block and len(self._rest) == 1
        events = self._read_block(block)
        # Held-back bytes are examined again: the slow path starts from the last complete event.
        if events is None:
            self.damaged = True
            self._rest = [*self._held_bytes, block, *self._rest]
            self._held, self._held_bytes = [], []
            return []
        return events

    def finish(self) -> list[Event]:
        """Return the rest at the end of the log: the events of damaged parts, without the torn tail."""
        rest = b"".join((*self._held_bytes, *self._rest))
        self._held, self._held_bytes, self._rest, self.damaged = [], [], [], False
        if not rest:
            return []
        from holdfast.model._salvage import Salvage

        found = Salvage(rest, self.position, chained=self.chained).run()
        events = _open_lines(found, self._unseal, self._before, self.position.seq)
        self.gaps += found.gaps
        self.torn = found.torn
        self.open_line = found.open_line
        self.position = self._cursor = found.position
        self._before = self._cursor_before = None
        self.chained = self._cursor_chained = found.chained
        return events

    def _read_block(self, block: bytes) -> list[Event] | None:
        """Return the events of complete lines, or None if any byte of them is not as written."""
        summed = block[_SHAPE] == CRC_KEY and block.endswith(CRC_END)
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
        events = lines
        if lines and type(lines[0]) is not Event:
            events, self._cursor_before = self._open(lines)
        self._cursor = Position(seq + len(events), offset + len(block), crc)
        self._cursor_chained = summed or self._cursor_chained
        # A batch counts completely or not at all: a crash may have cut it.
        if self._held or (events and events[-1].more):
            self._before = None
            return self._complete(events, block, before)
        self._before = self._cursor_before
        self.position, self.chained = self._cursor, self._cursor_chained
        return events

    def _checksum(self, block: bytes, *, summed: bool) -> int | None:
        """Return the running checksum after the block, or None if the block's own differs."""
        if not summed:
            return None if self._cursor_chained else crc32(block, self._cursor.crc)
        digits_at = len(block) - TRAILER
        crc = crc32(memoryview(block)[:digits_at], self._cursor.crc)
        if b"%08x" % crc != block[digits_at : digits_at + DIGITS]:
            return None
        return crc32(block[digits_at:], crc)

    def _decode(self, block: bytes) -> list[Any]:
        """Return the block's lines as events, or as lines of any kind if some are sealed."""
        if self._unseal is not None:
            try:
                return _sealed_decoder.decode_lines(block)
            except msgspec.DecodeError:
                return decode_each(block, decode_line)
        try:
            if self._cursor_chained or block.startswith(_NUMBERED):
                return _event_decoder.decode_lines(block)
            return decode_each(block, _event_decoder.decode)
        except msgspec.ValidationError:
            if b'"sealed"' not in block:
                raise
        return decode_each(block, decode_line)

    def _open(self, lines: list[Any]) -> tuple[list[Event], bytes | None]:
        """Return the events of lines, and the end of the last one if it was sealed."""
        before = self._cursor_before
        if type(lines[0]) is _SealedLine and self._unseal is not None:
            return _open_block(lines, self._unseal, before)
        events = []
        for line in lines:
            events.append(open_line(line, self._unseal, before))
            before = end_of(line)
        return events, before

    def _complete(self, events: list[Event], block: bytes, before: Position) -> list[Event] | None:
        """Return the events whose batch is complete; hold the others back."""
        whole = len(events)
        while whole and events[whole - 1].more:
            whole -= 1
        if not whole:
            self._held += events
            self._held_bytes.append(block)
            return []
        if whole < len(events) and len(events) != block.count(b"\n"):
            return None
        end = len(block) - 1
        for _ in events[whole:]:
            end = block.rfind(b"\n", 0, end)
        cut = end + 1
        crc = crc32(memoryview(block)[:cut], before.crc)
        self.position = Position(events[whole - 1].seq + 1, before.offset + cut, crc)
        head = block[:cut]
        self.chained = self.chained or (head[_SHAPE] == CRC_KEY and head.endswith(CRC_END))
        complete = self._held + events[:whole]
        self._held = events[whole:]
        self._held_bytes = [block[cut:]]
        return complete


def read_events(chunks: Iterable[bytes], position: Position = START, unseal: Unseal | None = None) -> Iterator[Event]:
    """Yield every valid event of a log, in order, also of a damaged one."""
    return one_by_one(_batches(LineReader(position, unseal), chunks))


def _batches(reader: LineReader, chunks: Iterable[bytes]) -> Iterator[list[Event]]:
    for chunk in chunks:
        yield reader.feed(chunk)
    yield reader.finish()


def read_line(text: bytes, unseal: Unseal | None = None) -> Event | None:
    """Return the event of one line without verifying its checksum; None if it is not one, or stays sealed."""
    line = decode_line(text)
    if line is None or (line.sealed is not None and line.type is None and unseal is None):
        return None
    return open_line(line, unseal, None)


# Finding one event in some bytes of a log, given its approximate place.
def cut_line(data: bytes, seq: int, *, is_start: bool) -> tuple[bytes, bytes] | None:
    """Return the whole line of one of our events, after the end of the line before it; None if it is not there.

    ``is_start`` says that the log begins with these bytes: before its first line there are zeros.
    """
    head = _HEAD % seq
    if is_start and data.startswith(head):
        at, before = 0, bytes(TRAILER)
    else:
        at = TRAILER
        if not data.startswith(b"\n" + head, at - 1):
            at = data.find(b"\n" + head) + 1
            if at < TRAILER:
                return None
        before = data[at - TRAILER : at]
    end = data.find(b"\n", at) + 1
    return (before, data[at:end]) if end else None


def begins_line(data: bytes, seq: int) -> bool:
    """Return whether the line of an event begins in these bytes, so that only its end may be missing."""
    head = _HEAD % seq
    return data.startswith(head) or b"\n" + head in data


def verified_line(before: bytes, line: bytes) -> Event | None:
    """Return the event of a line from ``cut_line``; None if its checksum does not match."""
    try:
        crc = checksum_after(before) if any(before) else 0
        return _event_decoder.decode(line) if is_as_written(line, crc) else None
    except (ValueError, RecursionError):
        return None


def verified_line_at(data: bytes, seq: int) -> Event | None:
    """Return ``verified_line`` of ``cut_line`` in one step, if the end of the line before comes first.

    For search, which reads hundreds of lines at the places in its index.
    """
    end = data.find(b"\n", TRAILER) + 1
    if not end or not data.startswith(b"\n" + _HEAD % seq, TRAILER - 1):
        return None
    try:
        crc = crc32(data[:TRAILER], int(data[:DIGITS], 16))
        check = end - TRAILER
        if crc32(data[TRAILER:check], crc) != int(data[check : check + DIGITS], 16):
            return None
        event = _event_decoder.decode(data[TRAILER:end])
    except (ValueError, RecursionError):
        return None
    return event if event.seq == seq else None


def _open_lines(found: Salvage, unseal: Unseal | None, before: bytes | None, first: int) -> list[Event]:
    """Return the events that were found, without those of an incomplete batch at the end."""
    events = []
    for line in found.lines:
        events.append(open_line(line, unseal, before if line.seq == first else None))
        first, before = line.seq + 1, end_of(line)
    found.trim([event.more for event in events])
    return events[: len(found.lines)]


def _open_block(lines: list[Any], unseal: Unseal, before: bytes | None) -> tuple[list[Event], bytes | None]:
    """Return the events of consecutive lines, and the end of the last one."""
    open_all = getattr(unseal, "open_all", None)
    if open_all is not None:
        bodies, before = open_all(lines[0].seq, [line.sealed for line in lines], before)
    else:
        bodies = []
        for line in lines:
            bodies.append(unseal(line.seq, line.sealed, before))
            before = line.sealed[-SEAL_END:]
    try:
        # Joined once: a second copy costs as much as opening them.
        ends = [b"{" + bodies[0], *bodies[1:]]
        ends[-1] += b"}"
        events = _event_decoder.decode_lines(b"}\n{".join(ends))
    except (ValueError, RecursionError):
        events = []
    if len(events) != len(lines):
        events = [_decode_body(line.seq, body) for line, body in zip(lines, bodies, strict=True)]
    for line, event in zip(lines, events, strict=True):
        _set_seq(event, "seq", line.seq)
    return events, before


def open_line(line: AnyLine, unseal: Unseal | None, before: bytes | None) -> Event:
    """Return the event of one line. Raises KeyMissing, Tampered and whatever ``unseal`` raises."""
    if line.sealed is None or line.type is not None:
        # Also while a log is being rewritten, when it may be plain: then all of it is, up to there.
        follows_sealed = before is not None and before != BEFORE_ALL
        if follows_sealed or line.seq >= getattr(unseal, "sealed_from", sys.maxsize):
            raise Tampered(f"event {line.seq} is not sealed, in a sealed log", seq=line.seq)
        return line.event()
    if unseal is None:
        raise KeyMissing("the session is sealed and its key is not available", seq=line.seq)
    event = _decode_body(line.seq, unseal(line.seq, line.sealed, before))
    _set_seq(event, "seq", line.seq)
    return event


def end_of(line: AnyLine) -> bytes:
    """Return what the line after this one refers to: the end of what was sealed, zeros if plain."""
    # A line with a type is plain, whatever else it claims.
    return BEFORE_ALL if line.sealed is None or line.type is not None else line.sealed[-SEAL_END:]


SEALED_END_BYTES = 36
"""The number of bytes before the end of a sealed line that ``sealed_end`` needs."""
_SEALED_END_CHARS = SEALED_END_BYTES - 1 - len(CRC_KEY) - TRAILER  # of base64, perhaps padded


def sealed_end(data: bytes) -> bytes:
    """Return what the line after this one refers to, from the last bytes of this one; zeros if plain."""
    text, tail = data[:_SEALED_END_CHARS], data[_SEALED_END_CHARS:]
    if not tail.startswith(b'"' + CRC_KEY) or not tail.endswith(CRC_END):
        return BEFORE_ALL
    try:
        return a2b_base64(text)[-SEAL_END:]
    except ValueError:
        return BEFORE_ALL


def _decode_body(seq: int, members: bytes) -> Event:
    try:
        return _event_decoder.decode(b"{%b}" % members)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"what was sealed as event {seq} is none", seq=seq) from error


# Lines of any kind, decoded, and the rule for consecutive numbers.
# The fast and the slow path through a log share this, so that they give the same events.
PLAIN = -1  # the seq of a line that has none
_CRC_NAME = b'"crc"'


class AnyLine(msgspec.Struct):
    """A line of any kind: numbered, plain or sealed."""

    seq: int = PLAIN
    type: str | None = None
    timestamp: int | msgspec.UnsetType = msgspec.UNSET
    data: msgspec.Raw = msgspec.Raw()
    run: str | None = None
    key: str | None = None
    more: bool = False
    sealed: bytes | None = None
    crc: msgspec.Raw = msgspec.Raw()

    def event(self) -> Event:
        """Return the event of a line that is not sealed."""
        stamp = 0 if self.timestamp is msgspec.UNSET else self.timestamp
        data = self.data if bytes(self.data) else b"{}"
        assert self.type is not None
        return Event(self.type, self.seq, stamp, data, self.run, self.key, self.more)


_any_decoder = LazyDecoder(AnyLine)


def decode_line(text: bytes | memoryview) -> AnyLine | None:
    """Return one line's members, or None if it is neither a line of ours nor of a plain log."""
    try:
        line = _any_decoder.decode(text)
    except (ValueError, RecursionError):
        return None
    return None if line.type is None and line.sealed is None else line


def decode_plain_line(text: bytes | memoryview) -> AnyLine | None:
    """Return the members of a line of a plain log; None if it is not one, or one of ours that is damaged."""
    line = decode_line(text)
    if line is None or line.type is None or line.seq != PLAIN or not _is_utf8(bytes(text)):
        return None
    # A line of ours whose "seq" was damaged must not be mistaken for a plain one.
    return None if bytes(line.crc) else line


def decode_each(block: bytes, decode: Callable[[bytes], Any]) -> list[Any]:
    """Return the lines of a block that may contain plain ones, decoded one by one. Raises ValueError."""
    if not _is_utf8(block):
        raise ValueError
    lines = []
    for text in block.split(b"\n"):
        if not text or text.isspace():
            continue
        line = decode(text)
        if line is None or (line.seq == PLAIN and (line.type is None or _CRC_NAME in text)):
            raise ValueError  # only the slow path can tell whose checksum that is
        lines.append(line)
    return lines


def number_lines(lines: Sequence[Any], first: int, *, chained: bool, summed: bool) -> bool:
    """Give plain lines their number; return False if the lines are not a valid sequence.

    Plain lines come before all numbered ones, numbers are consecutive, and a block ends with a numbered line
    exactly if it ends with a checksum (``summed``).
    """
    seq = first
    plain = 0
    for line in lines:
        if line.seq != seq:
            if line.seq != PLAIN or chained or plain != seq - first:
                return False
            msgspec.structs.force_setattr(line, "seq", seq)
            plain += 1
        seq += 1
    return (plain < len(lines)) == summed


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
