"""How much a file from elsewhere may hold, and the checks that come before it is expanded.

Nobody vouches for such a file. Each bound is well above what tools write, and each is checked
before the memory is spent: a file of a few kilobytes must not become gigabytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.errors import InvalidData, TooLarge
from holdfast.model import decode_json

_KIB = 1024
_MIB = 1024 * _KIB
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_WHOLE = re.compile(rb'(?:[^"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)
_WINDOW_BYTES = 256 * _KIB
_LENIENT_BYTES_MAX = 8 * _MIB
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BEGINNINGS = (b"{", b"[")
_OPENING, _CLOSING = b"{[", b"}]"
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in _OPENING + _CLOSING)
_NAME_CHARS_MAX = 1_000


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of one import. Over one of them TooLarge is raised, or the part is left out."""

    document_bytes_max: int = 48 * _MIB
    """One file that has to be read as a whole, such as a JSON document, after expansion."""

    line_bytes_max: int = 32 * _MIB
    """One line of a log: a message with a few pictures in it."""

    log_bytes_max: int = 1024 * _MIB
    """One log, after expansion; it is read line by line."""

    lines_max: int = 200_000
    """Lines of one log: each becomes an event."""

    values_max: int = 500_000
    """Members and items of one JSON document: each costs a hundred bytes once it is read."""

    depth_max: int = 200
    """Nesting of JSON. What is deeper than an event may be is kept as text."""

    database_bytes_max: int = 512 * _MIB

    ratio_max: int = 200
    """Bytes out for one byte in: text reaches 20, what was made to explode reaches 1000."""

    ratio_free_bytes: int = _MIB
    """Up to here the ratio does not count: a short log may well consist of one word."""

    files_max: int = 20_000
    """Files below one folder, or in one archive."""

    levels_max: int = 12
    """Folders within folders."""

    archive_bytes_max: int = 512 * _MIB
    """One archive or bundle as it is, not expanded."""

    directory_bytes_max: int = 4 * _MIB
    """The table of contents of an archive."""


def check_name(name: str) -> str:
    """``name`` itself if it is a path that stays below the place it is read from.

    Raises InvalidData for an absolute one, for ``..``, for a drive letter, backslash or NUL.
    """
    parts = name.split("/")
    if (
        not name
        or len(name) > _NAME_CHARS_MAX
        or any(part in ("", ".", "..") for part in parts)
        or any(mark in name for mark in ("\\", "\0"))
        or parts[0].endswith(":")
    ):
        raise InvalidData(
            f"{name[:60]!a} is not a name inside of an archive",
            remedy="Nothing was read; the archive was not made by a tool that means well.",
        )
    return name


def decode_document(data: bytes, bounds: Bounds) -> Any:
    """The value of JSON bytes. Raises TooLarge or InvalidData, before it costs much memory.

    Takes what tools really write: lone halves of surrogates, NaN, and text that is not UTF-8.
    """
    data = data.removeprefix(BYTE_ORDER_MARK)
    if len(data) > bounds.document_bytes_max:
        raise _over("document_bytes_max", bounds.document_bytes_max, len(data))
    _check_shape(data, bounds)
    try:
        return decode_json(data)
    except InvalidData:
        if len(data) > _LENIENT_BYTES_MAX or data.lstrip()[:1] not in _BEGINNINGS:
            raise
        return _decode_leniently(data)


def _decode_leniently(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise InvalidData(f"not valid JSON: {error}") from error


def _check_shape(data: bytes, bounds: Bounds) -> None:
    """Bound nesting and the number of values by the punctuation that is in no string."""
    opened = data.count(b"{") + data.count(b"[")
    if opened + data.count(b",") <= bounds.values_max and opened <= bounds.depth_max:
        return
    values = depth = 0
    for bare in _without_strings(data):
        values += bare.count(b",")
        for byte in bare.translate(None, _NOT_BRACKETS):
            step = 1 if byte in _OPENING else -1
            depth += step
            values += step > 0
            if depth > bounds.depth_max:
                raise InvalidData(
                    f"the document is nested more than {bounds.depth_max} levels deep"
                )
            if values > bounds.values_max:
                raise _over("values_max", bounds.values_max, None)
        if values > bounds.values_max:
            raise _over("values_max", bounds.values_max, None)


def _without_strings(data: bytes) -> Iterator[bytes]:
    """What stands outside of strings, piece by piece, so that it can be given up early."""
    start, size = 0, _WINDOW_BYTES
    while start < len(data):
        window = data[start : start + size]
        end = len(window) if start + size >= len(data) else _whole_part(window)
        if not end:
            size *= 2  # a string that is longer than the window
            continue
        yield _STRING.sub(b"", window[:end])
        start, size = start + end, _WINDOW_BYTES


def _whole_part(window: bytes) -> int:
    """How much of a window comes before a string that goes on after it."""
    found = _WHOLE.match(window)
    return found.end() if found else 0


def _over(limit: str, most: int, size: int | None) -> TooLarge:
    return TooLarge(
        f"the file is over the bound {limit} ({most:,}) for what comes from elsewhere",
        remedy="Split the file; nothing of it was read.",
        limit=limit,
        needed_bytes=size,
    )
