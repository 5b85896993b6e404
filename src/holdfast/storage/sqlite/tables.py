"""The tables of a SQLite store, and queries on them inside a transaction."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from holdfast.errors import Conflict, Damaged, Locked, NotFound, StoreFull
from holdfast.model import fold_id
from holdfast.storage._leases import Holder, locked, stale
from holdfast.storage._pieces import packed, unpacked
from holdfast.storage.base import Entry, clashing, etag_of, folder_of, is_session, needs_log

if TYPE_CHECKING:
    from holdfast.storage.sqlite.connection import Connection

_FRAME_BYTES = 1 << 20
# At least three rows to a page: rows of half a page and more leave much of it empty. Beyond two pages the rest of a row
# has pages of its own, and nothing is gained.
_ROW_BYTES = 1_340
_CUT_BYTES_MAX = 8_192
# A piece has one number, made of its key's and of its place in the log (64 GiB at most). So it is in a table by that
# number, which keeps a row of almost a page in one piece; in a table with a key of two columns everything beyond a
# quarter of a page would take a page of its own.
_PLACE_BITS = 36
_PLACES = (1 << _PLACE_BITS) - 1
_NUMBER_MAX = (1 << 63) - 1  # the largest number of SQLite

# Numbered, so that a later version can change the tables of an older one; read by the loader of this module, which
# takes less time than loading importlib.resources.
_FOLDER = os.path.join(os.path.dirname(__file__), "migrations")
_loader: Any = __spec__.loader
SCHEMA: tuple[str, ...] = tuple(
    _loader.get_data(os.path.join(_FOLDER, name)).decode()
    for name in ("0001_keys.sql", "0002_numbered_pieces.sql", "0003_sizes_of_pieces.sql")
)

# The number after a log's last byte, for a query of keys.
_BEGIN = f"(id << {_PLACE_BITS})"
_END = (
    f"coalesce((SELECT number + size FROM pieces"  # noqa: S608 - our own text
    f" WHERE number BETWEEN {_BEGIN} AND {_BEGIN} + {_PLACES}"
    f" ORDER BY number DESC LIMIT 1), {_BEGIN})"
)
SIZE = f"{_END} - {_BEGIN}"
ENTRY = f"SELECT key, {SIZE}, modified, generation, version, id FROM keys"  # noqa: S608
_READ = (
    f"SELECT number & {_PLACES}, size, data, packed FROM pieces"  # noqa: S608 - a number of ours
    " WHERE number >= coalesce((SELECT max(number) FROM pieces WHERE number BETWEEN ? AND ?), ?)"
    f" AND number <= ? + {_PLACES} AND number + size > ?"
    " AND EXISTS (SELECT 1 FROM keys WHERE id = ? AND generation = ?)"
    " ORDER BY number LIMIT ?"
)

_INSERT = "INSERT INTO pieces (number, size, data, packed) VALUES (?, ?, ?, ?)"
APPEND = (
    "INSERT INTO pieces (number, size, data, packed)"  # noqa: S608
    f" SELECT {_END}, ?, ?, 0 FROM keys"
    " WHERE id = ? AND key = ? AND epoch = ? AND archived = 0 AND generation > 0"
    # SQLite reads its clock, to a millisecond, when the statement has its turn to write, however long that took.
    " AND (julianday('now') - 2440587.5) * 86400000 - modified BETWEEN -1 AND ?"
)
"""Append a piece to a log whose row was changed within so many milliseconds; else insert nothing.

It writes one page, where the row, its indexes and the number of the change are four more.
"""
NOTED_MS = 100
"""The time after a change of a log's row in which pieces may be added without changing the row again."""


class KeyRow:
    """The row of a key."""

    __slots__ = ("archived", "epoch", "expires", "generation", "holder", "id", "size")

    def __init__(self, values: tuple[int, int, int, int, int, bytes | None, int]) -> None:
        """Raises Damaged for values that no version of ours wrote: a column may hold any type."""
        if values[5] is not None and not isinstance(values[5], bytes):
            raise damaged_row()
        numbers = (*values[:2], *values[3:5], values[6])
        self.id, self.generation, self.archived, self.epoch, self.expires = map(number, numbers)
        self.size, self.holder = size(values[2]), values[5]


