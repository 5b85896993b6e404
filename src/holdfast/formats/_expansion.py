"""Expanding gzip and zstd as the bytes are wanted, and stopping where it becomes absurd."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

from holdfast.errors import InvalidData, TooLarge
from holdfast.formats._bounds import Bounds
from holdfast.storage._zstd import zstd_module

__all__ = ["expanded", "is_compressed"]

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPED = tuple(bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))
"""How a frame begins that holds no data: archives of ours begin with one."""
_STEP_BYTES = 256 * 1024
# What is left after a member is copied: of a large piece full of tiny ones that takes for ever.
_SLICE_BYTES = 16 * 1024
_MEMBERS_MAX = 50_000
_WINDOW_LOG_MAX = 25  # 32 MiB: what every decoder must be able to hold is 8 MiB


def is_compressed(head: bytes) -> bool:
    """Whether bytes begin like gzip or zstd."""
    return head.startswith((_GZIP, _ZSTD, *_ZSTD_SKIPPED))


def expanded(chunks: Iterator[bytes], bounds: Bounds) -> Iterator[bytes]:
    """The bytes as they were before they were compressed; others as they are.

    Raises TooLarge where the ratio shows a bomb, InvalidData where the stream is damaged or ends
    too soon, after the bytes that are whole. A compressed stream inside of one is not expanded.
    """
    first = next(chunks, b"")
    if len(first) < len(_ZSTD):
        first += next(chunks, b"")
    if first.startswith(_GZIP):
        return _unpack(_Gzip(), first, chunks, bounds)
    if first.startswith((_ZSTD, *_ZSTD_SKIPPED)):
        return _unpack(_Zstd(), first, chunks, bounds)
    return _as_it_is(first, chunks)


def _as_it_is(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest


def _sliced(chunks: Iterator[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        for start in range(0, len(chunk), _SLICE_BYTES):
            yield chunk[start : start + _SLICE_BYTES]


class _Members:
    """Counts the members of a stream: each costs something, however little is in it."""

    def __init__(self) -> None:
        self._count = 0

    def _count_one(self) -> None:
        self._count += 1
        if self._count > _MEMBERS_MAX:
            raise TooLarge(
                f"the compressed data has more than {_MEMBERS_MAX:,} members", limit="members"
            )


class _Gzip(_Members):
    """Members of a gzip stream, one after the other."""

    def __init__(self) -> None:
        super().__init__()
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
            data = self._one.unused_data or self._one.unconsumed_tail

    @property
    def whole(self) -> bool:
        return self._one.eof


class _Zstd(_Members):
    """Frames of a zstd stream, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self._module = zstd_module()
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
        parameter = self._module.DecompressionParameter.window_log_max
        return self._module.ZstdDecompressor(options={parameter: _WINDOW_LOG_MAX})


def _unpack(
    unpacker: _Gzip | _Zstd, first: bytes, chunks: Iterator[bytes], bounds: Bounds
) -> Iterator[bytes]:
    taken = made = 0
    try:
        for chunk in _sliced(_as_it_is(first, chunks)):
            taken += len(chunk)
            for piece in unpacker.feed(chunk):
                made += len(piece)
                if made > bounds.ratio_free_bytes and made > taken * bounds.ratio_max:
                    raise TooLarge(
                        f"it becomes more than {bounds.ratio_max} times as large when expanded",
                        remedy="Such a file is made to fill a disk; nothing of it was kept.",
                        limit="ratio_max",
                    )
                yield piece
    except (zlib.error, zstd_module().ZstdError) as error:
        raise InvalidData(f"the compressed data is damaged: {error}") from error
    if not unpacker.whole:
        raise InvalidData("the compressed data ends too soon")
