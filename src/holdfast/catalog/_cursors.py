"""Cursors as texts: a place in a list with a checksum, in letters that need no quoting."""

from __future__ import annotations

from binascii import b2a_base64
from zlib import crc32

__all__ = ["CHECK_BYTES", "cursor_of"]

CHECK_BYTES = 4
_SAFE = bytes.maketrans(b"+/", b"-_")


def cursor_of(place: bytes) -> str:
    """The cursor of a place that is encoded as JSON."""
    data = crc32(place).to_bytes(CHECK_BYTES, "big") + place
    return b2a_base64(data, newline=False).translate(_SAFE).decode()
