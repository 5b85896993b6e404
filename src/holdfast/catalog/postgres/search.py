"""Finding events in the tables of PostgreSQL, and the question for one page of sessions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.catalog._filter import NEWEST, Filter, Order, Place, Statement, clamped, in_order
from holdfast.catalog._query import Query, read_query
from holdfast.catalog._recall import Recaller
from holdfast.catalog._search import Asked, Candidate, Hit, make_hit, search
from holdfast.catalog.postgres.rows import GIANT, key_of, match_of
from holdfast.model import SessionMetadata

if TYPE_CHECKING:
    from holdfast.storage import Store

_EXPANSIONS_MAX = 1000
_EXPANSIONS_CHARS_MAX = 100_000
_PREFIX = "sessions/"
_LIKE = re.compile(r"[\\%_]")

Fetch = Callable[..., list[Any]]
"""The rows of a statement with its values."""
Read = Callable[[Sequence[str]], dict[str, SessionMetadata]]
"""What a list shows of sessions, by id."""


class PostgresStatement(Statement):
    """A statement whose values are numbered, and whose keys are short whatever they are of."""

    def value(self, value: Any) -> str:
        """Where a value is to stand."""
        self.values.append(value)
        return f"${len(self.values)}"

    def key(self, text: str) -> bytes:
        """A text as columns are compared with."""
        return key_of(text)

    def demand_place(self, after: Place | None, order: Order, table: str) -> None:
        """Only rows behind a place; what a list is sorted by is no key here."""
        if after is not None:
            key, sign = after[0], "<" if order.descending else ">"
            key = _stored(key) if isinstance(key, str) else clamped(key)
            condition = f"({table}{order.name}, {table}id) {sign} ({{}}, {{}})"
            self.demand(condition, key, _stored(after[1]))


def select_sessions(
    wanted: Filter, after: Place | None, statement: PostgresStatement, columns: str, order: Order = NEWEST
) -> str:
    """The question for at least the sessions that fit, in order.

    Whether a writer lives is not known to the database: that is for the caller to look at.
    """
    tags = sorted(wanted.tags)
    source, timed = "catalog_sessions s", "s"
    if tags:
        source, timed = "catalog_labels l JOIN catalog_sessions s ON s.id = l.id", "l"
        statement.demand("l.tag = {}", key_of(tags[0]))
        if not wanted.auto_tags:
            statement.demand("NOT l.auto")
    own = "" if wanted.auto_tags else " AND NOT o.auto"
    for tag in tags[1:]:
        statement.demand(
            "EXISTS (SELECT 1 FROM catalog_labels o"
            f" WHERE o.tag = {{}} AND o.updated = s.updated AND o.id = s.id{own})",
            key_of(tag),
        )
    statement.demand_columns(wanted, "s.")
    for word in wanted.text:
        statement.demand("s.text LIKE {}", f"%{_LIKE.sub(_escaped, word)}%")
    statement.demand_times(f"{timed}.updated", wanted.since, wanted.until)
    table = f"{timed if order.name == 'updated' else 's'}."
    statement.demand_place(after, order, table)
    return f"SELECT {columns} FROM {source}{statement.where}{in_order(order, table)}"


def _escaped(sign: re.Match[str]) -> str:
    return f"\\{sign[0]}"


def search_tables(fetch: Fetch, read: Read, store: Store, asked: Asked) -> list[Hit]:
    """What fits, best first; each hit is verified against its log."""
    tables = _Tables(fetch, read, asked)
    query = read_query(asked.query)
    recaller = Recaller(store, tables.key, query.raw_hint)
    finds = search(tables.ask, query, recaller, asked.limit)
    return [make_hit(find, tables.meta(find.session)) for find in finds]


class _Tables:
    """One search. Sessions have numbers for as long as it lasts."""

    def __init__(self, fetch: Fetch, read: Read, asked: Asked) -> None:
        self._fetch = fetch
        self._read = read
        self._asked = asked
        self._numbers: dict[str, int] = {}
        self._ids: list[str] = []
        self._known: dict[str, SessionMetadata] = {}

    def key(self, number: int) -> str | None:
        """The session's key in the store; None if the index knows it no more."""
        meta = self.meta(number)
        return None if meta is None else _PREFIX + meta.session_id

    def meta(self, number: int) -> SessionMetadata | None:
        """What a list shows of a session."""
        return self._known.get(self._ids[number])

    def ask(self, query: Query) -> Callable[[Any, int], tuple[list[Candidate], Any]]:
        """What gives the rows that may fit, the newest first."""
        match = match_of(query, self._expand)

        def page(last: tuple[Any, ...] | None, rows: int) -> tuple[list[Candidate], Any]:
            found = self._page(match, rows, last)
            end = found[-1] if found else None
            place = None if end is None else (end["time"], end["session"], end["number"])
            return self._numbered(found), place

        return page

    def _page(self, match: str | None, rows: int, below: tuple[Any, ...] | None) -> list[Any]:
        statement = PostgresStatement()
        rank = "0.0"
        if match is not None:
            place = statement.value(match)
            statement.demand(f"s.words @@ {place}::text::tsquery")
            rank = f"ts_rank(p.words, {place}::text::tsquery, 1)"
        self._demand_scope(statement)
        if below is not None:
            statement.demand("(s.time, s.session, s.number) < ({}, {}, {})", *below)
        # The rank is computed for the rows of the page only.
        return self._fetch(
            "SELECT p.session, p.number, p.seq, p.last, p.place, p.time, p.role, p.name,"
            f" {rank} AS rank FROM (SELECT s.* FROM catalog_said s{statement.where}"
            f" ORDER BY s.time DESC, s.session DESC, s.number DESC LIMIT {rows}) p"
            " ORDER BY p.time DESC, p.session DESC, p.number DESC",
            *statement.values,
        )

    def _demand_scope(self, statement: PostgresStatement) -> None:
        asked = self._asked
        if asked.session_id is not None:
            statement.demand("s.session = {}", asked.session_id)
        if asked.sessions != Filter():
            # Of one numbering with the statement around it.
            inner = PostgresStatement(statement.values)
            chosen = select_sessions(asked.sessions, None, inner, "s.id")
            statement.include(f"s.session IN (SELECT id FROM ({chosen}) chosen)")
        asked.demand(statement, str, "s.name", key_of)

    def _numbered(self, page: list[Any]) -> list[Candidate]:
        new = sorted({row["session"] for row in page} - self._known.keys())
        self._known.update(self._read(new) if new else {})
        return [
            Candidate(
                0,
                self._number(row["session"]),
                row["seq"],
                row["last"],
                row["place"],
                row["time"],
                row["role"],
                _shown_name(row["name"]),
                -float(row["rank"]),
            )
            for row in page
        ]

    def _number(self, id: str) -> int:
        if id not in self._numbers:
            self._numbers[id] = len(self._ids)
            self._ids.append(id)
        return self._numbers[id]

    def _expand(self, word: str, open_end: bool) -> list[str]:  # noqa: FBT001 - as it is called
        """The words of the index that hold ``word``, or end with it."""
        # No word has a character that means something in a pattern.
        rows = self._fetch(
            "SELECT word FROM catalog_words WHERE word LIKE $1 LIMIT $2",
            f"%{word}%" if open_end else f"%{word}",
            _EXPANSIONS_MAX,
        )
        found, chars = [GIANT], 0
        for row in rows:
            chars += len(row["word"])
            if chars > _EXPANSIONS_CHARS_MAX:
                break
            found.append(row["word"])
        return found


def _shown_name(name: bytes | None) -> str | None:
    """The tool; None for one whose name is too long to be kept."""
    return None if name is None or name[:1] == b"\xff" else name.decode("utf-8", "surrogatepass")


def _stored(text: str) -> str:
    """A text that can stand in a statement; a cursor may hold any."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")
