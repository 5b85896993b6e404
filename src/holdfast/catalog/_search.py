"""Finding events by what was said in them: from the index in pages, from the log in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.catalog._faults import IndexDamaged
from holdfast.catalog._filter import Filter
from holdfast.catalog._query import Query, read_query
from holdfast.catalog._recall import RecallCache, Recalled, Recaller
from holdfast.catalog._search_texts import ROLES, Heard, Listener
from holdfast.catalog._snippets import Snippet, make_snippet
from holdfast.catalog._tokenizer import fold, original_spans
from holdfast.catalog.sqlite.rows import read_row, read_rows
from holdfast.catalog.sqlite.search_tables import ROLE_NUMBERS, tool_number
from holdfast.catalog.sqlite.selection import selection
from holdfast.errors import HoldfastError
from holdfast.model import SessionMetadata
from holdfast.session import read_range, resolve_blobs

if TYPE_CHECKING:
    from holdfast.storage import Store
    from holdfast.storage.sqlite import Connection


EXAMINED_MAX = 20_000
"""So many events are looked at for one query, the newest first, unless all hits are asked for."""

_PAGE_ROWS = 500
_MONTH_MS = 30 * 24 * 3600 * 1000
# How much better a hit of today is than the same of long ago.
_RECENCY = 0.25
_MONTHS_MAX = 1000.0
_COLUMNS = "s.id, s.session, s.seq, s.last, s.place, s.time, s.role, s.name, s.tool"


class Candidate(NamedTuple):
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
        """The scope as SQL and values."""
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

    def pages(wanted: Query) -> Iterator[list[Candidate]]:
        match = wanted.index_match(expand)
        return _pages(connection, match, scope, limit)

    return search_pages(pages, query, recaller, limit)


Pages = Callable[["Query"], Iterator[list[Candidate]]]
"""The rows of an index that may fit a query, in pages."""


def search_pages(pages: Pages, query: Query, recaller: Recaller, limit: int | None) -> list[Find]:
    """The events that fit, best first, from whatever index knows the rows that may."""
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


def _best_first(page: list[Candidate], newest: int) -> list[tuple[float, Candidate]]:
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


def _judge(row: Candidate, score: float, query: Query, recalled: Recalled | None) -> Find | None:
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
) -> Iterator[list[Candidate]]:
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


def _found(rows: list[Any]) -> list[Candidate]:
    """The rows of a page, which may be without a rank."""
    try:
        found = [
            Candidate(id, session, seq, last, place, time, ROLES[role], name, *rank)
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


# Search over all sessions: from the index where there is one, else by reading every log.


_PREFIX = "sessions/"
_TOGETHER_MAX = 100


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """One event in which something was found. ``timestamp`` is Unix milliseconds."""

    session_id: str
    seq: int
    role: str
    """user, assistant, system, thinking, tool_call, tool_result, summary, title or tag."""
    tool: str | None = None
    """The tool of a call or of a result."""
    snippet: Snippet
    score: float
    """The higher the better; of no meaning beyond one search."""
    timestamp: int
    title: str | None = None
    """Of the session."""


_ALL = -1  # of the rows: no limit


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for, and where. Times are of the event, in Unix milliseconds."""

    query: str
    session_id: str | None = None
    sessions: Filter = Filter()
    since: int | None = None
    until: int | None = None
    roles: tuple[str, ...] = ()
    tool: str | None = None
    limit: int | None = 20

    def admits(self, heard: Heard) -> bool:
        """Whether an event is to be looked at."""
        said = heard.said
        return (
            (self.since is None or heard.timestamp >= self.since)
            and (self.until is None or heard.timestamp <= self.until)
            and (not self.roles or said.role in self.roles)
            and (self.tool is None or (said.name == self.tool and said.role != "tag"))
        )

    def scope(self) -> Scope:
        """What is asked for, in the form that the index takes."""
        sessions, values = self._chosen_sessions()
        return Scope(
            sessions=sessions,
            values=tuple(values),
            since=self.since,
            until=self.until,
            roles=self.roles,
            tool=self.tool,
        )

    def _chosen_sessions(self) -> tuple[str | None, list[Any]]:
        if self.session_id is None and self.sessions == Filter():
            return None, []
        chosen, values = selection(self.sessions, None)
        values.append(_ALL)
        rows = f"SELECT row FROM sessions WHERE id IN (SELECT id FROM ({chosen}))"
        if self.session_id is not None:
            rows += " AND id = ?"
            values.append(self.session_id)
        return f"session IN ({rows})", values


def search_index(
    connection: Connection,
    store: Store,
    asked: Asked,
    memory: RecallCache | None = None,
    expander: Expander | None = None,
) -> list[Hit]:
    """What fits, best first, by the index; each hit is verified against its log.

    Raises IndexDamaged or an error of the database where the index is damaged.
    """
    sessions = _Sessions(connection)
    query = read_query(asked.query)
    recaller = Recaller(store, sessions.key, query.raw_hint, memory, sessions.get_ready)
    finds = search(connection, query, asked.scope(), recaller, asked.limit, expander=expander)
    return [make_hit(find, sessions.meta(find.session)) for find in finds]


