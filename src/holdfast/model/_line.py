r"""The line: one event as bytes, with a running checksum that ties it to all lines before it.

    {"seq":7,"type":"user","timestamp":1701234568456,"data":{…},"crc":"9ae0daaf"}\n

``crc`` is the CRC-32 of every byte of the log before its eight digits. A whole log is therefore
verified by one computation over its bytes and one comparison with its last digits, and a tail by
the same from any position whose running value is known. See docs/internals/format.md.
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import msgspec

from holdfast.errors import InvalidData

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.model._event import Event

CRC_KEY = b',"crc":"'
CRC_END = b'"}\n'
DIGITS = 8
# The bytes of a line from its crc digits to its end, newline included.
TRAILER = DIGITS + len(CRC_END)

_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_.:/-]{0,63}\Z", re.ASCII)
_HEAD = re.compile(rb'\{"seq":[0-9]+,')
# A cache of encoded types, bounded because of hostile imports.
_KEPT_MAX = 1000
_type_bytes: dict[str, bytes] = {}
_heads: dict[str, bytes] = {}
LINE_HEADS = _heads  # earlier results of :func:`line_head`, by type
LINE_TAIL = b'%08x"}\n'  # the end of a line, to be completed with the running checksum
_encode = msgspec.json.Encoder().encode
_INT64 = 1 << 63
_EMPTY_BYTES = len('{"seq":,"type":"","timestamp":,"data":,"crc":"00000000"}\n')


class Position(NamedTuple):
    """A place between two lines: the next seq, the offset, and the running checksum there."""

    seq: int
    offset: int
    crc: int


START = Position(0, 0, 0)


def type_bytes(type: str) -> bytes:
    """Return the type's name as bytes. Raises InvalidData if it is not a well-formed name."""
    try:
        return _type_bytes[type]
    except (KeyError, TypeError):
        pass
    if not isinstance(type, str) or not _TYPE.match(type):
        shown = ascii(type[:60]) if isinstance(type, str) else f"a {type.__class__.__name__}"
        raise InvalidData(f"{shown} is not an event type: use a short name such as 'user'")
    found = type.encode()
    if len(_type_bytes) < _KEPT_MAX:
        _type_bytes[type] = found
    return found


def line_body(event: Event) -> bytes:
    """Return an event's members from type to data, as in its line. Raises InvalidData for what no reader accepts."""
    timestamp = event.timestamp
    if type(timestamp) is not int or not -_INT64 <= timestamp < _INT64:
        raise InvalidData("the time of an event is a whole number of milliseconds, in 64 bits")
    extra = b""
    if event.run is not None:
        extra = b',"run":' + _text_bytes(event.run, "run")
    if event.key is not None:
        extra += b',"key":' + _text_bytes(event.key, "key")
    if event.more:
        extra += b',"more":true'
    return b'"type":"%b","timestamp":%d%b,"data":%b' % (type_bytes(event.type), timestamp, extra, bytes(event.raw))


def _text_bytes(text: Any, what: str) -> bytes:
    if type(text) is not str or "\0" in text:
        raise InvalidData(f"the {what} of an event is a text without NUL")
    try:
        return _encode(text)
    except UnicodeEncodeError as error:
        raise InvalidData(f"the {what} holds a lone surrogate, which is not valid") from error


def encode_line(seq: int, body: bytes, crc: int) -> tuple[bytes, int]:
    """Return the whole line and the running checksum after it, given the one before it."""
    head = b'{"seq":%d,%b,"crc":"' % (seq, body)
    crc = crc32(head, crc)
    tail = LINE_TAIL % crc
    return head + tail, crc32(tail, crc)


def encode_event_line(seq: int, type: str, timestamp: int, data: bytes, crc: int) -> tuple[bytes, int]:
    """Return the line and checksum of an event without run, key or batch. Raises InvalidData for a malformed type."""
    # The same as ``encode_line`` without its call: nearly every append comes through here.
    try:
        head = _heads[type] % (seq, timestamp, data)
    except (KeyError, TypeError):
        head = line_head(type) % (seq, timestamp, data)
    crc = crc32(head, crc)
    tail = LINE_TAIL % crc
    return head + tail, crc32(tail, crc)


