"""Lines of any kind, decoded, and the rule by which their numbers must follow one another.

The quick and the slow way through a log share this, so that they give the same events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from holdfast.model._event import Event

__all__ = [
    "PLAIN",
    "AnyLine",
    "decode_each",
    "decode_line",
    "decode_plain_line",
    "number_lines",
    "split_lines",
]

PLAIN = -1
"""The seq of a line that names none."""
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
        """The event of a line that is not sealed."""
        stamp = 0 if self.timestamp is msgspec.UNSET else self.timestamp
        data = self.data if bytes(self.data) else b"{}"
        assert self.type is not None
        return Event(self.type, self.seq, stamp, data, self.run, self.key, self.more)


_decode = msgspec.json.Decoder(AnyLine).decode


def decode_line(text: bytes | memoryview) -> AnyLine | None:
    """One line's members, or None if it is not a line of ours or of a plain log."""
    try:
        line = _decode(text)
    except (ValueError, RecursionError):
        return None
    return None if line.type is None and line.sealed is None else line


def decode_plain_line(text: bytes | memoryview) -> AnyLine | None:
    """The members of a line of a plain log; None if it is none, or one of ours that is damaged."""
    line = decode_line(text)
    if line is None or line.type is None or line.seq != PLAIN or not _is_utf8(bytes(text)):
        return None
    # A line of ours whose "seq" was damaged must not pass for a plain one.
    return None if bytes(line.crc) else line


def split_lines(block: bytes) -> list[bytes]:
    """The lines of a block that are not blank."""
    return [line for line in block.split(b"\n") if line and not line.isspace()]


def decode_each(block: bytes, decode: Callable[[bytes], Any]) -> list[Any]:
    """The lines of a block that may hold plain ones, each by itself. Raises ValueError."""
    if not _is_utf8(block):
        raise ValueError
    lines = []
    for text in split_lines(block):
        line = decode(text)
        if line is None or (line.seq == PLAIN and (line.type is None or _CRC_NAME in text)):
            raise ValueError  # only the slow way can tell whose checksum that is
        lines.append(line)
    return lines


def number_lines(lines: Sequence[Any], first: int, *, chained: bool, summed: bool) -> bool:
    """Give plain lines their number; False if the lines cannot stand like this in a log.

    Plain lines come before all numbered ones, numbers follow one another, and a block ends with a
    numbered line exactly if it ends with a checksum (``summed``).
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
