"""Finding events in the tables of PostgreSQL, and the question for one page of sessions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.catalog._filter import Filter
from holdfast.catalog._orders import NEWEST, Order, Place
from holdfast.catalog._query import Query, read_query
from holdfast.catalog._recall import Recaller
from holdfast.catalog._search import EXAMINED_MAX, Asked, Candidate, Hit, make_hit, search_pages
from holdfast.catalog.postgres.rows import GIANT, clamped, key_of, match_of
from holdfast.model import SessionMetadata

if TYPE_CHECKING:
    from holdfast.storage import Store

__all__ = ["Fetch", "Statement", "search_tables", "select_sessions"]

_PAGE_ROWS = 500
_EXPANSIONS_MAX = 1000
_EXPANSIONS_CHARS_MAX = 100_000
_PREFIX = "sessions/"
_LIKE = re.compile(r"[\\%_]")

Fetch = Callable[..., list[Any]]
"""The rows of a statement with its values."""
Read = Callable[[Sequence[str]], dict[str, SessionMetadata]]
"""What a list shows of sessions, by id."""


class Statement:
    """A statement that is put together, with its values."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._conditions: list[str] = []

    def demand(self, condition: str, *values: Any) -> None:
        """Only rows for which this holds; each ``{}`` stands for a value."""
        self._conditions.append(condition.format(*map(self.value, values)))

    def value(self, value: Any) -> str:
        """Where a value is to stand."""
        self.values.append(value)
        return f"${len(self.values)}"

    @property
    def where(self) -> str:
        """All conditions together."""
        return f" WHERE {' AND '.join(self._conditions)}" if self._conditions else ""


def select_sessions(
    wanted: Filter,
    after: Place | None,
    statement: Statement,
    columns: str,
    order: Order = NEWEST,
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
    _demand_columns(wanted, statement)
    for word in wanted.text:
        statement.demand("s.text LIKE {}", f"%{_LIKE.sub(_escaped, word)}%")
    if wanted.since is not None:
        statement.demand(f"{timed}.updated >= {{}}", clamped(wanted.since))
    if wanted.until is not None:
        statement.demand(f"{timed}.updated <= {{}}", clamped(wanted.until))
    table = timed if order.name == "updated" else "s"
    if after is not None:
        key = _stored(after[0]) if isinstance(after[0], str) else clamped(after[0])
        sign = "<" if order.descending else ">"
        statement.demand(
            f"({table}.{order.name}, {table}.id) {sign} ({{}}, {{}})", key, _stored(after[1])
        )
    way = "DESC" if order.descending else "ASC"
    arranged = f"{table}.{order.name} {way}, {table}.id {way}"
    return f"SELECT {columns} FROM {source}{statement.where} ORDER BY {arranged}"


def _escaped(sign: re.Match[str]) -> str:
    return f"\\{sign[0]}"


def _demand_columns(wanted: Filter, statement: Statement) -> None:
    for column, value in (
        ("agent", wanted.agent_id),
        ("model", wanted.model),
        ("parent", wanted.parent),
        ("cwd", wanted.cwd),
    ):
        if value is not None:
            statement.demand(f"s.{column} = {{}}", key_of(value))
    _demand_state(wanted, statement)


def _demand_state(wanted: Filter, statement: Statement) -> None:
    if wanted.status is not None:
        # Whether one that runs is interrupted is seen only now.
        kinds = ["interrupted", "running"] if wanted.status == "interrupted" else [wanted.status]
        statement.demand("s.status = ANY({}::text[])", kinds)
    if wanted.archived is not None:
        statement.demand("s.archived = {}", wanted.archived)


def search_tables(fetch: Fetch, read: Read, store: Store, asked: Asked) -> list[Hit]:
    """What fits, best first; each hit is verified against its log."""
    search = _Search(fetch, read, asked)
    query = read_query(asked.query)
    recaller = Recaller(store, search.key, query.raw_hint)
    finds = search_pages(search.pages, query, recaller, asked.limit)
    return [make_hit(find, search.meta(find.session)) for find in finds]


class _Search:
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

    def pages(self, query: Query) -> Iterator[list[Candidate]]:
        """The rows that may fit, in pages, the newest first."""
        match = match_of(query, self._expand)
        limit = self._asked.limit
        rows = _PAGE_ROWS if limit is None else max(_PAGE_ROWS, 2 * limit)
        below: tuple[Any, ...] | None = None
        examined = 0
        while limit is None or examined < EXAMINED_MAX:
            examined += rows
            page = self._page(match, rows, below)
            if page:
                yield self._numbered(page)
            if len(page) < rows:
                return
            below = (page[-1]["time"], page[-1]["session"], page[-1]["number"])

    def _page(self, match: str | None, rows: int, below: tuple[Any, ...] | None) -> list[Any]:
        statement = Statement()
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

    def _demand_scope(self, statement: Statement) -> None:
        asked = self._asked
        if asked.session_id is not None:
            statement.demand("s.session = {}", asked.session_id)
        if asked.sessions != Filter():
            inner = _Numbered(statement)
            chosen = select_sessions(asked.sessions, None, inner, "s.id")
            among = f"s.session IN (SELECT id FROM ({_braced(chosen)}) chosen)"
            statement.demand(among)
        for condition, value in (("s.time >= {}", asked.since), ("s.time <= {}", asked.until)):
            if value is not None:
                statement.demand(condition, clamped(value))
        if asked.roles:
            statement.demand("s.role = ANY({}::text[])", list(asked.roles))
        if asked.tool is not None:
            statement.demand(
                "s.role IN ('tool_call', 'tool_result') AND s.name = {}", key_of(asked.tool)
            )

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


class _Numbered(Statement):
    """A statement inside of another one, whose values it shares."""

    def __init__(self, outer: Statement) -> None:
        super().__init__()
        self.values = outer.values


def _braced(text: str) -> str:
    """The text for a place where braces mean a value."""
    return text.replace("{", "{{").replace("}", "}}")


def _shown_name(name: bytes | None) -> str | None:
    """The tool; None for one whose name is too long to be kept."""
    return None if name is None or name[:1] == b"\xff" else name.decode("utf-8", "surrogatepass")


def _stored(text: str) -> str:
    """A text that can stand in a statement; a cursor may hold any."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")