def key_row(connection: Connection, key: str) -> KeyRow | None:
    """Return the row of a key, or None."""
    found = connection.execute(
        f"SELECT id, generation, {SIZE}, archived, epoch, holder, expires FROM keys WHERE key = ?",  # noqa: S608
        (key,),
    ).fetchone()
    return None if found is None else KeyRow(found)


def fenced_row(connection: Connection, key: str, epoch: int) -> KeyRow:
    """Return the key's row, if the epoch is the one in force."""
    row = key_row(connection, key)
    if row is None and epoch == 0:
        made_row(connection, key)
        row = key_row(connection, key)
    if row is None or row.epoch != epoch:
        raise stale(key)
    return row


def check_free(connection: Connection, key: str) -> None:
    """Raise Locked while the key has a living holder whose term has not expired."""
    row = key_row(connection, key)
    if row is None or not row.holder or row.expires <= now_ms():
        return
    holder = Holder.from_bytes(bytes(row.holder))
    if not holder.is_gone():
        raise locked(key, holder)


def free_row(connection: Connection, key: str) -> KeyRow:
    """Return the row of a key that has data and no writer; raise NotFound, Locked otherwise."""
    row = key_row(connection, key)
    if row is None or not (row.generation or has_documents(connection, row.id)):
        raise NotFound(f"no such file or directory: {key}")
    check_free(connection, key)
    return row


def check_not_taken(connection: Connection, key: str, row: KeyRow) -> None:
    """Raise Conflict if a key with this row is more than the remains of a crash at its beginning."""
    if row.generation or (not needs_log(key) and has_documents(connection, row.id)):
        raise Conflict(f"{key} is taken")


def check_unique(connection: Connection, key: str, besides: str = "") -> None:
    """Raise InvalidId if a session that differs only by case exists or is being created."""
    if not is_session(key):
        return
    found = connection.execute(
        "SELECT key, generation FROM keys WHERE folded = ? AND key NOT IN (?, ?)"
        " AND (generation > 0 OR holder IS NOT NULL)",
        (fold_id(key), key, besides),
    ).fetchall()
    for other, generation in found:
        try:
            check_free(connection, other)
        except Locked:
            raise clashing(key, str(other)) from None
        if generation:
            raise clashing(key, str(other))
        # Its writer has been silent for long: whatever it may still send is refused.
        connection.execute("UPDATE keys SET epoch = epoch + 1, holder = NULL WHERE key = ?", (other,))


def has_documents(connection: Connection, id: int) -> bool:
    """Return whether a key has any document."""
    found = connection.execute("SELECT 1 FROM documents WHERE id = ? LIMIT 1", (id,)).fetchone()
    return found is not None


def made_row(connection: Connection, key: str) -> int:
    """Return the number of a key's row, created if there is none."""
    connection.execute(
        "INSERT OR IGNORE INTO keys (key, folder, folded) VALUES (?, ?, ?)", (key, folder_of(key), fold_id(key))
    )
    found: int = connection.execute("SELECT id FROM keys WHERE key = ?", (key,)).fetchone()[0]
    return found


def bury(connection: Connection, key: str, epoch: int) -> None:
    """Leave a higher epoch for a removed key, so that its writer stays fenced for good."""
    connection.execute(
        "INSERT INTO keys (key, folder, folded, epoch, version) VALUES (?, ?, ?, ?, ?)",
        (key, folder_of(key), fold_id(key), epoch + 1, next_version(connection)),
    )


def forget(connection: Connection, id: int) -> None:
    """Delete a key with its pieces and documents."""
    forget_pieces(connection, id)
    connection.execute("DELETE FROM documents WHERE id = ?", (id,))
    connection.execute("DELETE FROM keys WHERE id = ?", (id,))


def forget_pieces(connection: Connection, id: int) -> None:
    """Delete the pieces of a key's log."""
    first = _number(id, 0)
    connection.execute("DELETE FROM pieces WHERE number BETWEEN ? AND ?", (first, first + _PLACES))


def describe(connection: Connection, id: int, *, new: bool = False) -> None:
    """Note that a log changed; with ``new`` it is another generation."""
    version = next_version(connection)
    connection.execute(
        "UPDATE keys SET modified = ?, version = ?, archived = 0,"
        " generation = CASE WHEN ? OR generation = 0 THEN ? ELSE generation END WHERE id = ?",
        (now_ms(), version, new, version, id),
    )


