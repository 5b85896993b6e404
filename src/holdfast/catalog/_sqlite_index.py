"""The index as an SQLite database, in a file or in memory.

SQLite notices most damage to its file, not all of it. So each row has a checksum that is verified
whenever it is read, and the index has one over all rows: a list of everything is complete and as
written, or the index says that it is damaged.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec

from holdfast.catalog import _derived
from holdfast.catalog._filter import Filter, Page, Place
from holdfast.catalog._index import Index, IndexDamaged, Kept, Row, Update, make_page, shown
from holdfast.catalog._schema import create_schema, drop_schema, has_schema
from holdfast.catalog._selection import selection
from holdfast.model import SessionMetadata, fold_id

if TYPE_CHECKING:
    import sqlite3

__all__ = ["SqliteIndex", "read_row"]

_INT64_MAX = (1 << 63) - 1

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Row).decode


class _Sum(msgspec.Struct, array_like=True):
    """How many rows there are, and all their checksums in one."""

    count: int = 0
    crc: int = 0


class SqliteIndex(Index):
    """Rows in the tables of ``_schema.py``."""

    connection: sqlite3.Connection

    def __init__(self, connection: sqlite3.Connection, store: str) -> None:
        """``store`` says of which store this is an index; one of another store is emptied."""
        self.connection = connection
        self._store = store
        self._host = os.uname().nodename
        if not has_schema(connection) or self._fact("store") != store.encode():
            self.clear()

    def mark(self) -> str:
        """The fact of that name."""
        return self._fact("mark").decode()

    def get(self, id: str) -> Kept | None:
        """From both tables, each verified."""
        found = self.connection.execute(
            "SELECT s.row, s.data, s.crc, f.state, f.tally, f.crc FROM sessions s"
            " LEFT JOIN folds f USING (row) WHERE s.id = ?",
            (id,),
        ).fetchone()
        if found is None:
            return None
        number, data, crc, state, tally, fold_crc = found
        row = read_row(id, data, crc)
        if not isinstance(state, bytes) or _fold_crc(number, state, tally) != fold_crc:
            raise IndexDamaged(f"what is kept of session {id}")
        return Kept(row, state, tally, number, crc)

    def known(self) -> dict[str, tuple[str, str]]:
        """One pass over the table."""
        return {row.meta.session_id: (row.etag, row.folder) for row in self._all()}

    def folders(self) -> dict[str, str]:
        """By an index that holds nothing else."""
        query = "SELECT id, folder FROM sessions INDEXED BY by_folder"
        found: dict[str, str] = dict(self.connection.execute(query))
        if len(found) != self.count():
            raise IndexDamaged("the number of sessions")
        return found

    def write(
        self, updates: Sequence[Update], gone: Collection[str] = (), mark: str | None = None
    ) -> list[str]:
        """One transaction."""
        with self._transaction():
            total = self._total()
            conflicts = [
                update.row.meta.session_id for update in updates if not self._put(update, total)
            ]
            for id in gone:
                self._remove(id, total)
            if updates or gone:
                self._set_fact("sum", _encode(total))
            if mark is not None and not conflicts:
                self._set_fact("mark", mark.encode())
        return conflicts

    def page(self, wanted: Filter, limit: int | None, after: Place | None) -> Page:
        """By the best table index for a limit, else by looking at every row."""
        if limit is None:
            return make_page(self._chosen(wanted, after), None)
        query, values = selection(wanted, after)
        rows: list[SessionMetadata] = []
        last: Place | None = None
        for updated, id, data, crc in self.connection.execute(query, values):
            if len(rows) > limit:
                break
            row = read_row(id, data, crc)
            place = (_clamped(row.meta.updated_at), id)
            if place[0] != updated or (last is not None and place >= last):
                raise IndexDamaged("the order of the sessions")
            last = place
            meta = shown(row, self._host)
            if wanted.admits(meta):
                rows.append(meta)
        return make_page(rows, limit)

    def ids(self, prefix: str) -> list[str]:
        """By the folded ids."""
        folded = fold_id(prefix)
        query = "SELECT id FROM sessions WHERE folded >= ? AND folded < ?"
        return [id for (id,) in self.connection.execute(query, (folded, folded + "\U0010ffff"))]

    def count(self) -> int:
        """As it was added up."""
        return self._total().count

    def is_worn(self) -> bool:
        """As the search says."""
        return _derived.is_worn(self.connection)

    def clear(self) -> None:
        """Drop all tables and make them again."""
        with self._transaction():
            drop_schema(self.connection)
            create_schema(self.connection)
            self._set_fact("store", self._store.encode())
            self._set_fact("sum", _encode(_Sum()))
            self._set_fact("mark", b"")

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    # -- writing -------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    def _put(self, update: Update, total: _Sum) -> bool:
        row = update.row
        meta = row.meta
        execute = self.connection.execute
        found = execute("SELECT row, crc FROM sessions WHERE id = ?", (meta.session_id,)).fetchone()
        number, version = found or (None, 0)
        if version != update.version:
            return False
        data = _encode(row)
        crc = _row_crc(meta.session_id, data)
        columns = (
            _clamped(meta.updated_at),
            _key(meta.agent_id),
            _key(meta.model),
            _key(meta.parent),
            meta.status,
            meta.archived,
            row.folder,
            data,
            crc,
        )
        if number is None:
            added = execute(
                "INSERT INTO sessions (id, folded, updated, agent, model, parent, status, archived,"
                " folder, data, crc) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (meta.session_id, fold_id(meta.session_id), *columns),
            )
            number = added.lastrowid or 0
            total.count += 1
        else:
            execute(
                "UPDATE sessions SET updated = ?, agent = ?, model = ?, parent = ?, status = ?,"
                " archived = ?, folder = ?, data = ?, crc = ? WHERE row = ?",
                (*columns, number),
            )
            execute("DELETE FROM labels WHERE row = ?", (number,))
        total.crc ^= version ^ crc
        self._put_rest(number, update)
        return True

    def _put_rest(self, number: int, update: Update) -> None:
        meta = update.row.meta
        fold_crc = _fold_crc(number, update.state, update.tally)
        self.connection.execute(
            "INSERT OR REPLACE INTO folds (row, state, tally, crc) VALUES (?, ?, ?, ?)",
            (number, update.state, update.tally, fold_crc),
        )
        place = (_clamped(meta.updated_at), meta.session_id, number)
        labels = [(_key(tag), *place) for tag in {*meta.tags, *meta.auto_tags}]
        self.connection.executemany("INSERT INTO labels VALUES (?, ?, ?, ?)", labels)
        if update.whole:
            _derived.forget(self.connection, number)
        if update.events:
            _derived.add(self.connection, number, update.events)

    def _remove(self, id: str, total: _Sum) -> None:
        execute = self.connection.execute
        found = execute("SELECT row, crc FROM sessions WHERE id = ?", (id,)).fetchone()
        if found is None:
            return
        number, crc = found
        for table in ("sessions", "labels", "folds"):
            execute(f"DELETE FROM {table} WHERE row = ?", (number,))  # noqa: S608 - names of ours
        _derived.forget(self.connection, number)
        total.count -= 1
        total.crc ^= crc

    # -- reading -------------------------------------------------------------------------------

    def _all(self) -> Iterator[Row]:
        """Every row. Raises IndexDamaged at the end if they are not all there."""
        total = _Sum()
        # Not by a table index: what is damaged in one must not hide a row.
        query = "SELECT id, data, crc FROM sessions NOT INDEXED"
        for id, data, crc in self.connection.execute(query):
            yield read_row(id, data, crc)
            total.count += 1
            total.crc ^= crc
        if total != self._total():
            raise IndexDamaged("the number of sessions")

    def _chosen(self, wanted: Filter, after: Place | None) -> list[SessionMetadata]:
        found = [meta for row in self._all() if wanted.admits(meta := shown(row, self._host))]
        found.sort(key=_place, reverse=True)
        if after is None:
            return found
        return [meta for meta in found if _place(meta) < after]

    def _total(self) -> _Sum:
        return msgspec.json.decode(self._fact("sum"), type=_Sum)

    def _fact(self, name: str) -> bytes:
        query = "SELECT value, crc FROM facts WHERE name = ?"
        found = self.connection.execute(query, (name,)).fetchone()
        if found is None or not isinstance(found[0], bytes) or _row_crc(name, found[0]) != found[1]:
            raise IndexDamaged(f"the fact {name}")
        return found[0]

    def _set_fact(self, name: str, value: bytes) -> None:
        self.connection.execute(
            "INSERT OR REPLACE INTO facts (name, value, crc) VALUES (?, ?, ?)",
            (name, value, _row_crc(name, value)),
        )


def read_row(id: str, data: Any, crc: Any) -> Row:
    """The row of a session. Raises IndexDamaged if it is not as written."""
    if type(id) is str and type(data) is bytes and _row_crc(id, data) == crc:
        row = _decode(data)
        if row.meta.session_id == id:
            return row
    raise IndexDamaged("the row of a session")


def _row_crc(name: str, data: bytes) -> int:
    # Never 0, which stands for a row that is not there.
    return crc32(data, crc32(name.encode("utf-8", "surrogatepass"))) or 1


def _fold_crc(number: int, state: bytes, tally: bytes) -> int:
    return crc32(tally, crc32(state, number & 0xFFFFFFFF))


def _place(meta: SessionMetadata) -> Place:
    return _clamped(meta.updated_at), meta.session_id


def _clamped(time_ms: int) -> int:
    """A time that fits a column: a foreign log may name any."""
    return max(-_INT64_MAX, min(time_ms, _INT64_MAX))


def _key(text: str | None) -> bytes | None:
    """A text as the database compares it: byte by byte, whatever is in it."""
    return None if text is None else text.encode("utf-8", "surrogatepass")
