"""Search in the tables of PostgreSQL, and the query for one page of sessions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.catalog._filter import NEWEST, Filter, Order, Place, Statement, clamped, in_order
from holdfast.catalog._query import Query
from holdfast.catalog._search import Asked, Candidate
from holdfast.catalog.postgres.rows import GIANT, key_of, match_of
from holdfast.model import SessionMetadata

_EXPANSIONS_MAX = 1000
_EXPANSIONS_CHARS_MAX = 100_000
_LIKE = re.compile(r"[\\%_]")

Fetch = Callable[..., list[Any]]  # returns the rows of a statement with its values
Read = Callable[[Sequence[str]], dict[str, SessionMetadata]]  # returns sessions as a list shows them, by id


class PostgresStatement(Statement):
    """A statement with numbered values and short keys."""

    def value(self, value: Any) -> str:
        """Return the placeholder of a value."""
        self.values.append(value)
        return f"${len(self.values)}"

    def key(self, text: str) -> bytes:
        """Return a text in the form of the columns."""
        return key_of(text)

    def place(self, key: int | str, id: str) -> tuple[Any, str]:
        """Return the position of a row; a sort key is not a column key here, and a cursor may contain any text."""
        return _stored(key) if isinstance(key, str) else clamped(key), _stored(id)


def select_sessions(
    wanted: Filter, after: Place | None, statement: PostgresStatement, columns: str, order: Order = NEWEST
) -> str:
    """Return the query for at least the matching sessions, in order; callers check whether there is a writer."""
    tags = sorted(wanted.tags)
    source, timed = "catalog_sessions s", "s"
    if tags:
        source, timed = "catalog_labels l JOIN catalog_sessions s ON s.id = l.id", "l"
        statement.demand("l.tag = {}", key_of(tags[0]))
        if not wanted.auto_tags:
            statement.demand("NOT l.auto")
    own = "" if wanted.auto_tags else " AND NOT o.auto"
    for tag in tags[1:]:
        other = f"SELECT 1 FROM catalog_labels o WHERE o.tag = {{}} AND o.updated = s.updated AND o.id = s.id{own}"
        statement.demand(f"EXISTS ({other})", key_of(tag))
    statement.demand_columns(wanted, "s.")
    for word in wanted.text:
        escaped = _LIKE.sub(r"\\\g<0>", word)
        statement.demand("s.text LIKE {}", f"%{escaped}%")
    statement.demand_times(f"{timed}.updated", wanted.since, wanted.until)
    table = f"{timed if order.name == 'updated' else 's'}."
    statement.demand_place(after, order, table)
    return f"SELECT {columns} FROM {source}{statement.where}{in_order(order, table)}"


class SearchTables:
    """One search. Sessions are numbered for its duration."""

    def __init__(self, fetch: Fetch, read: Read, asked: Asked) -> None:
        self._fetch = fetch
        self._read = read
        self._asked = asked
        self._numbers: dict[str, int] = {}
        self._ids: list[str] = []
        self._known: dict[str, SessionMetadata] = {}

    def meta(self, number: int) -> SessionMetadata | None:
        """Return a session as a list shows it; None if the index no longer has it."""
        return self._known.get(self._ids[number])

    def ask(self, query: Query) -> Callable[[Any, int], tuple[list[Candidate], Any]]:
        """Return a function that gives the candidates, the newest first."""
        match = match_of(query, self._expand)

        def page(last: tuple[Any, ...] | None, rows: int) -> tuple[list[Candidate], Any]:
            found = self._page(match, rows, last)
            place = (found[-1]["time"], found[-1]["session"], found[-1]["number"]) if found else None
            return self._numbered(found), place

        return page

    def _page(self, match: str | None, rows: int, below: tuple[Any, ...] | None) -> list[Any]:
        statement = PostgresStatement()
        rank = "0.0"
        if match is not None:
            place = statement.value(match)
            statement.demand(f"s.words @@ {place}::text::tsquery")
            rank = f"ts_rank(p.words, {place}::text::tsquery, 1)"
        asked = self._asked
        if asked.session_id is not None:
            statement.demand("s.session = {}", asked.session_id)
        if asked.sessions != Filter():
            # Numbered together with the statement around it.
            chosen = select_sessions(asked.sessions, None, PostgresStatement(statement.values), "s.id")
            statement.include(f"s.session IN (SELECT id FROM ({chosen}) chosen)")
        asked.demand(statement, str, "s.name", key_of)
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

    def _numbered(self, page: list[Any]) -> list[Candidate]:
        new = sorted({row["session"] for row in page} - self._known.keys())
        self._known.update(self._read(new) if new else {})
        found = []
        for session, _, seq, last, place, time, role, name, rank in page:
            if session not in self._numbers:
                self._numbers[session] = len(self._ids)
                self._ids.append(session)
            # A name that is too long to be stored is unknown.
            tool = None if name is None or name[:1] == b"\xff" else name.decode("utf-8", "surrogatepass")
            found.append(Candidate(0, self._numbers[session], seq, last, place, time, role, tool, -float(rank)))
        return found

    def _expand(self, word: str, open_end: bool) -> list[str]:  # noqa: FBT001 - as it is called
        """Return the words of the index that contain ``word``, or end with it."""
        # No word has a special character of patterns.
        pattern = f"%{word}%" if open_end else f"%{word}"
        rows = self._fetch("SELECT word FROM catalog_words WHERE word LIKE $1 LIMIT $2", pattern, _EXPANSIONS_MAX)
        found, chars = [GIANT], 0
        for row in rows:
            chars += len(row["word"])
            if chars > _EXPANSIONS_CHARS_MAX:
                break
            found.append(row["word"])
        return found


def _stored(text: str) -> str:
    """Return a text that can be in a statement; a cursor may hold any."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")
