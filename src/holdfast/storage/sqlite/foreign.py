"""A SQLite file of another program: copied into memory, and only read."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

from holdfast.errors import InvalidData
from holdfast.storage.sqlite.connection import connect_memory, sqlite_errors

if TYPE_CHECKING:
    from holdfast.storage.sqlite.connection import Connection

_FOREIGN_STEPS = 1_000
_FOREIGN_STEPS_MIN = 10_000
_BYTES_PER_STEP = 1_024


class ForeignDatabase:
    """A database of another program, copied into memory: for reading only, and to be closed.

    The schema is not trusted: only reading is allowed, and a query that does not end is aborted.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def tables(self) -> dict[str, tuple[str, ...]]:
        """Return the tables, and the columns of each."""
        names = [row["name"] for row in self.rows("SELECT name FROM sqlite_master WHERE type='table'")]
        return {
            name: tuple(row["name"] for row in self.rows("SELECT name FROM pragma_table_info(?)", name))
            for name in names
        }

    def rows(self, query: str, *values: object) -> Iterator[dict[str, Any]]:
        """Yield the rows of a query. Raises InvalidData if the file is damaged."""
        try:
            yield from self._connection.execute(query, values)
        except _unreadable() as error:
            raise InvalidData(f"the database cannot be read: {error}") from error

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def copy_database(database: bytes, wal: bytes = b"") -> ForeignDatabase:
    """Return another program's database with the commits of its write-ahead log.

    Raises InvalidData if it is not one.
    """
    connection = connect_memory()
    try:
        connection.deserialize(merge_wal(database, wal))
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA query_only = ON")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except _unreadable() as error:
        connection.close()
        raise InvalidData(f"not a SQLite database that can be read: {error}") from error
    # Enough to read every row several times, and no more.
    steps = iter(range(_FOREIGN_STEPS_MIN + len(database) // _BYTES_PER_STEP))
    connection.set_progress_handler(lambda: next(steps, None) is None, _FOREIGN_STEPS)
    connection.row_factory = lambda cursor, row: {
        column[0]: value for column, value in zip(cursor.description, row, strict=True)
    }
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    return ForeignDatabase(connection)


def _unreadable() -> tuple[type[Exception], ...]:
    return (*sqlite_errors(), OverflowError, UnicodeDecodeError)


# A SQLite file together with its write-ahead log, as one file. Pure: bytes in, bytes out.
# A running tool keeps its newest commits in the ``-wal`` file. Opening the database in its place would create files
# beside it; merging the two copies touches nothing.
_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_MAGIC = (0x377F0682, 0x377F0683)
_PAGE_BYTES_MAX = 65_536
_FORMAT = slice(18, 20)  # format versions for writing and reading; 1 is a file without a write-ahead log
_HEADER_BYTES = 100
_PAGE_SIZE, _PAGE_SIZE_AT = struct.Struct(">H"), 16
_PAGE_COUNT, _PAGE_COUNT_AT = struct.Struct(">I"), 28


def merge_wal(database: bytes, wal: bytes) -> bytes:
    """Return the database after every committed transaction of the log; what follows the last is left out."""
    merged = bytearray(database)
    pages: dict[int, bytes] = {}
    for number, size, page in _frames(wal):
        pages[number] = page
        if size:
            _commit(merged, pages, size)
            pages.clear()
    if len(merged) >= _HEADER_BYTES:
        merged[_FORMAT] = b"\1\1"
        # A file that was cut short must state its length: SQLite then reads the pages there are.
        (page_bytes,) = _PAGE_SIZE.unpack_from(merged, _PAGE_SIZE_AT)
        page_bytes = _PAGE_BYTES_MAX if page_bytes == 1 else page_bytes
        (declared,) = _PAGE_COUNT.unpack_from(merged, _PAGE_COUNT_AT)
        there = len(merged) // page_bytes if page_bytes else 0
        if 0 < there < declared:
            _PAGE_COUNT.pack_into(merged, _PAGE_COUNT_AT, there)
            del merged[there * page_bytes :]
    return bytes(merged)


def _commit(merged: bytearray, pages: dict[int, bytes], size: int) -> None:
    """Put the pages of one transaction in their places, and cut the file to its new size."""
    for number, page in pages.items():
        start = (number - 1) * len(page)
        if number <= size and start <= len(merged) + len(page) * len(pages):
            merged.extend(bytes(max(start + len(page) - len(merged), 0)))
            merged[start : start + len(page)] = page
    page_bytes = len(next(iter(pages.values())))
    del merged[size * page_bytes :]


def _frames(wal: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the page number, the size of the database after a commit (else 0) and the page of each valid frame."""
    if len(wal) < _HEADER.size:
        return
    magic, _, page_bytes, _, *salt, sum1, sum2 = _HEADER.unpack_from(wal)
    order = ">" if magic & 1 else "<"
    if magic not in _MAGIC or not 0 < page_bytes <= _PAGE_BYTES_MAX or page_bytes % 8:
        return
    sums = _checksum(wal[: _HEADER.size - 8], order, (0, 0))
    offset = _HEADER.size
    while sums == (sum1, sum2) and offset + _FRAME.size + page_bytes <= len(wal):
        number, size, *found, sum1, sum2 = _FRAME.unpack_from(wal, offset)
        page = wal[offset + _FRAME.size : offset + _FRAME.size + page_bytes]
        sums = _checksum(wal[offset : offset + 8], order, sums)
        sums = _checksum(page, order, sums)
        if found != salt or sums != (sum1, sum2) or not number:
            return
        yield number, size, page
        offset += _FRAME.size + page_bytes


def _checksum(data: bytes, order: str, sums: tuple[int, int]) -> tuple[int, int]:
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second
