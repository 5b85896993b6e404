"""Search over all sessions: from the index where there is one, else by reading every log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.catalog._filter import Filter
from holdfast.catalog._folding import fold, original_spans
from holdfast.catalog._query import Query, read_query
from holdfast.catalog._recall import Memory, Recaller
from holdfast.catalog._search import Find, Scope, search
from holdfast.catalog._selection import selection
from holdfast.catalog._snippets import Snippet, make_snippet
from holdfast.catalog._sqlite_rows import read_row, read_rows
from holdfast.catalog._words import Heard, Listener
from holdfast.errors import HoldfastError
from holdfast.model import SessionMetadata
from holdfast.session import read_range, resolve_blobs

if TYPE_CHECKING:
    from holdfast.catalog._expanding import Expander
    from holdfast.storage import Store
    from holdfast.storage._sqlite import Connection

__all__ = ["Asked", "Hit", "make_hit", "scan_logs", "search_index"]

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
        """The same for the index."""
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
    memory: Memory | None = None,
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
