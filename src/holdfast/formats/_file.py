"""One imported file, read within bounds: whole, or line by line."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from itertools import chain
from typing import Any, Protocol

import msgspec

from holdfast.errors import InvalidData, TooLarge
from holdfast.model import decode_json
from holdfast.storage import zstd_module

CHUNK_BYTES = 1024 * 1024


class File(Protocol):
    """Bytes at some place, of a known size."""

    @property
    def size(self) -> int:
        """The number of bytes."""

    @property
    def modified(self) -> int:
        """When they were last changed, in Unix milliseconds; 0 if unknown."""

    def chunks(self, chunk_bytes: int) -> Iterator[bytes]:
        """Yield the bytes from the start, piece by piece."""


class MemoryFile:
    """Bytes in memory as a file."""

    def __init__(self, data: bytes, modified: int = 0) -> None:
        self._data = data
        self.size = len(data)
        self.modified = modified

    def chunks(self, chunk_bytes: int) -> Iterator[bytes]:
        for start in range(0, self.size, chunk_bytes):
            yield self._data[start : start + chunk_bytes]


def read_whole(file: File, name: str, most: int, bounds: Bounds) -> bytes:
    """Return a file, expanded. Raises TooLarge if it has more bytes, InvalidData if it is cut short."""
    parts, total = [], 0
    # In one piece where possible, so that it is in memory once.
    for chunk in expanded(file.chunks(max(min(file.size, most) + 1, 16)), bounds):
        total += len(chunk)
        if total > most:
            raise TooLarge(f"{name} has more than {most:,} bytes", remedy="Import a smaller file.", needed_bytes=total)
        parts.append(chunk)
    return b"".join(parts)


def read_lines(file: File, bounds: Bounds) -> Iterator[bytes]:
    """Yield the lines of a log that are not blank, without their newline. Raises like reading it."""
    # A line may span any number of chunks: the rest grows without being copied.
    rest, total = bytearray(), 0
    for chunk in expanded(file.chunks(CHUNK_BYTES), bounds):
        total += len(chunk)
        if total > bounds.log_bytes_max:
            raise TooLarge(f"the log has more than {bounds.log_bytes_max:,} bytes")
        *whole, last = chunk.split(b"\n")
        if whole:
            whole[0] = bytes(rest) + whole[0]
            rest.clear()
        for line in whole:
            _check_line(line, bounds)
            stripped = line.strip()
            if stripped:
                yield stripped
        rest += last
        _check_line(rest, bounds)
    if rest.strip():
        yield bytes(rest).strip()


def _check_line(line: bytes | bytearray, bounds: Bounds) -> None:
    if len(line) > bounds.line_bytes_max:
        raise TooLarge(f"a line has more than {bounds.line_bytes_max:,} bytes")


def check_line_count(file: File, name: str, bounds: Bounds) -> None:
    """Raise TooLarge for a log of too many lines, before the first of them is kept."""
    # Counted before anything is kept: a refused log must not be recorded in part.
    count = since = 0
    try:
        for chunk in expanded(file.chunks(CHUNK_BYTES), bounds):
            lines = chunk.count(b"\n")
            count, since = count + lines, 0 if lines else since + len(chunk)
            if count > bounds.lines_max or since > bounds.line_bytes_max:
                break
    except (InvalidData, TooLarge):
        return  # reported when it is read
    if count > bounds.lines_max:
        told = f"{name} has more than {bounds.lines_max:,} lines"
        raise TooLarge(told, remedy="Split the file; nothing of it was recorded.", limit="lines_max")


# Expanding gzip and zstd on demand, and stopping where it becomes absurd.
FILLS_A_DISK = "Such a file is made to fill a disk; nothing of it was kept."
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPED = tuple(bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))
"""The beginnings of frames without data: archives of ours begin with one."""
_STEP_BYTES = 256 * 1024
# The rest is copied for each member: with a large piece full of tiny ones that takes for ever.
_SLICE_BYTES = 16 * 1024
_MEMBERS_MAX = 50_000
_WINDOW_LOG_MAX = 25  # 32 MiB: what every decoder must be able to hold is 8 MiB


def is_compressed(head: bytes) -> bool:
    """Return whether bytes begin like gzip or zstd."""
    return head.startswith((_GZIP, _ZSTD, *_ZSTD_SKIPPED))


def expanded(chunks: Iterator[bytes], bounds: Bounds) -> Iterator[bytes]:
    """Yield the expanded bytes; uncompressed ones unchanged.

    Raises TooLarge where the ratio shows a bomb, InvalidData where the stream is damaged or ends
    too soon, after the intact bytes. A compressed stream inside one is not expanded.
    """
    first = next(chunks, b"")
    # A source may return a single byte first, too few for a mark.
    if len(first) < len(_ZSTD):
        first += next(chunks, b"")
    if first.startswith(_GZIP):
        return _unpack(_Gzip(), chain([first], chunks), bounds)
    if first.startswith((_ZSTD, *_ZSTD_SKIPPED)):
        return _unpack(_Zstd(), chain([first], chunks), bounds)
    return chain([first], chunks)


def _sliced(chunks: Iterator[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        for start in range(0, len(chunk), _SLICE_BYTES):
            yield chunk[start : start + _SLICE_BYTES]


class _Members:
    """Counts the members of a stream: each has a cost, however little is in it."""

    _count = 0

    def _count_one(self) -> None:
        self._count += 1
        if self._count > _MEMBERS_MAX:
            raise TooLarge(f"the compressed data has more than {_MEMBERS_MAX:,} members", limit="members")


class _Gzip(_Members):
    """Members of a gzip stream, one after the other."""

    def __init__(self) -> None:
        self._one = zlib.decompressobj(wbits=31)

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._one.eof:
                data = data.lstrip(b"\0")  # padding of tapes
                if not data:
                    return
                self._count_one()
                self._one = zlib.decompressobj(wbits=31)
            yield self._one.decompress(data, _STEP_BYTES)
            # Output is taken step by step: a bomb is detected before it is in memory.
            data = self._one.unused_data or self._one.unconsumed_tail

    @property
    def whole(self) -> bool:
        return self._one.eof


class _Zstd(_Members):
    """Frames of a zstd stream, one after the other."""

    def __init__(self) -> None:
        self._one = self._new()

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data or not self._one.needs_input:
            if self._one.eof:
                data = self._one.unused_data or data
                if not data:
                    return
                self._count_one()
                self._one = self._new()
            yield self._one.decompress(data, _STEP_BYTES)
            data = self._one.unused_data if self._one.eof else b""
            if not data and self._one.eof:
                return

    @property
    def whole(self) -> bool:
        return bool(self._one.eof)

    def _new(self) -> Any:
        module = zstd_module()
        # A frame may ask for a window of gigabytes before it gives a byte.
        return module.ZstdDecompressor(options={module.DecompressionParameter.window_log_max: _WINDOW_LOG_MAX})


def _unpack(unpacker: _Gzip | _Zstd, chunks: Iterator[bytes], bounds: Bounds) -> Iterator[bytes]:
    taken = made = 0
    try:
        for chunk in _sliced(chunks):
            taken += len(chunk)
            for piece in unpacker.feed(chunk):
                made += len(piece)
                if made > bounds.ratio_free_bytes and made > taken * bounds.ratio_max:
                    told = f"it becomes more than {bounds.ratio_max} times as large when expanded"
                    raise TooLarge(told, remedy=FILLS_A_DISK, limit="ratio_max")
                yield piece
    except (zlib.error, zstd_module().ZstdError) as error:
        raise InvalidData(f"the compressed data is damaged: {error}") from error
    if not unpacker.whole:
        raise InvalidData("the compressed data ends too soon")


# Bounds of foreign files, and the checks before they are expanded.
# Such a file is untrusted. Each bound is well above what tools write, and each is checked before the memory is spent: a
# file of a few kilobytes must not become gigabytes.
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
    """The bounds of one import. Beyond one of them TooLarge is raised, or the part is left out."""

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
    """Nesting of JSON. Deeper values than an event allows are kept as text."""
    database_bytes_max: int = 512 * _MIB
    ratio_max: int = 200
    """Bytes out for one byte in: text reaches 20, a bomb reaches 1000."""
    ratio_free_bytes: int = _MIB
    """Up to this size the ratio does not count: a short log may well consist of one word."""
    files_max: int = 20_000
    """Files below one folder, or in one archive."""
    levels_max: int = 12
    """Folders within folders."""
    archive_bytes_max: int = 512 * _MIB
    """One archive or bundle, unexpanded."""
    directory_bytes_max: int = 4 * _MIB
    """The table of contents of an archive."""


def check_name(name: str) -> str:
    """Return ``name`` if as a path it stays below its place; InvalidData for ``..``, a drive, a backslash, NUL."""
    parts = name.split("/")
    if (
        not name
        or len(name) > _NAME_CHARS_MAX
        or any(part in ("", ".", "..") for part in parts)
        or any(mark in name for mark in ("\\", "\0"))
        or parts[0].endswith(":")
    ):
        told = f"{name[:60]!a} is not a name inside of an archive"
        raise InvalidData(told, remedy="Nothing was read; the archive was not made by a tool that means well.")
    return name


def decode_document(data: bytes, bounds: Bounds) -> Any:
    """Return the value of JSON bytes, as :func:`decode_value`.

    Raises TooLarge or InvalidData, before it costs memory.
    """
    # Editors of Windows put a mark before UTF-8, which JSON does not allow.
    data = data.removeprefix(BYTE_ORDER_MARK)
    if len(data) > bounds.document_bytes_max:
        raise _over("document_bytes_max", bounds.document_bytes_max, len(data))
    _check_shape(data, bounds)
    return decode_value(data)


def decode_or_none(data: bytes, bounds: Bounds) -> Any:
    """Return the value of JSON bytes, as :func:`decode_document`; None for invalid ones."""
    try:
        return decode_document(data, bounds)
    except (InvalidData, TooLarge):
        return None


def decode_value(data: bytes) -> Any:
    """Return the value of JSON as tools write it: lone surrogates, NaN, text that is not UTF-8. Raises InvalidData."""
    try:
        return decode_json(data)
    except InvalidData:
        if len(data) > _LENIENT_BYTES_MAX or data.lstrip()[:1] not in _BEGINNINGS:
            raise
    try:
        import json  # only what is not JSON comes here

        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise InvalidData(f"not valid JSON: {error}") from error


def _check_shape(data: bytes, bounds: Bounds) -> None:
    """Bound nesting and the number of values by the punctuation outside strings."""
    # A quick upper bound, which strings only make larger; where it is small enough nothing else is needed.
    opened = data.count(b"{") + data.count(b"[")
    if opened + data.count(b",") <= bounds.values_max and opened <= bounds.depth_max:
        return
    values = depth = 0
    for bare in _without_strings(data):
        for byte in bare.translate(None, _NOT_BRACKETS):
            depth += 1 if byte in _OPENING else -1
            if depth > bounds.depth_max:
                raise InvalidData(f"the document is nested more than {bounds.depth_max} levels deep")
        values += bare.count(b",") + bare.count(b"{") + bare.count(b"[")
        if values > bounds.values_max:
            raise _over("values_max", bounds.values_max, None)


def _without_strings(data: bytes) -> Iterator[bytes]:
    """Yield the text outside strings, piece by piece, so that it can stop early."""
    start, size = 0, _WINDOW_BYTES
    while start < len(data):
        window = data[start : start + size]
        # The part before a string that goes on after the window.
        whole = window if start + size >= len(data) else next(_WHOLE.finditer(window))[0]
        if not whole:
            size *= 2  # a string that is longer than the window
            continue
        yield _STRING.sub(b"", whole)
        start, size = start + len(whole), _WINDOW_BYTES


def _over(limit: str, most: int, size: int | None) -> TooLarge:
    return TooLarge(
        f"the file is over the bound {limit} ({most:,}) for what comes from elsewhere",
        remedy="Split the file; nothing of it was read.",
        limit=limit,
        needed_bytes=size,
    )