def put_document(connection: Connection, id: int, name: str, data: bytes) -> None:
    """Write a document of a key."""
    connection.execute(
        "INSERT OR REPLACE INTO documents (id, name, etag, data) VALUES (?, ?, ?, ?)",
        (id, name, etag_of(data), bytes(data)),
    )


def insert_piece(connection: Connection, id: int, start: int, data: bytes, *, pack: bool = False) -> None:
    """Write one piece of a log at its place."""
    if start + len(data) > _PLACES:
        # One byte more would be in the range of another key.
        raise StoreFull("a log in SQLite has at most 64 GiB", remedy="Begin another session.")
    if pack:
        connection.execute(_INSERT, (_number(id, start), len(data), packed(data), pack))
        return
    for part in parts(data):
        connection.execute(_INSERT, (_number(id, start), len(part), part, pack))
        start += len(part)


def parts(data: bytes) -> list[bytes]:
    """Return the rows into which a piece is cut."""
    if not _ROW_BYTES < len(data) <= _CUT_BYTES_MAX:
        return [bytes(data)]
    step = -(-len(data) // -(-len(data) // _ROW_BYTES))
    return [bytes(data[at : at + step]) for at in range(0, len(data), step)]


def insert_frames(connection: Connection, id: int, data: bytes, *, archived: bool) -> None:
    """Write bytes as pieces of one frame each."""
    for start in range(0, len(data), _FRAME_BYTES):
        insert_piece(connection, id, start, data[start : start + _FRAME_BYTES], pack=archived)


def repack(connection: Connection, id: int, size: int, *, archived: bool) -> None:
    """Rewrite a log, compressed or not."""
    whole = b"".join(pieces_of(connection, id, 0, size))
    forget_pieces(connection, id)
    insert_frames(connection, id, whole, archived=archived)
    connection.execute(
        "UPDATE keys SET archived = ?, version = ? WHERE id = ?", (archived, next_version(connection), id)
    )


def pieces_of(connection: Connection, id: int, start: int, stop: int) -> Iterator[bytes]:
    """Return the bytes of a log inside a transaction."""
    first = _number(id, 0)
    rows = connection.execute(
        "SELECT data, size, packed FROM pieces WHERE number >= ? AND number < ? AND number + size > ? ORDER BY number",
        (first, first + stop, first + start),
    )
    for data, size, is_packed in rows.fetchall():
        yield unpacked(data, size) if is_packed else data


def reading(id: int, generation: int, at: int, count: int) -> tuple[str, tuple[int, ...]]:
    """Return the query for pieces of a generation from a place on (place, size, data, packed), and its values."""
    first, wanted = _number(id, 0), _number(id, at)
    # Python 3.12 takes numbered places (?1) for named ones, and warns.
    return _READ, (first, wanted, first, first, wanted, id, generation, count)


def _number(id: int, place: int) -> int:
    return (id << _PLACE_BITS) + place


def next_version(connection: Connection) -> int:
    """Return the number of this change; every change of the store has one of its own."""
    rows = connection.execute("UPDATE store SET version = version + 1 RETURNING version").fetchall()
    return number(rows[0][0])


def entry_of(row: tuple[str, int, int, int, int, int]) -> Entry:
    """Return an entry; one with invalid figures has at least its name, and is reported when it is read."""
    key, size, modified, generation, version, id = row
    if not (is_size(size) and type(modified) is int):
        size = modified = 0
    return Entry(key, size, modified, f"{generation}-{version}-{size}", str(id))


def number(value: object) -> int:
    """Return a whole number that can still be incremented. Raises Damaged: a column may hold any type."""
    if type(value) is not int or value >= _NUMBER_MAX:
        raise damaged_row()
    return value


def is_size(value: object) -> bool:
    """Return whether a log can have this size."""
    return type(value) is int and 0 <= value <= _PLACES


def size(value: Any) -> int:
    """Return a valid size of a log. Raises Damaged."""
    if not is_size(value):
        raise damaged_row()
    return int(value)


def damaged_row() -> Damaged:
    """Return the error for a row that Holdfast did not write, or that was changed since."""
    return Damaged("a row of the database holds something else than it should")


def now_ms() -> int:
    """Return the time of this machine in milliseconds."""
    return time.time_ns() // 1_000_000
