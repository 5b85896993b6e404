"""Finding sessions among many."""

from __future__ import annotations

import builtins
from collections.abc import Collection, Iterator
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any
from weakref import ref

from holdfast.errors import UsageError
from holdfast.library._arguments import check_function, check_text, limit_of, one_of_each
from holdfast.library._views import Reading
from holdfast.model import STATUSES, SessionMetadata, check_id

if TYPE_CHECKING:
    import datetime as dt

    from holdfast._config import Configuration
    from holdfast.catalog import (
        Asked,
        Catalog,
        Feeder,
        Filter,
        Health,
        Hit,
        Page,
        Prices,
        Progress,
        Reindexed,
    )
    from holdfast.library._sealed_index import SealedBooks
    from holdfast.model import Gap


_NOTHING = (None,) * 8
_PAGE = 1000
_MS_MAX = 1 << 62  # what every index can compare with


class Finding(Reading):
    """What can be asked of all sessions together."""

    @cached_property
    def _feeder(self) -> Feeder:
        from holdfast.catalog import Feeder

        me = ref(self)  # the thread must not keep a library alive that nobody uses any more

        def chore() -> None:
            library = me()
            if library is not None:
                library._housekeep()  # noqa: SLF001 - of this very object

        configuration = self._settings.configuration
        auto_tags = configuration.get("catalog.auto_tags", True)
        prices = cache(lambda: _prices_of_lists(configuration))
        return Feeder(self._inner, chore=chore, auto_tags=bool(auto_tags), prices=prices)

    @cached_property
    def _sealed_books(self) -> SealedBooks:
        from holdfast.library._sealed_index import SealedBooks

        return SealedBooks(self._store, self._feeder)

    @property
    def _catalog(self) -> Catalog:
        self._check_open()
        return self._feeder.catalog

    def _lost_whole(self, id: str) -> Gap | None:
        """What the catalogue saw in a log that has no event any more."""
        return self._catalog.lost_whole(id) if self._inner.capabilities.stores else None

    def list(
        self,
        limit: int | None = 50,
        tags: Collection[str] = (),
        since: float | dt.datetime | None = None,
        until: float | dt.datetime | None = None,
        agent_id: str | None = None,
        *,
        model: str | None = None,
        status: str | None = None,
        parent: str | None = None,
        cwd: str | None = None,
        archived: bool | None = None,
        text: str | None = None,
        sort: str = "updated",
        after: str | None = None,
    ) -> Page:
        """The sessions that fit, newest first: at most ``limit``, or all for None.

        ``tags`` must all be there, whether people or the catalogue gave them; ``since`` and
        ``until`` are datetimes or Unix seconds and speak of the last change; ``cwd`` is where the
        agent worked. Each word of ``text`` must be part of the title, id, agent, model or a tag,
        case and accents aside. ``sort`` is updated, created, title, messages, tokens, cost or size:
        newest and most first, titles from A to Z, or as ``:asc`` or ``:desc`` after it says.
        ``next`` of the page is a cursor: as ``after`` it gives the page that follows, also if
        sessions were added meanwhile. Raises UsageError for a limit, status, time, order or cursor
        that is none.
        """
        from holdfast.catalog import read_order

        check_text("an order", sort)
        order = read_order(sort)
        wanted = filter_of(
            tags,
            since,
            until,
            agent_id,
            model=model,
            status=status,
            parent=parent,
            cwd=cwd,
            archived=archived,
            text=text,
        )
        limit = limit_of(limit, "sessions")
        if self._store.has_keys:
            return self._sealed_books.page(wanted, limit, after, order)
        return self._catalog.page(wanted, limit, after, order)

    def info(self, id: str) -> SessionMetadata:
        """One session as ``list`` would show it, as its log is at this moment."""
        found = self._catalog.info(check_id(id))
        if found.state != "sealed" or not self._store.has_keys:
            return found
        return self._sealed_books.info(id, found)

    def reindex(self, progress: Progress | None = None) -> Reindexed:
        """Make the catalogue anew from the logs; how much was read.

        ``progress(done, total)`` is called with bytes. Never needed: a catalogue that is missing or
        wrong is made anew by itself. It also forgets what the old one knew, such as that a log was
        once longer.
        """
        check_function("progress", progress)
        return self._catalog.reindex(progress)

    def catalog_health(self, *, check: bool = False) -> Health:
        """How the catalogue is: where, how many sessions, and what was wrong with it last.

        With ``check`` it is compared with the logs before, as the background does from time to
        time; what was said only where there are no more than 16 MB of them.
        """
        return self._catalog.health(check=check)

    def _all(self, **wanted: Any) -> Iterator[SessionMetadata]:
        """All sessions that ``list`` would give, newest first, looking only at those that fit."""
        page = self.list(_PAGE, **wanted)
        yield from page
        while page.next is not None:
            page = self.list(_PAGE, after=page.next, **wanted)
            yield from page

    def _housekeep(self) -> None:
        """What is to be done from time to time while sessions are open, beside the recording."""

    def session_ids(self, prefix: str = "") -> builtins.list[str]:
        """The ids that begin with ``prefix``, case aside, in no order."""
        if not isinstance(prefix, str):
            raise UsageError(f"the beginning of an id is a text, not {type(prefix).__name__}")
        return self._catalog.ids(prefix) if prefix.isascii() else []


