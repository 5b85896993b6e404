"""The index as an SQLite database, in a file or in memory.

SQLite notices most damage to its file, not all of it. So each row has a checksum that is verified
whenever it is read, and the index has one over all rows: a list of everything is complete and as
written, or the index reports that it is damaged. Everything else is compared by an audit, in the
background.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from time import time_ns
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.catalog._faults import IndexDamaged
from holdfast.catalog._filter import EVERYTHING, NEWEST, SORTS, Filter, Order, Page, Place, arranged
from holdfast.catalog._index import Index, IndexUpdate, Kept, Row, make_page, shown
from holdfast.catalog.sqlite.rows import (
    Total,
    Writing,
    block_rows,
    fold_crc,
    keep_figures,
    kept_figures,
    key_of,
    read_row,
    read_rows,
    read_whole,
    reprice,
    selection,
    version_of,
)
from holdfast.catalog.sqlite.schema import create_schema, drop_schema, has_schema, read_fact, write_fact
from holdfast.model import SessionMetadata, fold_id
from holdfast.storage.sqlite import transaction

if TYPE_CHECKING:
    from holdfast.catalog._catch_up import Hear
    from holdfast.catalog._recall import RecallCache
    from holdfast.catalog._search import Asked, Hit
    from holdfast.catalog.sqlite.search import Expander
    from holdfast.storage import Store
    from holdfast.storage.sqlite import Connection

_STATUS_ROWS = 200
_COLUMNS = "s.id, s.data, s.crc, s.trace, s.trace_crc"

_NEWEST = selection(EVERYTHING, None)[0]

_encode = msgspec.json.Encoder().encode
_updated_of = attrgetter("updated_at")


class SqliteIndex(Index):
    """Rows in the tables of ``schema.py``."""

    connection: Connection

    def __init__(self, connection: Connection, store: str) -> None:
        """``store`` identifies the store; an index of another one is emptied."""
        self.connection = connection
        self._store = store
        self._memory: RecallCache | None = None
        self._words: Expander | None = None
        if not has_schema(connection) or read_fact(self.connection, "store") != store.encode():
            self.clear()

    def mark(self) -> str:
        """Return the fact of that name, after the mark of the prices by which costs were computed."""
        prices, _, mark = read_fact(self.connection, "mark").decode().partition("\n")
        if prices != self.price_mark:
            # Costs by other prices come from the kept tallies: no log is read for it.
            with transaction(self.connection):
                mark = read_fact(self.connection, "mark").decode().partition("\n")[2]
                total = self._total()
                reprice(self.connection, total, self.prices)
                write_fact(self.connection, "sum", _encode(total))
                self._set_mark(mark)
        return mark

    def get(self, id: str) -> Kept | None:
        """Read it from both tables and verify each row."""
        found = self.connection.execute(
            f"SELECT {_COLUMNS}, s.row, f.state, f.tally, f.crc FROM sessions s"
            " LEFT JOIN folds f USING (row) WHERE s.id = ?",
            (id,),
        ).fetchone()
        if found is None:
            return None
        *columns, number, state, tally, crc = found
        row = read_whole(*columns)
        if not isinstance(state, bytes) or fold_crc(number, state, tally) != crc:
            raise IndexDamaged(f"what is kept of session {id}")
        return Kept(row, state, tally, number, version_of(columns[2], columns[4]))

    def known(self, ids: Collection[str]) -> dict[str, tuple[str, str]]:
        query = f"SELECT {_COLUMNS} FROM sessions s WHERE s.id IN ({', '.join('?' * len(ids))})"
        rows = (read_whole(*columns) for columns in self.connection.execute(query, tuple(ids)))
        return {row.meta.session_id: (row.trace.etag, row.trace.folder) for row in rows}

    def verify(self) -> None:
        for _ in self._all():
            pass

    def folders(self) -> dict[str, str]:
        """Read a table index that contains nothing else."""
        query = "SELECT id, folder FROM sessions INDEXED BY by_folder"
        found: dict[str, str] = dict(self.connection.execute(query))
        if len(found) != self.count():
            raise IndexDamaged("the number of sessions")
        return found

    def write(self, updates: Sequence[IndexUpdate], gone: Collection[str] = (), mark: str | None = None) -> list[str]:
        with transaction(self.connection):
            writing = Writing(self.connection, self._total())
            conflicts = [update.row.meta.session_id for update in updates if not writing.put(update)]
            for id in gone:
                writing.remove(id)
            if updates or gone:
                # The sum over all rows is written with them: a row that vanishes later is noticed.
                writing.forget_figures()
                write_fact(self.connection, "sum", _encode(writing.total))
            if mark is not None and not conflicts:
                self._set_mark(mark)
        return conflicts

    def page(self, wanted: Filter, limit: int | None, after: Place | None, order: Order = NEWEST) -> Page:
        """Use the best table index if there is a limit, or else read every row."""
        if limit is None:
            found = [meta for row in self._all() if wanted.admits(meta := shown(row))]
            return make_page(arranged(found, order, after), None, order)
        if wanted is EVERYTHING and after is None and order is NEWEST:
            rows = self.connection.execute(_NEWEST, (limit + 1,)).fetchall()
            return make_page(self._read_page(rows, wanted, order), limit)
        return make_page(self._matching(wanted, limit, after, order), limit, order)

    def ids(self, prefix: str) -> list[str]:
        folded = fold_id(prefix)
        query = "SELECT id FROM sessions WHERE folded >= ? AND folded < ?"
        return [id for (id,) in self.connection.execute(query, (folded, folded + "\U0010ffff"))]

    def asking(self) -> list[str]:
        return [id for (id,) in self.connection.execute("SELECT id FROM sessions WHERE asks")]

    def count(self) -> int:
        return self._total().count

    def search(self, store: Store, asked: Asked) -> list[Hit]:
        from holdfast.catalog._recall import RecallCache
        from holdfast.catalog.sqlite.search import Expander, search_index

        self._memory = self._memory or RecallCache()
        self._words = self._words or Expander()
        return search_index(self.connection, store, asked, self._memory, self._words)

    def tallies(self, block: int | None = None) -> Iterator[tuple[SessionMetadata, bytes]]:
        query = "SELECT s.id, s.data, s.crc, f.tally FROM sessions s LEFT JOIN folds f USING (row)"
        within: tuple[int, ...] = ()
        if block is not None:
            query, within = f"{query} WHERE s.row >= ? AND s.row < ?", block_rows(block)
        for id, data, crc, tally in self.connection.execute(query, within):
            meta = read_row(id, data, crc)
            if not isinstance(tally, bytes):
                raise IndexDamaged(f"what is kept of session {id}")
            yield meta, tally

    @contextmanager
    def figures(self, variant: str, make: Callable[[int], bytes]) -> Iterator[Iterable[tuple[int, bytes]]]:
        """Read a separate table; missing figures are computed first."""
        keep_figures(self.connection, variant, make)
        with transaction(self.connection, to_write=False):
            yield kept_figures(self.connection, variant, make)

    def _set_mark(self, mark: str) -> None:
        write_fact(self.connection, "mark", f"{self.price_mark}\n{mark}".encode())

    def is_worn(self) -> bool:
        from holdfast.catalog.sqlite.search import is_worn

        return is_worn(self.connection)

    def audited(self) -> int:
        return int(read_fact(self.connection, "audited"))

    def note_audit(self, time_ms: int) -> None:
        with transaction(self.connection):
            write_fact(self.connection, "audited", b"%d" % time_ms)

    def audit(self, hear: Hear | None) -> Iterator[None]:
        """Begin with the database's own checks."""
        from holdfast.catalog.sqlite.audit import audit_tables

        return audit_tables(self.connection, hear)

    def clear(self) -> None:
        """Drop all tables and create them again."""
        with transaction(self.connection):
            drop_schema(self.connection)
            create_schema(self.connection)
            write_fact(self.connection, "store", self._store.encode())
            write_fact(self.connection, "sum", _encode(Total()))
            # For readers that do not load the class: rows leave out members that equal this.
            write_fact(self.connection, "row", _encode(SessionMetadata(session_id="")))
            write_fact(self.connection, "audited", b"%d" % (time_ns() // 1_000_000))
            self._set_mark("")

    def close(self) -> None:
        self.connection.close()

    # -- reading -------------------------------------------------------------------------------
    def _read_page(self, rows: list[Any], wanted: Filter, order: Order = NEWEST) -> list[SessionMetadata]:
        """Return the sessions of these rows, all verified and decoded with one call each."""
        if not rows:
            return []
        keys, ids, data, crcs, settled = zip(*rows, strict=True)
        found = read_rows(ids, data, crcs)
        if order.name != "updated" or tuple(map(_updated_of, found)) != keys:
            expected = map(SORTS[order.name], found)
            # The rows must give the keys that they were found by; titles are kept as bytes.
            if [key_of(key) if isinstance(key, str) else key for key in expected] != [*keys]:
                raise IndexDamaged("the order of sessions")
        if sorted(keys, reverse=order.descending) != [*keys]:
            raise IndexDamaged("the order of sessions")
        if not all(settled):
            found = [meta if is_settled else self._shown(meta) for meta, is_settled in zip(found, settled, strict=True)]
        return found if wanted is EVERYTHING else list(filter(wanted.admits, found))

    def _shown(self, meta: SessionMetadata) -> SessionMetadata:
        query = f"SELECT {_COLUMNS} FROM sessions s WHERE s.id = ?"
        row = self.connection.execute(query, (meta.session_id,)).fetchone()
        return meta if row is None else shown(read_whole(*row))

    def _matching(self, wanted: Filter, limit: int, after: Place | None, order: Order) -> list[SessionMetadata]:
        """Return matching rows, in several steps if matches have to be checked one by one."""
        tags = self._rarest_first(wanted.tags)
        step = limit + 1 if wanted.status is None else max(limit + 1, _STATUS_ROWS)
        found: list[SessionMetadata] = []
        while True:
            query, values = selection(wanted, after, tags, order)
            rows = self.connection.execute(query, (*values, step)).fetchall()
            found += self._read_page(rows, wanted, order)
            if len(found) > limit or len(rows) < step:
                return found[: limit + 1]
            key = rows[-1][0]
            after = (key.decode() if isinstance(key, bytes) else key, rows[-1][1])

    def _rarest_first(self, tags: Collection[str]) -> list[str]:
        """Return the tags, the rarest first, so that few rows are checked for the other tags."""
        if len(tags) < 2:
            return list(tags)
        query = "SELECT count(*) FROM (SELECT 1 FROM labels WHERE tag = ? LIMIT 10000)"
        counts = {tag: self.connection.execute(query, (key_of(tag),)).fetchone()[0] for tag in tags}
        return sorted(tags, key=lambda tag: (counts[tag], tag))

    def _all(self) -> Iterator[Row]:
        """Yield every row. Raises IndexDamaged at the end if some are missing."""
        total = Total()
        # Not by a table index: damage in one must not hide a row.
        for columns in self.connection.execute(f"SELECT {_COLUMNS} FROM sessions s NOT INDEXED"):
            yield read_whole(*columns)
            total.count += 1
            total.crc ^= version_of(columns[2], columns[4])
        if total != self._total():
            raise IndexDamaged("the number of sessions")

    def _total(self) -> Total:
        return msgspec.json.decode(read_fact(self.connection, "sum"), type=Total)
