"""Full-text search of events: candidates from the index in pages, verified against the log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from holdfast.catalog._filter import Filter, Statement
from holdfast.catalog._index import PREFIX
from holdfast.catalog._query import Query, Span, fold, original_spans, read_query
from holdfast.catalog._recall import RecallCache, Recalled, Recaller
from holdfast.catalog._search_texts import Heard, Listener, Told
from holdfast.errors import HoldfastError
from holdfast.model import SessionMetadata, html_table
from holdfast.security import neutralise_line
from holdfast.session import read_range, resolve_blobs
from holdfast.storage import Store

EXAMINED_MAX = 20_000  # the events checked for one query, the newest first, unless all hits are requested

_PAGE_ROWS = 500
_MONTH_MS = 30 * 24 * 3600 * 1000
# The bonus of a hit of today over the same one of long ago.
_RECENCY = 0.25
_MONTHS_MAX = 1000.0


class Candidate(NamedTuple):
    """One row of the index that may match."""

    id: int
    session: int
    seq: int
    last: int | None
    place: int
    time: int
    role: str
    name: str | None
    rank: float = 0.0


Metadata = Callable[[int], "SessionMetadata | None"]  # returns the session of a row as a list shows it
Ask = Callable[["Query"], Callable[[Any, int], tuple[list[Candidate], Any]]]
"""Returns for a query a function that, given a place and a number, gives candidates and the last place."""


def search(
    store: Store,
    asked: Asked,
    ask: Ask,
    meta: Metadata,
    *,
    memory: RecallCache | None = None,
    expect: Callable[[Iterable[int]], None] | None = None,
) -> list[Hit]:
    """Return the matching events, best first: by relevance, newer ones slightly preferred.

    ``ask`` and ``meta`` belong to the index that has the candidates, and the sessions by their rows; ``expect``
    is called with sessions that will be needed. If no event has the words, they are searched inside words.
    """

    def admitted(row: int) -> SessionMetadata | None:
        found = meta(row)
        return found if asked.ids is None or (found and found.session_id in asked.ids) else None

    def key(row: int) -> str | None:
        found = admitted(row)
        return None if found is None else PREFIX + found.session_id

    query: Query | None = read_query(asked.query)
    if not query or asked.limit == 0:
        return []
    recaller = Recaller(store, key, query.raw_hint, memory, expect)
    hits: list[Hit] = []
    while query is not None and not hits:
        hits = _search(_pages(ask(query), asked.limit), query, recaller, admitted, asked.limit)
        query = query.widened()
    return hits


def _search(
    pages: Iterable[list[Candidate]], query: Query, recaller: Recaller, meta: Metadata, limit: int | None
) -> list[Hit]:
    finds: list[tuple[int, Hit]] = []
    newest: int | None = None
    for page in pages:
        newest = max([row.time for row in page]) if newest is None else newest
        # The rows with their relevance, 0 if only time counts; of equals, newer ones first. A page has hundreds of
        # rows, so the loop calls no function per row that can be written inline.
        fresh = [2.0 ** -min(max(0, newest - row.time) / _MONTH_MS, _MONTHS_MAX) for row in page]
        ranked = [
            (row.rank * (1 + _RECENCY * freshness), -row.time, -row.id, number)
            for number, (row, freshness) in enumerate(zip(page, fresh, strict=True))
        ]
        ranked.sort()
        scored = [(-rank, page[number]) for rank, _, _, number in ranked]
        recalled = recaller.each([row for _, row in scored], limit)
        for score, row in scored:
            read = next(recalled)  # first: it reads all sessions of these rows together
            hit = read and _hit(query, meta(row.session), row.seq, read, score)
            if hit is not None:
                finds.append((row.session, hit))
                if limit is not None and len(finds) >= limit:
                    break
        if limit is not None and len(finds) >= limit:
            break
    finds.sort(key=lambda find: (-find[1].score, -find[1].timestamp, find[0], -find[1].seq))
    return [hit for _, hit in finds]


def _pages(ask: Callable[[Any, int], tuple[list[Candidate], Any]], limit: int | None) -> Iterator[list[Candidate]]:
    """Yield the candidates in pages, the last added first."""
    rows = _PAGE_ROWS if limit is None else max(_PAGE_ROWS, 2 * limit)
    last, examined = None, 0
    while limit is None or examined < EXAMINED_MAX:
        examined += rows
        page, last = ask(last, rows)
        if page:
            yield page
        if len(page) < rows:
            return


def _hit(query: Query, meta: SessionMetadata | None, seq: int, read: Recalled, score: float = 0.0) -> Hit | None:
    """Return the hit of an event according to its log; None if it does not match after all."""
    said, spans = read.said, query.spans(read.folded)
    if meta is None or spans is None:
        return None
    return Hit(
        session_id=meta.session_id,
        seq=seq,
        role=said.role,
        tool=None if said.role == "tag" else said.name,
        snippet=make_snippet(said.text, original_spans(said.text, spans)),
        score=score,
        timestamp=read.timestamp,
        title=meta.title,
    )


# Search over all sessions: by the index if there is one, else by reading every log.
class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """One matching event. ``timestamp`` is Unix milliseconds."""

    session_id: str
    seq: int
    role: str
    """user, assistant, system, thinking, tool_call, tool_result, summary, title or tag."""
    tool: str | None = None
    """The tool of a call or of a result."""
    snippet: Snippet
    score: float
    """The higher the better; only comparable within one search."""
    timestamp: int
    title: str | None = None
    """The title of the session."""


class Hits(list[Hit]):
    """The hits of a search, best first."""

    def __repr__(self) -> str:
        rows = "".join(f"\n  {'  '.join(row)}" for row in self._told())
        return f"<{len(self)} hit{'' if len(self) == 1 else 's'}>{rows}"

    def _repr_html_(self) -> str:
        return html_table(("id", "title", "event", "role", "text"), self._told())

    def _told(self) -> Iterator[tuple[str, str, str, str, str]]:
        for hit in self:
            yield hit.session_id, hit.title or "(no title)", f"#{hit.seq}", hit.role, hit.snippet.text


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A search and its scope. Times are those of events, in Unix milliseconds."""

    query: str
    session_id: str | None = None
    sessions: Filter = Filter()
    ids: frozenset[str] | None = None
    """Only these, if ``sessions`` has a condition that an index cannot check: whether there is a writer."""
    since: int | None = None
    until: int | None = None
    roles: tuple[str, ...] = ()
    tool: str | None = None
    limit: int | None = 20

    def admits(self, heard: Heard) -> bool:
        said = heard.said
        return (
            (self.since is None or heard.timestamp >= self.since)
            and (self.until is None or heard.timestamp <= self.until)
            and (not self.roles or said.role in self.roles)
            and (self.tool is None or (said.name == self.tool and said.role != "tag"))
        )

    def demand(self, statement: Statement, role: Callable[[str], Any], named: str, name: Callable[[str], Any]) -> None:
        """Add the conditions on events for an index with roles and, in a column ``named``, tools."""
        statement.demand_times("s.time", self.since, self.until)
        if self.roles:
            statement.demand_one_of("s.role", map(role, self.roles))
        if self.tool is not None:
            statement.demand_one_of("s.role", map(role, ("tool_call", "tool_result")))
            statement.demand(f"{named} = {{}}", name(self.tool))


