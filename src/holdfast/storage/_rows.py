"""A log that is kept as rows of a database, each with the bytes of a piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from holdfast.errors import Damaged
from holdfast.storage._zstd import unpacked
from holdfast.storage.base import CHUNK_BYTES

# Rows grow from one reading to the next, as long as that many bytes are not reached.
_READ_BYTES = 1 << 20
_ROWS_FIRST = 4
_ROWS_MAX = 256


def read_rows(fetch: Callable[[int, int], Sequence[Any]], start: int, end: int) -> Iterator[bytes]:
    """The bytes of a log from an offset on, some rows at a time: no writer waits for a reader.

    ``end`` is how long the log is. What is short comes with one question.

    ``fetch`` is given an offset and a number and gives so many rows from there on at the most, in
    order: their start, size, bytes, and whether these are packed.
    """
    count = _ROWS_MAX if end - start <= _READ_BYTES else _ROWS_FIRST
    while start < end and (rows := fetch(start, count)):
        _check(rows)
        full = sum(size for _, size, _, _ in rows) >= _READ_BYTES
        count = max(1, count // 2) if full else min(count * 2, _ROWS_MAX)
        for offset, size, data, is_packed in rows:
            plain = unpacked(data, size) if is_packed else data
            if len(plain) != size:  # one that is shorter would be asked for again for ever
                raise Damaged("a piece of the log has another number of bytes than it should")
            part = plain[max(0, start - offset) :]
            for at in range(0, len(part), CHUNK_BYTES):
                yield part[at : at + CHUNK_BYTES]
            start = offset + len(plain)


def _check(rows: Sequence[Any]) -> None:
    """Raise Damaged for what is no piece: a column of SQLite takes anything."""
    if not all(type(size) is int and isinstance(data, bytes) for _, size, data, _ in rows):
        raise Damaged("a piece of the log is something else than bytes")
