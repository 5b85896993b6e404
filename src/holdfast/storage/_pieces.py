"""A log in pieces: as rows of a database, compressed each by itself, or copied for a branch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from holdfast.errors import Conflict, Damaged, NotFound, UsageError
from holdfast.storage.base import BLOBS, CHUNK_BYTES, Store, check_key

# The number of rows grows from one query to the next, while they stay below that many bytes.
_READ_BYTES = 1 << 20
_ROWS_FIRST = 4
_ROWS_MAX = 256


def read_rows(fetch: Callable[[int, int], Sequence[Any]], start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes of a log from an offset on, some rows at a time: no writer waits for a reader.

    ``end`` is the length of the log. A short log takes one query.

    ``fetch`` is given an offset and a number and returns at most so many rows from there on, in
    order: their start, size, bytes, and whether these are packed.
    """
    count = _ROWS_MAX if end - start <= _READ_BYTES else _ROWS_FIRST
    while start < end and (rows := fetch(start, count)):
        if not all(type(size) is int and isinstance(data, bytes) for _, size, data, _ in rows):
            raise Damaged("a piece of the log is something else than bytes")  # a column of SQLite may hold any type
        full = sum(size for _, size, _, _ in rows) >= _READ_BYTES
        count = max(1, count // 2) if full else min(count * 2, _ROWS_MAX)
        parts: list[bytes] = []  # read together: each row costs a reader some work
        damage: Damaged | None = None
        for offset, size, data, is_packed in rows:
            try:
                plain = unpacked(data, size) if is_packed else data
                if len(plain) != size:  # a shorter one would be fetched again for ever
                    raise Damaged("a piece of the log has another number of bytes than it should")
            except Damaged as error:
                damage = error
                break
            parts.append(plain[max(0, start - offset) :])
            start = offset + len(plain)
        whole = b"".join(parts)
        for at in range(0, len(whole), CHUNK_BYTES):
            yield whole[at : at + CHUNK_BYTES]
        if damage is not None:
            raise damage


# Branches: the checks that every store makes, and branching by copying.
_LEASE_MS = 60_000


def check_branch(store: Store, key: str, to: str, size: int) -> None:
    """Raise what ``Store.branch`` raises before it does anything."""
    check_key(to)
    if size < 1:
        raise UsageError("a branch begins with at least one line")
    if not store.exists(key):
        raise NotFound(f"there is no log at {key}")
    found = store.log(key).size()
    if size > found:
        raise Conflict(f"the log of {key} has {found:,} bytes, fewer than {size:,}")
    if store.exists(to):
        raise Conflict(f"{to} is taken")


def copy_branch(store: Store, key: str, to: str, size: int, documents: Mapping[str, bytes]) -> None:
    """Branch by copying, which works on every store and takes time in proportion to the log."""
    check_branch(store, key, to, size)
    with store.lease(to).held("store", _LEASE_MS) as epoch:
        if store.exists(to):
            raise Conflict(f"{to} is taken")
        source, target = store.documents(key), store.documents(to)
        for name in source.names(BLOBS):
            found = source.get(name)
            if found is not None:
                target.put(name, found[0])
        for name, data in documents.items():
            target.put(name, data)
        log = store.log(to)
        log.replace(first_bytes(store.log(key).read(), size), epoch)
        log.close()


def first_bytes(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield at most the first ``size`` bytes of some chunks."""
    for chunk in chunks:
        yield chunk[:size]
        size -= len(chunk)
        if size <= 0:
            return


def rechunked(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield the bytes of some chunks in pieces of this size; the last one may be shorter."""
    waiting = bytearray()
    for chunk in chunks:
        waiting += chunk
        while len(waiting) >= size:
            yield bytes(waiting[:size])
            del waiting[:size]
    if waiting:
        yield bytes(waiting)


# The zstd module, and pieces of a log that are compressed separately and unpacked within a bound.
_LEVEL = 3


def packed(data: bytes) -> bytes:
    """Return the bytes as one zstd frame."""
    compressed: bytes = zstd_module().compress(data, _LEVEL)
    return compressed


def unpacked(data: bytes, size: int) -> bytes:
    """Return the ``size`` bytes of a frame. Raises Damaged if it holds anything else."""
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
    """Return the zstd module, wherever this version of Python has it; loaded when first needed."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd
