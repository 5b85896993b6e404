"""What sessions used: tokens, cost and time, over many of them or within one."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

from holdfast._config import load_prices
from holdfast.errors import UsageError
from holdfast.library._finder import Finding, filter_of

if TYPE_CHECKING:
    import datetime as dt

    from holdfast.catalog import Prices, Progress, Reindexed, Stats, Timeline

By = Literal["day", "week", "month"]


class Counting(Finding):
    """Figures. They come from the catalogue, and so from the logs."""

    def stats(
        self,
        since: float | dt.datetime | None = None,
        until: float | dt.datetime | None = None,
        *,
        tags: Collection[str] = (),
        agent_id: str | None = None,
        model: str | None = None,
        tz: str | dt.tzinfo | None = None,
        by: By = "day",
    ) -> Stats:
        """Tokens, cost, activity, tools and topics of the sessions that fit.

        Only what happened from ``since`` to ``until`` counts, to the hour; both are datetimes or
        Unix seconds. With ``model`` only its tokens count. Days are those of the time zone ``tz``,
        by default of this machine. What has no price is counted in ``unpriced_tokens``. Raises
        UsageError for a time zone or period that is none.
        """
        from holdfast.catalog import Calendar, Wanted, count_index

        if by not in get_args(By):
            raise UsageError(f"{str(by)[:40]!a} is no period", remedy="day, week or month.")
        found = filter_of(tags, since, until, agent_id, model=model)
        wanted = Wanted(
            since=found.since,
            until=found.until,
            tags=found.tags,
            agent_id=agent_id,
            model=model,
            by=by,
        )
        calendar, prices, catalog = Calendar(tz), self._prices, self._catalog
        return catalog.answer(
            lambda index: count_index(index, wanted, prices, calendar, auto_tags=catalog.auto_tags)
        )

    def reindex(self, progress: Progress | None = None) -> Reindexed:
        """Make the catalogue anew from the logs, with the sums of its statistics.

        How much was read. ``progress(done, total)`` is called with bytes. Never needed: a catalogue
        that is missing or wrong is made anew by itself. It also forgets what the old one knew, such
        as that a log was once longer.
        """
        done = super().reindex(progress)
        with suppress(UsageError):  # a mistake in a table of prices: for whoever asks for figures
            self.stats()
        return done

    def timeline(self, id: str) -> Timeline:
        """The course of a session: its turns, how long each took, what it used, the pauses."""
        from holdfast.catalog import timeline_of

        return timeline_of(id, self.events(id), self._prices)

    @cached_property
    def _prices(self) -> Prices:
        return load_prices(self._settings.configuration)