def _prices_of_lists(configuration: Configuration) -> Prices:
    """The user's prices; a table with a mistake is for ``stats`` to tell, and no list fails."""
    from holdfast._config import load_prices
    from holdfast.catalog import Prices

    try:
        return load_prices(configuration)
    except UsageError:
        return Prices()


def filter_of(
    tags: Collection[str] = (),
    since: float | dt.datetime | None = None,
    until: float | dt.datetime | None = None,
    agent_id: str | None = None,
    *,
    model: str | None = None,
    status: str | None = None,
    parent: str | None = None,
    cwd: str | None = None,
    archived: bool | None = None,
    text: str | None = None,
) -> Filter:
    """What a list is asked for. Raises UsageError for what no session can be."""
    from holdfast.catalog import EVERYTHING, Filter

    words = () if text is None else _words(text)
    given = (since, until, agent_id, model, status, parent, cwd, archived)
    if not tags and not words and given == _NOTHING:
        return EVERYTHING
    texts = {"an agent": agent_id, "a model": model, "a parent": parent, "cwd": cwd}
    for name, value in texts.items():
        check_text(name, value)
    if archived not in (None, True, False):
        raise UsageError(f"archived is True, False or None, not {type(archived).__name__}")
    if status is not None and status not in STATUSES:
        remedy = f"One of {', '.join(STATUSES)}."
        raise UsageError(f"{str(status)[:40]!a} is no status", remedy=remedy)
    return Filter(
        tags=one_of_each("tags", tags),
        since=_ms(since),
        until=_ms(until),
        agent_id=agent_id,
        model=model,
        status=status,
        parent=parent,
        cwd=cwd,
        archived=archived,
        text=words,
    )


def _words(text: str) -> tuple[str, ...]:
    from holdfast.catalog import words_in

    if not isinstance(text, str):
        raise UsageError(f"a text to narrow by is a text, not {type(text).__name__}")
    return words_in(text)


def _ms(when: float | dt.datetime | None) -> int | None:
    if when is None:
        return None
    try:
        seconds = when if isinstance(when, (int, float)) else when.timestamp()
        found = int(seconds * 1000)
        if abs(found) > _MS_MAX:
            raise OverflowError(found)
        return found
    except (ValueError, OverflowError, AttributeError) as error:
        raise UsageError(f"{when!r:.60} is no moment: give a datetime or Unix seconds") from error


# Searching what was said in sessions.


_BOTH_SIDES = ("tool_call", "tool_result")


class Searching(Finding):
    """What can be asked of every word of all sessions."""

    def search(
        self,
        query: str,
        session_id: str | None = None,
        *,
        tags: Collection[str] = (),
        since: float | dt.datetime | None = None,
        until: float | dt.datetime | None = None,
        agent_id: str | None = None,
        model: str | None = None,
        role: str | None = None,
        tool: str | None = None,
        limit: int | None = 20,
    ) -> builtins.list[Hit]:
        """The events in which something was said, best first; None as limit gives all.

        Words must all be in one event; ``"…"`` is a phrase, ``word*`` a beginning, ``-word`` an
        exclusion, ``a OR b`` a choice; whatever else is in a query is text. ``since`` and ``until``
        are of the event; ``tags``, ``agent_id`` and ``model`` of its session; ``role`` may be
        "tool" for calls and results. What was appended before the call is found, also what other
        processes appended. Raises NotFound for a session that is not there, and UsageError for a
        query that is no text, a role, limit or time that is none.
        """
        from holdfast.catalog import Asked, Filter

        _check(query, role)
        limit = limit_of(limit, "hits")
        check_text("a tool", tool)
        if session_id is not None:
            self._stored(session_id)
        self._check_open()
        wanted = filter_of(tags, since, until, agent_id, model=model)
        asked = Asked(
            query=query,
            session_id=session_id,
            sessions=Filter(tags=wanted.tags, agent_id=agent_id, model=model),
            since=wanted.since,
            until=wanted.until,
            roles=_BOTH_SIDES if role == "tool" else () if role is None else (role,),
            tool=tool,
            limit=limit,
        )
        return self._search(asked)

    def _search(self, asked: Asked) -> builtins.list[Hit]:
        hits = self._catalog.answer(lambda index: index.search(self._inner, asked))
        return self._sealed_books.search(hits, asked) if self._store.has_keys else hits


def _check(query: object, role: str | None) -> None:
    from holdfast.catalog import ROLES

    if not isinstance(query, str):
        raise UsageError(f"a query is a text, not {type(query).__name__}")
    if role not in (None, "tool", *ROLES):
        remedy = f"One of {', '.join(ROLES)}, or tool for calls and results."
        raise UsageError(f"{str(role)[:40]!a} is no role", remedy=remedy)
