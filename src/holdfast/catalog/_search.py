"""Finding events by what was said in them: from the index in pages, from the log in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.catalog._expanding import Expander
from holdfast.catalog._folding import original_spans
from holdfast.catalog._index import IndexDamaged
from holdfast.catalog._recall import Recalled, Recaller
from holdfast.catalog._search_tables import ROLE_NUMBERS, tool_number
from holdfast.catalog._snippets import Snippet, make_snippet
from holdfast.catalog._words import ROLES

if TYPE_CHECKING:
    from holdfast.catalog._query import Query
    from holdfast.storage._sqlite import Connection

__all__ = ["EXAMINED_MAX", "Find", "Found", "Pages", "Scope", "search", "search_pages"]

EXAMINED_MAX = 20_000
"""So many events are looked at for one query, the newest first, unless all hits are asked for."""

_PAGE_ROWS = 500
_MONTH_MS = 30 * 24 * 3600 * 1000
# How much better a hit of today is than the same of long ago.
_RECENCY = 0.25
_MONTHS_MAX = 1000.0
_COLUMNS = "s.id, s.session, s.seq, s.last, s.place, s.time, s.role, s.name, s.tool"


class Found(NamedTuple):
    """One row of the index that may fit."""

    id: int
    session: int
    seq: int
    last: int | None
    place: int
    time: int
    role: str
    name: str | None
    rank: float = 0.0


class Find(NamedTuple):
    """One event that fits, by the word of its log. ``session`` is the row of its session."""

    session: int
    seq: int
    role: str
    name: str | None
    timestamp: int
    snippet: Snippet
    score: float


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Among which events to look; times are Unix milliseconds.

    ``sessions`` is a condition in SQL on the column ``session``, with its values.
    """

    sessions: str | None = None
    values: tuple[Any, ...] = ()
    since: int | None = None
    until: int | None = None
    roles: tuple[str, ...] = ()
    tool: str | None = None

    def condition(self) -> tuple[str, list[Any]]:
        """The same as SQL and values."""
        parts: list[str] = []
        values: list[Any] = []
        if self.sessions is not None:
            parts.append(f"s.{self.sessions}")
            values += self.values
        for name, value in (("s.time >= ?", self.since), ("s.time <= ?", self.until)):
            if value is not None:
                parts.append(name)
                values.append(value)
        if self.roles:
            parts.append(f"s.role IN ({', '.join('?' * len(self.roles))})")
            values += [ROLE_NUMBERS[role] for role in self.roles]
        if self.tool is not None:
            parts.append("s.role IN (?, ?) AND s.tool = ?")
            values += [ROLE_NUMBERS["tool_call"], ROLE_NUMBERS["tool_result"]]
            values.append(tool_number(self.tool))
        return "".join(f" AND {part}" for part in parts), values


def search(
    connection: Connection,
    query: Query,
    scope: Scope,
    recaller: Recaller,
    limit: int | None,
    *,
    expander: Expander | None = None,
) -> list[Find]:
    """The events that fit, best first: by how well, newer ones slightly preferred.

    Where no event has the words, they are looked for inside of words as well.
    """
    words = Expander() if expander is None else expander

    def expand(word: str, open_end: bool) -> list[str]:  # noqa: FBT001 - as a query asks
        return words.expand(connection, word, open_end=open_end)

    def pages(wanted: Query) -> Iterator[list[Found]]:
        match = wanted.index_match(expand)
        return _pages(connection, match, scope, limit)

    return search_pages(pages, query, recaller, limit)


Pages = Callable[["Query"], Iterator[list[Found]]]
"""The rows of an index that may fit a query, in pages."""


def search_pages(pages: Pages, query: Query, recaller: Recaller, limit: int | None) -> list[Find]:
    """The same, from whatever index knows the rows that may fit."""
    if not query or limit == 0:
        return []
    finds = _search(pages, query, recaller, limit)
    wider = None if finds else query.widened()
    return finds if wider is None else _search(pages, wider, recaller, limit)


