"""The index in the database of a PostgreSQL store, and its tables: one for all machines.

Every query brings it up to date, and what one machine has read no other has to read. Two that
write the same session at once notice by the row's version, like two processes with one file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import UUID

from holdfast.catalog._faults import IndexDamaged, IndexMoved, IndexRefused
from holdfast.catalog._filter import NEWEST, Filter, Order, Page, Place
from holdfast.catalog._index import PREFIX, Index, IndexUpdate, Kept, Row, make_page, shown
from holdfast.catalog._search import Asked, Hit, search
from holdfast.catalog.postgres.rows import fold_crc, make_ready, put, remove, whole_row
from holdfast.catalog.postgres.search import PostgresStatement, SearchTables, select_sessions
from holdfast.catalog.sqlite.rows import read_row, version_of
from holdfast.errors import TooNew
from holdfast.model import SessionMetadata, fold_id
from holdfast.storage.postgres import Migrations

if TYPE_CHECKING:
    from asyncpg import Connection

    from holdfast.catalog._catch_up import Hear
    from holdfast.storage import Store
    from holdfast.storage.postgres import ServerLink

T = TypeVar("T")
_ROWS_AT_ONCE = 2000
_STATUS_ROWS = 200
_WORDS_KEPT_MAX = 500_000
_THERE = "SELECT n.key FROM names n JOIN heads h USING (id) WHERE n.key = ANY($1::text[]) AND h.generation > 0"
_TALLIES = (
    "SELECT id, data, s.crc, tally FROM catalog_sessions s LEFT JOIN catalog_folds USING (id)"
    " WHERE id > $1 ORDER BY id LIMIT $2"
)
_LISTED = "s.id, s.data, s.crc, s.trace, s.trace_crc, s.updated, s.priced"

# Tables or columns that are missing, or that cannot be read.
_DAMAGED = ("42P01", "42703", "42804", "42883", "XX")
# Errors of a missing right or of missing space: no privilege, a read-only server, a full disk.
_REFUSED = ("42501", "25006", "53100", "53200", "53400", "54", "0A")
_GRANT = "grant the role CREATE on the schema, or let it own the tables catalog_*"
_NO_TRIGRAMS = (
    "without the extension pg_trgm, parts of words are found by looking at every word;"
    " CREATE EXTENSION pg_trgm lets them be found faster"
)


class _Failed(NamedTuple):
    """The error of a statement, carried past the code that would turn it into a store's error."""

    error: Exception
    cause: BaseException | None