def line_head(type: str) -> bytes:
    """Return a line of this type up to its checksum, to be completed with seq, timestamp and data.

    For the most frequent kind of event: no run, key or batch. Raises InvalidData for a type that is not
    well-formed.
    """
    head = b'{"seq":%%d,"type":"%b","timestamp":%%d,"data":%%b,"crc":"' % type_bytes(type)
    if len(_heads) < _KEPT_MAX:
        _heads[type] = head
    return head


def encode_sealed_line(seq: int, sealed: bytes, crc: int) -> tuple[bytes, int]:
    """Return the line of a sealed event: its body is ciphertext, and the checksum covers that."""
    return encode_line(seq, sealed_body(sealed), crc)


def sealed_body(sealed: bytes) -> bytes:
    """Return the part between seq and crc in the line of a sealed event."""
    return b'"sealed":"%b"' % b2a_base64(sealed, newline=False)


def line_size(event: Event) -> int:
    """Return how many bytes our writer's line of this event has."""
    # The names of the members with their quotes, colons and commas.
    extra = sum(7 + len(_encode(text)) for text in (event.run, event.key) if text is not None) + 12 * event.more
    numbers = len(str(event.seq)) + len(str(event.timestamp))
    return len(event.raw) + len(event.type) + numbers + _EMPTY_BYTES + extra


def running_checksum(chunks: Iterable[bytes], size: int, crc: int = 0) -> int:
    """Return the running checksum after the first ``size`` bytes of a log, or of a part of it.

    ``crc`` is the one before that part. If there are fewer bytes, it is that after all of them.
    """
    for chunk in chunks if size else ():
        crc = crc32(chunk[:size], crc)
        size -= min(size, len(chunk))
        if not size:
            break
    return crc


def checksum_after(end: bytes) -> int:
    """Return the running checksum after a line that ends with these ``TRAILER`` bytes. Raises ValueError for others."""
    return crc32(end, int(end[:DIGITS], 16))


def is_as_written(line: bytes, crc: int = 0) -> bool:
    """Return whether a line with its newline has the checksum that follows from the one before it."""
    try:
        return crc32(line[:-TRAILER], crc) == int(line[-TRAILER:][:DIGITS], 16)
    except ValueError:
        return False


def verified_blocks(chunks: Iterable[bytes], block_bytes: int) -> Iterator[bytes]:
    """Yield the lines of a log in verified blocks of at least that many bytes, up to the first damage."""
    crc = 0
    for block in _whole_lines(chunks, block_bytes):
        crc = crc32(memoryview(block)[:-TRAILER], crc)
        tail = block[-TRAILER:]
        if tail != LINE_TAIL % crc:
            return
        crc = crc32(tail, crc)
        yield block


def _whole_lines(chunks: Iterable[bytes], block_bytes: int) -> Iterator[bytes]:
    """Yield the lines of several chunks at once: the work for each block costs as much as many lines."""
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        end = chunk.rfind(b"\n") + 1
        size += len(chunk)
        # A line may span many chunks: they are joined once.
        if not end or size < block_bytes:
            parts.append(chunk)
            continue
        yield b"".join((*parts, chunk[:end]))
        parts, size = [chunk[end:]], len(chunk) - end
    left = b"".join(parts)
    if end := left.rfind(b"\n") + 1:
        yield left[:end]


def move_line(text: bytes, crc: int) -> tuple[bytes, int, bool]:
    """Return a line moved behind other lines, the checksum after it, and whether it has its own, renewed."""
    line = text.rstrip(b"\n")
    # Without its newline the end of a line is one byte shorter.
    if line[1 - TRAILER - len(CRC_KEY) :][: len(CRC_KEY)] != CRC_KEY:
        line += b"\n"
        return line, crc32(line, crc), False
    head = line[: 1 - TRAILER]
    crc = crc32(head, crc)
    tail = LINE_TAIL % crc
    return head + tail, crc32(tail, crc), True


def encode_plain_line(body: bytes, crc: int) -> tuple[bytes, int]:
    """Return a line of a plain log, without number and checksum, and the running checksum after it."""
    line = b"{%b}\n" % body
    return line, crc32(line, crc)


def cut_body(line: bytes) -> bytes | None:
    """Return the members of a line without seq and crc, byte for byte; None if seq is not the first."""
    if not line.endswith(CRC_END[:2]) or line[-TRAILER - len(CRC_KEY) + 1 : 1 - TRAILER] != CRC_KEY:
        return line.strip()[1:-1]
    head = _HEAD.match(line)
    return line[head.end() : 1 - TRAILER - len(CRC_KEY)] if head else None