def _search(pages: Pages, query: Query, recaller: Recaller, limit: int | None) -> list[Find]:
    finds: list[Find] = []
    newest: int | None = None
    for page in pages(query):
        newest = max([row.time for row in page]) if newest is None else newest
        scored = _best_first(page, newest)
        recalled = recaller.each([row for _, row in scored], limit)
        for score, row in scored:
            find = _judge(row, score, query, next(recalled))
            if find is not None:
                finds.append(find)
                if limit is not None and len(finds) >= limit:
                    break
        if limit is not None and len(finds) >= limit:
            break
    finds.sort(key=lambda find: (-find.score, -find.timestamp, find.session, -find.seq))
    return finds


def _best_first(page: list[Found], newest: int) -> list[tuple[float, Found]]:
    """The rows with how well each fits, 0 if only its time counts; of the same, newer ones first.

    A page has hundreds of rows, so nothing is called for each of them that can be said in place.
    """
    fresh = [2.0 ** -min(max(0, newest - row.time) / _MONTH_MS, _MONTHS_MAX) for row in page]
    ranked = [
        (row.rank * (1 + _RECENCY * freshness), -row.time, -row.id, number)
        for number, (row, freshness) in enumerate(zip(page, fresh, strict=True))
    ]
    ranked.sort()
    return [(-rank, page[number]) for rank, _, _, number in ranked]


def _judge(row: Found, score: float, query: Query, recalled: Recalled | None) -> Find | None:
    """The row as its log has it; None if it does not fit after all."""
    if recalled is None:
        return None
    said = recalled.said
    spans = query.spans(recalled.folded)
    if spans is None:
        return None
    snippet = make_snippet(said.text, original_spans(said.text, spans))
    return Find(row.session, row.seq, said.role, said.name, recalled.timestamp, snippet, score)


def _pages(
    connection: Connection, match: str | None, scope: Scope, limit: int | None
) -> Iterator[list[Found]]:
    """The rows that may fit, in pages, those that were added last first."""
    rows = _PAGE_ROWS if limit is None else max(_PAGE_ROWS, 2 * limit)
    ask = _from_said(scope) if match is None else _from_words(match, scope)
    below = 1 << 62
    examined = 0
    while limit is None or examined < EXAMINED_MAX:
        examined += rows
        page = _found(ask(connection, below, rows))
        if page:
            yield page
        if len(page) < rows:
            return
        below = page[-1].id


def _found(rows: list[Any]) -> list[Found]:
    """The rows of a page, which may be without a rank."""
    try:
        found = [
            Found(id, session, seq, last, place, time, ROLES[role], name, *rank)
            for id, session, seq, last, place, time, role, name, tool, *rank in rows
            if role >= 0 and tool_number(name) == tool
        ]
    except (IndexError, TypeError) as error:
        raise IndexDamaged("what was said") from error
    if len(found) != len(rows):
        raise IndexDamaged("what was said")
    return found


_Ask = Callable[["Connection", int, int], list[Any]]


def _from_words(match: str, scope: Scope) -> _Ask:
    condition, values = scope.condition()
    # In the order of the full-text table itself, so that the rank is computed for these rows only.
    select = (
        f"SELECT {_COLUMNS}, bm25(said_words) FROM said_words CROSS JOIN said s "
        "ON s.id = said_words.rowid WHERE said_words MATCH ? AND said_words.rowid < ?"
        f"{condition} ORDER BY said_words.rowid DESC LIMIT ?"
    )
    return lambda connection, below, rows: connection.execute(
        select, (match, below, *values, rows)
    ).fetchall()


def _from_said(scope: Scope) -> _Ask:
    condition, values = scope.condition()
    select = f"SELECT {_COLUMNS} FROM said s WHERE s.id < ?{condition} ORDER BY s.id DESC LIMIT ?"
    return lambda connection, below, rows: connection.execute(
        select, (below, *values, rows)
    ).fetchall()
