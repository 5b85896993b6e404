"""Someone else's SQLite file: copied into memory, and only read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

from holdfast.errors import InvalidData
from holdfast.storage._sqlite import connect_memory, sqlite_errors

if TYPE_CHECKING:
    from holdfast.storage._sqlite import Connection, Cursor

__all__ = ["ForeignDatabase", "copy_database"]

_FOREIGN_STEPS = 1_000
_FOREIGN_STEPS_MIN = 10_000
_BYTES_PER_STEP = 1_024


class ForeignDatabase:
    """Someone else's database, copied into memory: for reading only, and to be closed.

    The schema is not trusted: nothing but reading is allowed, and a query that does not come to an
    end is broken off.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def tables(self) -> dict[str, tuple[str, ...]]:
        """The tables, and the columns of each."""
        names = [
            row["name"] for row in self.rows("SELECT name FROM sqlite_master WHERE type='table'")
        ]
        return {
            name: tuple(
                row["name"] for row in self.rows("SELECT name FROM pragma_table_info(?)", name)
            )
            for name in names
        }

    def rows(self, query: str, *values: object) -> Iterator[dict[str, Any]]:
        """The rows that a query gives. Raises InvalidData where the file is damaged."""
        try:
            yield from self._connection.execute(query, values)
        except _unreadable() as error:
            raise InvalidData(f"the database cannot be read: {error}") from error

    def close(self) -> None:
        """Let the copy go."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def copy_database(database: bytes, wal: bytes = b"") -> ForeignDatabase:
    """Someone else's database with what its write-ahead log has committed.

    Raises InvalidData for what is no SQLite file.
    """
    from holdfast.storage._wal import merge_wal

    connection = connect_memory()
    try:
        connection.deserialize(merge_wal(database, wal))
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA query_only = ON")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except _unreadable() as error:
        connection.close()
        raise InvalidData(f"not a SQLite database that can be read: {error}") from error
    # Enough to look at every row some times over, and no more.
    steps = iter(range(_FOREIGN_STEPS_MIN + len(database) // _BYTES_PER_STEP))
    connection.set_progress_handler(lambda: next(steps, None) is None, _FOREIGN_STEPS)
    connection.row_factory = _named
    connection.text_factory = _text
    return ForeignDatabase(connection)


def _unreadable() -> tuple[type[Exception], ...]:
    return (*sqlite_errors(), OverflowError, UnicodeDecodeError)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _named(cursor: Cursor, row: tuple[Any, ...]) -> dict[str, Any]:
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}