def scan_logs(store: Store, sessions: Iterable[SessionMetadata], asked: Asked) -> list[Hit]:
    """Return the matches in these sessions, newest first, by reading all of their logs."""
    query: Query | None = read_query(asked.query)
    if not query:
        return []
    chosen = [meta for meta in sessions if asked.session_id in (None, meta.session_id)]
    told = [(meta, hear_log(store, meta.session_id)) for meta in chosen]
    heard = [
        (meta, one.seq, Recalled(one.said, one.timestamp, fold(one.said.text)))
        for meta, log in told
        for one in (() if log is None else (*log.said, *log.streaming))
        if asked.admits(one)
    ]
    hits: list[Hit] = []
    while query is not None and not hits:
        hits = [hit for meta, seq, read in heard if (hit := _hit(query, meta, seq, read)) is not None]
        query = query.widened()
    hits.sort(key=lambda hit: (-hit.timestamp, hit.session_id, -hit.seq))
    return hits if asked.limit is None else hits[: asked.limit]


def hear_log(store: Store, id: str) -> Told | None:
    """Return everything searchable in a session; None if its log cannot be read completely."""
    key, listener = PREFIX + id, Listener()
    try:
        events = list(resolve_blobs(read_range(store.log(key)), store.documents(key)))
    except HoldfastError:
        return None
    return Told(listener.hear(events).heard, listener.shown_streams())


