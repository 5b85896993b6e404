"""Finding sessions, and counting what they used."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from holdfast.errors import DataError, SecurityError, UsageError
from holdfast.library import _views
from holdfast.library._core import Core, check_function, check_text, limit_of, one_of_each, whole
from holdfast.model import STATUSES, SessionMetadata, check_id

if TYPE_CHECKING:
    from holdfast import catalog
    from holdfast.storage import Store

_NOTHING = (None,) * 8
_PAGE = 1000


def list_sessions(
    core: Core, limit: int | None = 50, *wanted: Any, sort: str = "updated", after: str | None = None, **narrowed: Any
) -> catalog.Page:
    """Return a page of the sessions that match the options of :func:`filter_of`, newest first."""
    from holdfast.catalog import read_order

    check_text("an order", sort)
    order = read_order(sort)
    chosen = filter_of(*wanted, **narrowed)
    limit = limit_of(limit, "sessions")
    if core.store.has_keys:
        return core.sealed_books.page(chosen, limit, after, order)
    return core.catalog.page(chosen, limit, after, order)


def info(core: Core, id: str) -> SessionMetadata:
    found = core.catalog.info(check_id(id))
    if found.state != "sealed" or not core.store.has_keys:
        return found
    return core.sealed_books.info(id, found)


def all_sessions(core: Core, **wanted: Any) -> Iterator[SessionMetadata]:
    """Yield all sessions that ``list`` would give, newest first; others are not read."""
    page = list_sessions(core, _PAGE, **wanted)
    yield from page
    while page.next is not None:
        page = list_sessions(core, _PAGE, after=page.next, **wanted)
        yield from page


def session_ids(core: Core, prefix: str = "") -> list[str]:
    if not isinstance(prefix, str):
        raise UsageError(f"the beginning of an id is a text, not {type(prefix).__name__}")
    return core.catalog.ids(prefix) if prefix.isascii() else []


def short_ids(core: Core, ids: Iterable[str]) -> dict[str, str]:
    from holdfast.catalog import SHORT_CHARS, short_id

    core.check_open()
    wanted = dict.fromkeys(ids)
    # Names that people chose are whole: without others no catalogue is opened.
    near = {id[:SHORT_CHARS]: core.catalog.ids(id[:SHORT_CHARS]) for id in wanted if short_id(id, ()) != id}
    return {id: short_id(id, near.get(id[:SHORT_CHARS], ())) for id in wanted}


def filter_of(
    tags: Collection[str] = (),
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    agent_id: str | None = None,
    model: str | None = None,
    status: str | None = None,
    parent: str | None = None,
    cwd: str | None = None,
    archived: bool | None = None,
    text: str | None = None,
) -> catalog.Filter:
    """Return the filter for a list. Raises UsageError for a value that no session can have."""
    from holdfast.catalog import EVERYTHING, Filter, words_in

    if not isinstance(text, str | None):
        raise UsageError(f"a text to narrow by is a text, not {type(text).__name__}")
    words = () if text is None else words_in(text)
    given = (since, until, agent_id, model, status, parent, cwd, archived)
    if not tags and not words and given == _NOTHING:
        return EVERYTHING
    texts: dict[str, Any] = {"agent_id": agent_id, "model": model, "parent": parent, "cwd": cwd}
    for name, value in zip(("an agent", "a model", "a parent", "cwd"), texts.values(), strict=True):
        check_text(name, value)
    if archived not in (None, True, False):
        raise UsageError(f"archived is True, False or None, not {type(archived).__name__}")
    if status is not None and status not in STATUSES:
        raise UsageError(f"{str(status)[:40]!a} is no status", remedy=f"One of {', '.join(STATUSES)}.")
    moments: dict[str, Any] = {"since": _ms(since), "until": _ms(until)}
    tagged = one_of_each("tags", tags)
    return Filter(tags=tagged, status=status, archived=archived, text=words, **moments, **texts)


def _ms(when: dt.datetime | None) -> int | None:
    if when is None:
        return None
    try:
        if isinstance(when, dt.datetime):
            return int(when.timestamp() * 1000)
    except (ValueError, OverflowError):
        pass  # such as the very first local hour, which is before it in UTC
    remedy = "Give a datetime; of Unix seconds: datetime.fromtimestamp(seconds, UTC)."
    raise UsageError(f"{when!r:.60} is no moment", remedy=remedy)


# Full-text search in sessions.
def search(
    core: Core, query: str, session_id: str | None, role: str | None, tool: str | None, limit: int | None, *wanted: Any
) -> list[catalog.Hit]:
    from holdfast.catalog import ROLES, Asked, Hits

    if not isinstance(query, str):
        raise UsageError(f"a query is a text, not {type(query).__name__}")
    if role not in (None, "tool", *ROLES):
        remedy = f"One of {', '.join(ROLES)}, or tool for calls and results."
        raise UsageError(f"{str(role)[:40]!a} is no role", remedy=remedy)
    limit = limit_of(limit, "hits")
    check_text("a tool", tool)
    if session_id is not None:
        core.stored(session_id)
    core.check_open()
    found = filter_of(*wanted)
    sessions = msgspec.structs.replace(found, since=None, until=None)
    # An index does not know which processes are alive.
    needs_look = found.status in ("running", "interrupted")
    asked = Asked(
        query=query,
        session_id=session_id,
        sessions=sessions,
        ids=frozenset(row.session_id for row in core.catalog.pages(sessions)) if needs_look else None,
        since=found.since,
        until=found.until,
        roles=("tool_call", "tool_result") if role == "tool" else () if role is None else (role,),
        tool=tool,
        limit=limit,
    )
    # Searches the store as it is on the medium: sealed text never reaches the index.
    hits = core.catalog.answer(lambda index: index.search(core.inner, asked))
    return Hits(core.sealed_books.search(hits, asked) if core.store.has_keys else hits)


# Usage of sessions: tokens, cost and time, over many sessions or within one.
By = Literal["day", "week", "month"]


def stats(core: Core, tz: str | dt.tzinfo | None = None, by: By = "day", *sessions: Any) -> catalog.Stats:
    from holdfast.catalog import Calendar, Wanted, count_index

    if by not in get_args(By):
        raise UsageError(f"{str(by)[:40]!a} is no period", remedy="day, week or month.")
    found = filter_of(*sessions)
    wanted = Wanted(
        since=found.since, until=found.until, tags=found.tags, agent_id=found.agent_id, model=found.model, by=by
    )
    calendar, prices, auto_tags = Calendar(tz), core.prices, core.catalog.auto_tags
    opened = core.sealed_books.tallies() if core.store.has_keys else []
    return core.catalog.answer(
        lambda index: count_index(index, wanted, prices, calendar, auto_tags=auto_tags, opened=opened)
    )


def reindex(core: Core, progress: catalog.Progress | None = None) -> catalog.Reindexed:
    check_function("progress", progress)
    done = core.catalog.reindex(progress)
    with suppress(UsageError):  # a mistake in a table of prices: reported when figures are asked for
        stats(core)
    return done


def timeline(core: Core, id: str) -> catalog.Timeline:
    from holdfast.catalog import timeline_of

    return timeline_of(id, _views.events(core, id), core.prices)


def topics(core: Core, id: str, n: int = 3) -> list[catalog.Topic]:
    from holdfast.catalog import Tally
    from holdfast.catalog import topics as topics_of

    return topics_of(Tally().feed(_views.events(core, id)), whole("n", n))


# Sealed sessions in lists and searches: decrypted in memory, never indexed.
# To the catalogue a sealed session is a name and a size. For callers who have the key its log is read here on demand,
# and again only when it has changed.
_KEPT_MAX = 10_000


class SealedBooks:
    """The sealed sessions of a store, for callers who have their keys."""

    def __init__(self, store: Store, feeder: catalog.Feeder) -> None:
        self._store = store
        self._feeder = feeder
        self._read: dict[str, tuple[str, catalog.Row, bytes]] = {}  # the etag of each log, its row then, its tally
        self._lock = threading.Lock()

    def page(self, wanted: catalog.Filter, limit: int | None, after: str | None, order: catalog.Order) -> catalog.Page:
        """Return a page of the catalogue with the sealed sessions in their places."""
        from holdfast.catalog import arranged, make_page, read_cursor

        books, opened = self._feeder.catalog, self._opened()
        page = books.page(wanted, limit, after, order)
        if not opened:
            return page
        rows = [row for row in page if row.session_id not in opened]
        while limit is not None and len(rows) < limit and page.has_more:
            # The catalogue knows only the names of sealed sessions; they are listed elsewhere.
            page = books.page(wanted, limit, page.next, order)
            rows += [row for row in page if row.session_id not in opened]
        place = None if after is None else read_cursor(after, order)
        mine = arranged(filter(wanted.admits, opened.values()), order, place)
        rows += mine if books.auto_tags else [msgspec.structs.replace(row, auto_tags=()) for row in mine]
        found = make_page(arranged(rows, order), limit, order)
        found.has_more = found.has_more or page.has_more
        return found

    def info(self, id: str, sealed: SessionMetadata) -> SessionMetadata:
        """Return one session; if it does not open, what the catalogue knows of it."""
        return self._row(id) or sealed

    def search(self, hits: list[catalog.Hit], asked: catalog.Asked) -> list[catalog.Hit]:
        """Return the hits of the index together with those in sealed sessions."""
        from holdfast.catalog import scan_logs

        rows = [row for row in self._opened().values() if asked.sessions.admits(row)]
        if not rows:
            return hits
        more = scan_logs(self._store, rows, asked)
        found = sorted([*hits, *more], key=lambda hit: (-hit.score, -hit.timestamp))
        return found if asked.limit is None else found[: asked.limit]

    def tallies(self) -> list[tuple[SessionMetadata, bytes]]:
        """Return the sealed sessions that open, with the counts of each."""
        rows = self._opened()
        with self._lock:
            return [(row, self._read[id][2]) for id, row in rows.items() if id in self._read]

    def _opened(self) -> dict[str, SessionMetadata]:
        """Return the sealed sessions that open with the keys at hand."""
        from holdfast.catalog import Filter

        # A row that has nothing but a size has no time, so it is listed last.
        closed = self._feeder.catalog.pages(Filter(until=0))
        found = {row.session_id: self._row(row.session_id) for row in closed if row.state == "sealed"}
        return {id: row for id, row in found.items() if row is not None}

    def _row(self, id: str) -> SessionMetadata | None:
        from holdfast.catalog import look, shown

        entry = self._store.entry(f"sessions/{id}")
        if entry is None:
            return None
        with self._lock:
            known = self._read.get(id)
        if known is None or known[0] != entry.etag:
            try:
                found = look(self._store, entry, None, step_bytes=entry.size + 1)
            except (SecurityError, DataError):
                return None  # a session that does not open, or is damaged, must not fail the list
            if found.row.meta.state == "sealed":
                return None
            known = entry.etag, found.row, found.tally
            with self._lock:
                if len(self._read) >= _KEPT_MAX:
                    self._read.clear()
                self._read[id] = known
        return shown(known[1])  # whether it has a writer is checked each time
