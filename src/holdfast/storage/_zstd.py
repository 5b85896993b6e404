"""The way to zstd, and pieces of a log compressed by themselves and unpacked within a bound."""

from __future__ import annotations

import sys
from typing import Any

from holdfast.errors import Damaged

_LEVEL = 3


def packed(data: bytes) -> bytes:
    """The bytes as one zstd frame."""
    compressed: bytes = zstd_module().compress(data, _LEVEL)
    return compressed


def unpacked(data: bytes, size: int) -> bytes:
    """The ``size`` bytes that a frame holds. Raises Damaged if it holds anything else."""
    zstd = zstd_module()
    decompressor = zstd.ZstdDecompressor()
    try:
        plain: bytes = decompressor.decompress(data, max_length=size)
    except zstd.ZstdError as error:
        raise Damaged(f"a compressed piece cannot be unpacked: {error}") from error
    if len(plain) != size or not decompressor.eof:
        raise Damaged("a compressed piece holds another number of bytes than it should")
    return plain


def zstd_module() -> Any:
    """The module, wherever this version of Python has it; loaded when it is first needed."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd
