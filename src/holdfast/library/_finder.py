"""Finding sessions among many."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from holdfast.errors import UsageError
from holdfast.library._arguments import check_text, limit_of, one_of_each
from holdfast.library._core import Core
from holdfast.model import STATUSES, SessionMetadata, check_id

if TYPE_CHECKING:
    import datetime as dt

    When = float | dt.datetime | None
    """A moment: a datetime, or Unix seconds."""

    from holdfast.catalog import (
        Filter,
        Hit,
        Page,
    )


_NOTHING = (None,) * 8
_PAGE = 1000
_MS_MAX = 1 << 62  # what every index can compare with


def list_sessions(
    core: Core,
    limit: int | None = 50,
    *wanted: Any,
    sort: str = "updated",
    after: str | None = None,
    **narrowed: Any,
) -> Page:
    """Return a page of the sessions that fit what :func:`filter_of` takes, newest first."""
    from holdfast.catalog import read_order

    check_text("an order", sort)
    order = read_order(sort)
    chosen = filter_of(*wanted, **narrowed)
    limit = limit_of(limit, "sessions")
    if core.store.has_keys:
        return core.sealed_books.page(chosen, limit, after, order)
    return core.catalog.page(chosen, limit, after, order)


def info(core: Core, id: str) -> SessionMetadata:
    """One session as ``list`` would show it, as its log is at this moment."""
    found = core.catalog.info(check_id(id))
    if found.state != "sealed" or not core.store.has_keys:
        return found
    return core.sealed_books.info(id, found)


def all_sessions(core: Core, **wanted: Any) -> Iterator[SessionMetadata]:
    """All sessions that ``list`` would give, newest first, looking only at those that fit."""
    page = list_sessions(core, _PAGE, **wanted)
    yield from page
    while page.next is not None:
        page = list_sessions(core, _PAGE, after=page.next, **wanted)
        yield from page


def session_ids(core: Core, prefix: str = "") -> list[str]:
    """The ids that begin with ``prefix``, case aside, in no order."""
    if not isinstance(prefix, str):
        raise UsageError(f"the beginning of an id is a text, not {type(prefix).__name__}")
    return core.catalog.ids(prefix) if prefix.isascii() else []


def filter_of(
    tags: Collection[str] = (),
    since: When = None,
    until: When = None,
    agent_id: str | None = None,
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


def _ms(when: When) -> int | None:
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


def search(
    core: Core,
    query: str,
    session_id: str | None,
    role: str | None,
    tool: str | None,
    limit: int | None,
    *wanted: Any,
) -> list[Hit]:
    """Return the events in which something was said, best first."""
    from holdfast.catalog import Asked, Filter

    _check(query, role)
    limit = limit_of(limit, "hits")
    check_text("a tool", tool)
    if session_id is not None:
        core.stored(session_id)
    core.check_open()
    found = filter_of(*wanted)
    asked = Asked(
        query=query,
        session_id=session_id,
        sessions=Filter(tags=found.tags, agent_id=found.agent_id, model=found.model),
        since=found.since,
        until=found.until,
        roles=_BOTH_SIDES if role == "tool" else () if role is None else (role,),
        tool=tool,
        limit=limit,
    )
    hits = core.catalog.answer(lambda index: index.search(core.inner, asked))
    return core.sealed_books.search(hits, asked) if core.store.has_keys else hits


def _check(query: object, role: str | None) -> None:
    from holdfast.catalog import ROLES

    if not isinstance(query, str):
        raise UsageError(f"a query is a text, not {type(query).__name__}")
    if role not in (None, "tool", *ROLES):
        remedy = f"One of {', '.join(ROLES)}, or tool for calls and results."
        raise UsageError(f"{str(role)[:40]!a} is no role", remedy=remedy)
