"""What sessions used: tokens, cost and time, over many of them or within one."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, get_args

from holdfast.errors import UsageError
from holdfast.library import _views
from holdfast.library._arguments import check_function
from holdfast.library._core import Core
from holdfast.library._finder import filter_of

if TYPE_CHECKING:
    import datetime as dt

    from holdfast.catalog import Progress, Reindexed, Stats, Timeline

By = Literal["day", "week", "month"]


def stats(core: Core, tz: str | dt.tzinfo | None = None, by: By = "day", *sessions: Any) -> Stats:
    """Count tokens, cost, activity, tools and topics of the sessions that fit."""
    from holdfast.catalog import Calendar, Wanted, count_index

    if by not in get_args(By):
        raise UsageError(f"{str(by)[:40]!a} is no period", remedy="day, week or month.")
    found = filter_of(*sessions)
    wanted = Wanted(
        since=found.since,
        until=found.until,
        tags=found.tags,
        agent_id=found.agent_id,
        model=found.model,
        by=by,
    )
    calendar, prices, catalog = Calendar(tz), core.prices, core.catalog
    return catalog.answer(
        lambda index: count_index(index, wanted, prices, calendar, auto_tags=catalog.auto_tags)
    )


def reindex(core: Core, progress: Progress | None = None) -> Reindexed:
    """Make the catalogue anew from the logs, with the sums of its statistics."""
    check_function("progress", progress)
    done = core.catalog.reindex(progress)
    with suppress(UsageError):  # a mistake in a table of prices: told when figures are asked for
        stats(core)
    return done


def timeline(core: Core, id: str) -> Timeline:
    """The course of a session: its turns, how long each took, what it used, the pauses."""
    from holdfast.catalog import timeline_of

    return timeline_of(id, _views.events(core, id), core.prices)
