"""The line: one event as bytes, with a running checksum that ties it to all lines before it.

    {"seq":7,"type":"user","timestamp":1701234568456,"data":{…},"crc":"9ae0daaf"}\\n

``crc`` is the CRC-32 of every byte of the log before its eight digits. A whole log is therefore
verified by one computation over its bytes and one comparison with its last digits, and a tail by
the same from any position whose running value is known. docs/internals/format.md is the full text.
"""

from __future__ import annotations

import base64
import re
from typing import NamedTuple
from zlib import crc32

import msgspec

from holdfast.errors import InvalidData
from holdfast.model._event import Event

__all__ = ["START", "Position", "encode_line", "encode_sealed_line", "line_body"]

CRC_KEY = b',"crc":"'
CRC_END = b'"}\n'
DIGITS = 8
# The bytes of a line from its crc digits to its end, newline included.
TRAILER = DIGITS + len(CRC_END)

_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_.:/-]{0,63}\Z", re.ASCII)
_type_bytes: dict[str, bytes] = {}
_encode = msgspec.json.Encoder().encode


class Position(NamedTuple):
    """A place between two lines: the next seq, the offset, and the running checksum there."""

    seq: int
    offset: int
    crc: int


START = Position(0, 0, 0)


def type_bytes(type: str) -> bytes:
    """The type's name as bytes; InvalidData if it is not a well-formed name."""
    found = _type_bytes.get(type)
    if found is None:
        if not isinstance(type, str) or not _TYPE.match(type):
            raise InvalidData(f"{type!r} is not an event type: use a short name such as 'user'")
        found = type.encode()
        if len(_type_bytes) < 1000:  # a hostile import must not grow this without end
            _type_bytes[type] = found
    return found


def line_body(event: Event) -> bytes:
    """An event's members from type to data, as they stand in its line."""
    head = b'"type":"%b","timestamp":%d' % (type_bytes(event.type), event.timestamp)
    if event.run is not None:
        head += b',"run":' + _encode(event.run)
    if event.key is not None:
        head += b',"key":' + _encode(event.key)
    if event.more:
        head += b',"more":true'
    return b'%b,"data":%b' % (head, bytes(event.raw))


def encode_line(seq: int, body: bytes, crc: int) -> tuple[bytes, int]:
    """The whole line and the running checksum after it, given the one before it."""
    head = b'{"seq":%d,%b,"crc":"' % (seq, body)
    crc = crc32(head, crc)
    tail = b'%08x"}\n' % crc
    return head + tail, crc32(tail, crc)


def encode_sealed_line(seq: int, sealed: bytes, crc: int) -> tuple[bytes, int]:
    """The line of a sealed event: its body is ciphertext, and the checksum covers that."""
    return encode_line(seq, b'"sealed":"%b"' % base64.b64encode(sealed), crc)