# A short excerpt of a text around its matches, safe to show.
SNIPPET_CHARS = 160
_LEAD_CHARS = 40
_SPACE = re.compile(r"[\s\x00-\x1f\x7f]+")
_CUT = "…"
_BREAK_CHARS_MAX = 15


class Snippet(msgspec.Struct, frozen=True):
    """One line of text; ``ranges`` are the matches in it.

    It holds no control characters: white space of any kind is one space, and characters that a terminal
    could execute or hide are replaced by a visible one.
    """

    text: str
    ranges: tuple[Span, ...] = ()

    def marked(self, before: str = "**", after: str = "**") -> str:
        """Return the text with marks around each match."""
        return "".join(f"{before}{part}{after}" if is_found else part for part, is_found in self.parts())

    def parts(self) -> Iterator[tuple[str, bool]]:
        """Yield the text piece by piece, and whether each is a match."""
        at = 0
        for begin, end in self.ranges:
            if at < begin:
                yield self.text[at:begin], False
            yield self.text[begin:end], True
            at = end
        if at < len(self.text):
            yield self.text[at:], False

    def __str__(self) -> str:
        return self.text


def make_snippet(text: str, spans: list[Span], chars: int = SNIPPET_CHARS) -> Snippet:
    """Return the part of ``text`` that shows most of ``spans``, which are in order and do not overlap."""
    begin, end = _window(text, spans, chars)
    pieces: list[str] = [_CUT] if begin else []
    ranges: list[Span] = []
    length, at = len(pieces), begin
    for first, last in spans:
        if last <= begin or first >= end:
            continue
        first, last = max(first, begin), min(last, end)  # noqa: PLW2901 - cut to what is shown
        plain, found = _clean(text[at:first]), _clean(text[first:last])
        pieces += [plain, found]
        ranges.append((length + len(plain), length + len(plain) + len(found)))
        length, at = ranges[-1][1], last
    pieces.append(_clean(text[at:end]).rstrip())
    return Snippet("".join(pieces) + (_CUT if end < len(text) else ""), tuple(ranges))


def _window(text: str, spans: list[Span], chars: int) -> Span:
    """Return where to cut: around the closest spans, at a space if one is near."""
    if len(text) <= chars or not spans:
        return 0, min(len(text), chars)
    # The place with the most spans within that number of characters.
    best, most = spans[0][0], 0
    for number, (first, _) in enumerate(spans[:100] if len(spans) > 1 else ()):
        within = sum(1 for _, last in spans[number : number + 20] if last <= first + chars)
        if within > most:
            best, most = first, within
    begin = max(0, min(best - _LEAD_CHARS, len(text) - chars))
    space = _SPACE.search(text, begin, min(begin + _BREAK_CHARS_MAX, best)) if begin else None
    begin = space.end() if space else begin
    return begin, min(len(text), begin + chars)


def _clean(text: str) -> str:
    """Return a part of a text, safe to show. In ASCII only white space has to be replaced."""
    if not text.isascii():
        return neutralise_line(_SPACE.sub(" ", text))
    return text if text.isprintable() and "  " not in text else _SPACE.sub(" ", text)