class PostgresIndex(Index):
    """Rows in the tables of ``schema.py``. The connection stays the store's."""

    def __init__(self, link: ServerLink) -> None:
        """Create the tables, if need be. Raises IndexRefused if that is not permitted."""
        self._link = link
        self._generation: UUID | None = None
        self._words: set[str] = set()
        self.place = f"PostgreSQL, schema {link.schema}"
        try:
            has_trigrams = self._prepare()
        except IndexDamaged:
            has_trigrams = self._make_anew()
        self.note = None if has_trigrams else _NO_TRIGRAMS

    def mark(self) -> str:
        """Return the mark that any machine has set."""
        state = self._state()
        if state["generation"] != self._generation:
            self._words.clear()
            self._generation = state["generation"]
        return str(state["mark"])

    def check_unmoved(self) -> None:
        """Compare the generation, which changes when everything is removed."""
        if self._state()["generation"] != self._generation:
            raise IndexMoved("others make the catalogue anew")

    def get(self, id: str) -> Kept | None:
        """Read it from both tables and verify each row."""
        rows = self._fetch(
            f"SELECT {_LISTED}, f.state, f.tally, f.listener, f.crc AS fold_crc"
            " FROM catalog_sessions s LEFT JOIN catalog_folds f USING (id) WHERE s.id = $1",
            id,
        )
        if not rows:
            return None
        [found] = rows
        row = whole_row(found)
        if found["state"] is None or found["fold_crc"] != fold_crc(found["state"], found["tally"], found["listener"]):
            raise IndexDamaged(f"what is kept of session {id}")
        version = version_of(found["crc"], found["trace_crc"])
        if found["priced"] != self.price_mark:
            row = Row(self._repriced(row.meta, found["tally"]), row.trace)
        return Kept(row, found["state"], found["tally"], version=version)

    def known(self, ids: Collection[str]) -> dict[str, tuple[str, str]]:
        """Read the columns, which are verified when a row is read."""
        return {id: (row["etag"], row["folder"]) for id, row in self._by_id("etag, folder", "sessions", ids).items()}

    def folders(self) -> dict[str, str]:
        return {row["id"]: row["folder"] for row in self._fetch("SELECT id, folder FROM catalog_sessions")}

    def write(self, updates: Sequence[IndexUpdate], gone: Collection[str] = (), mark: str | None = None) -> list[str]:
        """Write in one transaction; the words are prepared before it."""
        known = [update.row.meta.session_id for update in updates if update.version]
        changes = make_ready(updates, self._by_id("listener, said", "folds", known), self.price_mark)
        unknown = {word for change in changes for word in change.words} - self._words

        async def work(connection: Connection) -> list[str]:
            async with connection.transaction():
                # A process that clears the index waits for us, or we for it; marks do not block it.
                state = await connection.fetchrow("SELECT generation FROM catalog_state FOR KEY SHARE")
                if state is None:
                    raise IndexDamaged("the state of the index")
                if self._generation not in (None, state["generation"]):
                    raise IndexMoved("others make the catalogue anew")
                conflicts = await put(connection, changes, unknown) if changes else []
                if gone:
                    # Only those that another machine has not restored and read since.
                    back = await connection.fetch(_THERE, [PREFIX + id for id in gone])
                    await remove(connection, {*gone} - {row["key"].removeprefix(PREFIX) for row in back})
                if mark is not None and not conflicts:
                    await connection.execute("UPDATE catalog_state SET mark = $1", mark)
            return conflicts

        conflicts = self._run(work)
        if not conflicts and len(self._words) < _WORDS_KEPT_MAX:
            self._words |= unknown
        return conflicts

    def page(self, wanted: Filter, limit: int | None, after: Place | None, order: Order = NEWEST) -> Page:
        """Use the best table index; in several steps if processes have to be checked."""
        if limit is None:
            found = [meta for _, meta in self._matching(wanted, after, _ROWS_AT_ONCE, order)]
            return make_page(found, None, order)
        rows = limit + 1 if wanted.status is None else max(limit + 1, _STATUS_ROWS)
        placed: list[tuple[Place, SessionMetadata]] = []
        for one in self._matching(wanted, after, rows, order):
            placed.append(one)
            if len(placed) > limit:
                break
        page = make_page([meta for _, meta in placed], limit, order)
        # Another machine may have computed the place by cost.
        page.end = placed[len(page) - 1][0] if page else None
        return page

    def ids(self, prefix: str) -> list[str]:
        folded = fold_id(prefix).replace("\0", "\x01")
        rows = self._fetch(
            "SELECT id FROM catalog_sessions WHERE folded >= $1 AND folded < $2", folded, folded + "\U0010ffff"
        )
        return [row["id"] for row in rows]

    def asking(self) -> list[str]:
        return [row["id"] for row in self._fetch("SELECT id FROM catalog_sessions WHERE asks")]

    def count(self) -> int:
        return int(self._fetch("SELECT count(*) AS count FROM catalog_sessions")[0]["count"])

    def search(self, store: Store, asked: Asked) -> list[Hit]:
        """Search by tsvector, and by the table of words for parts of words."""
        tables = SearchTables(self._fetch, self._metas, asked)
        return search(store, asked, tables.ask, tables.meta)

    def tallies(self, block: int | None = None) -> Iterator[tuple[SessionMetadata, bytes]]:
        last = ""
        while True:
            rows = self._fetch(_TALLIES, last, _ROWS_AT_ONCE)
            for row in rows:
                if row["tally"] is None:
                    raise IndexDamaged(f"what is kept of session {row['id']}")
                yield read_row(row["id"], row["data"], row["crc"]), row["tally"]
            if len(rows) < _ROWS_AT_ONCE:
                return
            last = rows[-1]["id"]

    def audited(self) -> int:
        """Return the time of the last audit by any machine."""
        return int(self._state()["audited"])

    def note_audit(self, time_ms: int) -> None:
        self._fetch("UPDATE catalog_state SET audited = $1", time_ms)

    def audit(self, hear: Hear | None) -> Iterator[None]:
        from holdfast.catalog.postgres.rows import audit_tables

        return audit_tables(self._fetch, hear)

    def clear(self) -> None:
        """Empty all tables; if that fails, create them again."""
        try:
            self._run(empty_tables)
        except IndexDamaged:
            self._make_anew()

    def close(self) -> None:
        """Do nothing: the index has no connection of its own."""

    def _prepare(self) -> bool:
        return self._run(lambda connection: prepare(connection, self._link.schema))

    def _make_anew(self) -> bool:
        self._run(lambda connection: drop_tables(connection, self._link.schema))
        return self._prepare()

    # -- reading -------------------------------------------------------------------------------
    def _matching(
        self, wanted: Filter, after: Place | None, rows: int, order: Order
    ) -> Iterator[tuple[Place, SessionMetadata]]:
        """Yield the matching sessions and their places, read in steps of a number of rows."""
        columns = f"{_LISTED}, s.{order.name} AS place"
        while True:
            statement = PostgresStatement()
            query = select_sessions(wanted, after, statement, columns, order)
            found = self._fetch(f"{query} LIMIT {rows}", *statement.values)
            metas = [shown(whole_row(row)) for row in found]
            # The tallies of sessions whose costs a machine with other prices computed.
            mine = self.price_mark
            ids = [
                meta.session_id
                for row, meta in zip(found, metas, strict=True)
                if row["priced"] != mine and (meta.total_tokens or meta.model or meta.cost is not None)
            ]
            tallies = {id: row["tally"] for id, row in self._by_id("tally", "folds", ids).items()}
            for row, meta in zip(found, metas, strict=True):
                if wanted.admits(meta):
                    tally = tallies.get(meta.session_id)
                    yield (row["place"], row["id"]), meta if tally is None else self._repriced(meta, tally)
            if len(found) < rows:
                return
            after = (found[-1]["place"], found[-1]["id"])

    def _by_id(self, columns: str, table: str, ids: Collection[str]) -> dict[str, Any]:
        query = f"SELECT id, {columns} FROM catalog_{table} WHERE id = ANY($1::text[])"
        return {row["id"]: row for row in self._fetch(query, list(ids))} if ids else {}

    def _metas(self, ids: Collection[str]) -> dict[str, SessionMetadata]:
        return {id: read_row(*row) for id, row in self._by_id("data, crc", "sessions", ids).items()}

    def _repriced(self, meta: SessionMetadata, tally: bytes) -> SessionMetadata:
        """Return the row with the cost by the prices here: those of another machine may differ."""
        from holdfast.catalog._prices import repriced

        return repriced(meta, tally, self.prices) if tally else meta

    def _state(self) -> Any:
        rows = self._fetch("SELECT generation, mark, audited FROM catalog_state")
        if len(rows) != 1:
            raise IndexDamaged("the state of the index")
        return rows[0]

    # -- the connection ------------------------------------------------------------------------
    def _fetch(self, query: str, *values: Any) -> list[Any]:
        async def work(connection: Connection) -> list[Any]:
            rows: list[Any] = await connection.fetch(query, *values)
            return rows

        return self._run(work)

    def _run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Return the result of ``work``.

        Errors of the index itself become its faults; a lost connection stays the store's.
        """

        async def careful(connection: Connection) -> T | _Failed:
            try:
                return await work(connection)
            except (IndexDamaged, IndexMoved) as error:
                return _Failed(error, error.__cause__)
            except TooNew as error:
                return _Failed(IndexRefused("the catalogue in the database was made by a newer version"), error)
            except Exception as error:
                state = str(getattr(error, "sqlstate", None) or "")
                if state.startswith(_REFUSED):
                    remedy = f"; {_GRANT}" if state.startswith("42501") else ""
                    return _Failed(IndexRefused(f"PostgreSQL: {error}{remedy}"), error)
                if state.startswith(_DAMAGED):
                    return _Failed(IndexDamaged(f"PostgreSQL: {error}"), error)
                raise

        found = self._link.run(careful)
        if isinstance(found, _Failed):
            raise found.error from found.cause
        return found


# The tables of an index in PostgreSQL.
# They are beside the tables of the store, in the same schema. All rows of one session have its id, so that they can be
# partitioned by it; only the words of all sessions are in a table of their own.
TABLES = ("sessions", "labels", "folds", "said", "words")

MIGRATIONS = Migrations("holdfast.catalog.postgres", "catalog_state", 0x486F6C65)
"""A step that changes the meaning of a row empties the tables and sets another generation."""

# The extension is shared by the whole database, in whichever schema it was put.
_EXTENSION = """
SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
WHERE e.extname = 'pg_trgm'
"""
_INSIDE = "catalog_words_inside"


async def prepare(connection: Connection, schema: str) -> bool:
    """Create the tables unless they exist, while others wait; return whether pg_trgm is used. Raises TooNew."""
    state = await _state(connection, schema)
    if state is not None and state["version"] == len(MIGRATIONS.steps) and state["ready"]:
        return bool(state["inside"])
    await MIGRATIONS.run(connection, schema)
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATIONS.lock)
        await connection.execute(f"SET LOCAL search_path TO {schema}")
        # An index for parts of words, if the extension for it is installed or available.
        for place in ("public", schema):
            if await connection.fetchval(_EXTENSION) is None:
                with contextlib.suppress(Exception):
                    async with connection.transaction():
                        await connection.execute(f"CREATE EXTENSION pg_trgm SCHEMA {place}")
        home = await connection.fetchval(_EXTENSION)
        if home is None:
            return False
        kind = '"{}".gin_trgm_ops'.format(home.replace('"', '""'))
        with contextlib.suppress(Exception):
            async with connection.transaction():
                for name, table, column in (("catalog_by_text", "sessions", "text"), (_INSIDE, "words", "word")):
                    made = f"CREATE INDEX IF NOT EXISTS {name} ON catalog_{table}"
                    await connection.execute(f"{made} USING gin ({column} {kind})")
                return True
        return False


async def empty_tables(connection: Connection) -> None:
    """Remove all rows; active users notice by the generation."""
    async with connection.transaction():
        await connection.execute("SELECT 1 FROM catalog_state FOR UPDATE")
        done = await connection.execute("UPDATE catalog_state SET generation = gen_random_uuid(), mark = ''")
        if done == "UPDATE 0":
            insert = "INSERT INTO catalog_state (version, generation, mark) VALUES ($1, gen_random_uuid(), '')"
            await connection.execute(insert, len(MIGRATIONS.steps))
        names = [f"catalog_{one}" for one in TABLES]
        may_truncate = await connection.fetchval(
            "SELECT bool_and(has_table_privilege(name, 'TRUNCATE')) FROM unnest($1::text[]) name", names
        )
        if may_truncate:
            await connection.execute(f"TRUNCATE {', '.join(names)}")
            return
        for name in names:
            await connection.execute(f"DELETE FROM {name}")


async def drop_tables(connection: Connection, schema: str) -> None:
    """Remove every existing table."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATIONS.lock)
        names = ", ".join(f"{schema}.catalog_{one}" for one in ("state", *TABLES))
        await connection.execute(f"DROP TABLE IF EXISTS {names}")


async def _state(connection: Connection, schema: str) -> Any:
    """Return the version, and whether everything expected exists; None if there is nothing."""
    # The names of schema and tables are ours, and were checked.
    query = (
        f"SELECT version, to_regclass('{schema}.{_INSIDE}') IS NOT NULL AS inside,"
        f" to_regclass('{schema}.{_INSIDE}') IS NOT NULL OR NOT EXISTS ({_EXTENSION}) AS ready"
        f" FROM {schema}.catalog_state"
    )
    with contextlib.suppress(Exception):
        async with connection.transaction():
            return await connection.fetchrow(query)
    return None