def scan_logs(store: Store, sessions: Iterable[SessionMetadata], asked: Asked) -> list[Hit]:
    """What fits in these sessions, newest first, by reading all of their logs."""
    query: Query | None = read_query(asked.query)
    if not query:
        return []
    chosen = [meta for meta in sessions if asked.session_id in (None, meta.session_id)]
    heard = [(meta, one) for meta in chosen for one in _heard(store, meta) if asked.admits(one)]
    hits: list[Hit] = []
    while query is not None and not hits:
        hits = [hit for meta, one in heard if (hit := _scanned(query, meta, one)) is not None]
        query = query.widened()
    hits.sort(key=lambda hit: (-hit.timestamp, hit.session_id, -hit.seq))
    return hits if asked.limit is None else hits[: asked.limit]


class _Sessions:
    """What the index knows of sessions, by row; each is read once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[int, SessionMetadata | None] = {}

    def key(self, row: int) -> str | None:
        """The session's key in the store."""
        meta = self._known.get(row) or self.meta(row)
        return None if meta is None else _PREFIX + meta.session_id

    def get_ready(self, rows: Iterable[int]) -> None:
        """Read the sessions of these rows with one question."""
        wanted = [*{*rows}.difference(self._known)][:_TOGETHER_MAX]
        if len(wanted) > 1:
            marks = ", ".join("?" * len(wanted))
            select = f"SELECT row, id, data, crc FROM sessions WHERE row IN ({marks})"
            found = self._connection.execute(select, wanted).fetchall()
            if found:
                numbers, *columns = zip(*found, strict=True)
                self._known.update(zip(numbers, read_rows(*columns), strict=True))

    def meta(self, row: int) -> SessionMetadata | None:
        """What a list shows of it."""
        if row not in self._known:
            select = "SELECT id, data, crc FROM sessions WHERE row = ?"
            found = self._connection.execute(select, (row,)).fetchone()
            self._known[row] = None if found is None else read_row(*found).meta
        return self._known[row]


def make_hit(find: Find, meta: SessionMetadata | None) -> Hit:
    """What was found, with what is known of its session."""
    assert meta is not None
    return Hit(
        session_id=meta.session_id,
        seq=find.seq,
        role=find.role,
        tool=None if find.role == "tag" else find.name,
        snippet=find.snippet,
        score=find.score,
        timestamp=find.timestamp,
        title=meta.title,
    )


def _heard(store: Store, meta: SessionMetadata) -> Iterator[Heard]:
    """All that can be searched in a session."""
    key = _PREFIX + meta.session_id
    listener = Listener()
    try:
        events = list(resolve_blobs(read_range(store.log(key)), store.documents(key)))
    except HoldfastError:
        return
    yield from listener.hear(events).heard
    yield from listener.shown_streams()


def _scanned(query: Query, meta: SessionMetadata, heard: Heard) -> Hit | None:
    text = heard.said.text
    spans = query.spans(fold(text))
    if spans is None:
        return None
    return Hit(
        session_id=meta.session_id,
        seq=heard.seq,
        role=heard.said.role,
        tool=None if heard.said.role == "tag" else heard.said.name,
        snippet=make_snippet(text, original_spans(text, spans)),
        score=0.0,
        timestamp=heard.timestamp,
        title=meta.title,
    )


# The words of the index that hold some letters, for queries that look inside of words.
#
# To give its words the full-text table reads all that it holds, which takes long where much was
# said.
# So they are kept for as long as the index stays as it is, if they are not too many.


_EXPANSIONS_MAX = 1000
_KEPT_CHARS_MAX = 8 << 20
_ROWS = 10_000


class Expander:
    """Knows the words of one index, on one connection."""

    def __init__(self, kept_chars_max: int = _KEPT_CHARS_MAX) -> None:
        self._kept_chars_max = kept_chars_max
        self._mark: tuple[int, int] | None = None
        self._words: str | None = None
        """A newline before each of them and one at the end; None if they are too many."""

    def expand(self, connection: Connection, word: str, *, open_end: bool) -> list[str]:
        """Some of the words that hold ``word``, or end with it; all unless there are very many."""
        version: int = connection.execute("PRAGMA data_version").fetchone()[0]
        mark = (version, connection.total_changes)
        if mark != self._mark:
            self._words = _read_words(connection, self._kept_chars_max)
            self._mark = mark
        if self._words is None:
            return _ask(connection, word, open_end=open_end)
        found: list[str] = []
        for one in _holding(self._words, word):
            if open_end or one.endswith(word):
                found.append(one)
                if len(found) == _EXPANSIONS_MAX:
                    break
        return found


def _read_words(connection: Connection, chars_max: int) -> str | None:
    parts, chars = [""], 0
    cursor = connection.execute("SELECT term FROM said_vocabulary")
    while rows := cursor.fetchmany(_ROWS):
        parts.append("\n".join([term for (term,) in rows]))
        chars += len(parts[-1])
        if chars > chars_max:
            return None
    return "\n".join([*parts, ""])


def _holding(words: str, letters: str) -> Iterator[str]:
    at = words.find(letters)
    while at >= 0:
        end = words.find("\n", at)
        yield words[words.rfind("\n", 0, at) + 1 : end]
        at = words.find(letters, end)


def _ask(connection: Connection, word: str, *, open_end: bool) -> list[str]:
    at_end = "" if open_end else " AND substr(term, -length(?1)) = ?1"
    select = f"SELECT term FROM said_vocabulary WHERE instr(term, ?1){at_end} LIMIT ?2"
    return [term for (term,) in connection.execute(select, (word, _EXPANSIONS_MAX))]
