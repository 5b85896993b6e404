"""What sessions used, as charts and tables."""

from __future__ import annotations

import datetime as dt
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from holdfast.apps.web._page import Site, page, site_of

if TYPE_CHECKING:
    from holdfast.catalog import Stats

_DAY_S = 86_400
_WEEKS = 53
_YEAR = 7 * (_WEEKS + 1)
# Word, days, and how the days are put together.
RANGES = {
    "month": ("30 days", 30, "day"),
    "quarter": ("90 days", 90, "day"),
    "year": ("A year", _YEAR, "week"),
    "all": ("All time", None, "month"),
}
_CELL = 13
_STEPS = 4
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()  # noqa: SIM905 - easier to read


class Cell(NamedTuple):
    """One day of the calendar; ``step`` is 0 for nothing to 4 for the busiest."""

    x: int
    y: int
    step: int
    day: str
    messages: int


class Calendar(NamedTuple):
    """A year of days, a week in each column."""

    cells: list[Cell]
    months: list[tuple[int, str]]
    width: int
    height: int


def figures_page(request: Request) -> Response:
    """Tokens, cost, activity and tools."""
    site = site_of(request)
    name = request.query_params.get("range", "quarter")
    name = name if name in RANGES else "quarter"
    _, days, by = RANGES[name]
    stats = _stats(site, days, by)
    # The calendar has a year; a longer time has it too.
    year = stats if days is None or days >= _YEAR else _stats(site, _YEAR, "week")
    return page(
        request,
        "figures.html",
        stats=stats,
        range=name,
        ranges=RANGES,
        chart=_chart(stats),
        calendar=calendar_of(year.days, dt.datetime.now().astimezone().date()),
        busiest=max(stats.hours, default=0) or 1,
        most_calls=max((tool.calls for tool in stats.tools), default=0) or 1,
    )


def _stats(site: Site, days: int | None, by: str) -> Stats:
    since = None if days is None else time.time() - days * _DAY_S
    return site.hf.stats(since, by=by)  # type: ignore[arg-type]  # one of its words


def store_page(request: Request) -> Response:
    """Where the store is and how it is."""
    site = site_of(request)
    return page(request, "store.html", checks=list(site.checks()), health=site.hf.catalog_health())


def calendar_of(days: dict[str, int], today: dt.date) -> Calendar:
    """The year up to today; every day is there, also those without anything."""
    first = today - dt.timedelta(days=today.weekday() + 7 * (_WEEKS - 1))
    most = max(days.values(), default=0)
    cells, months = [], []
    for number in range((today - first).days + 1):
        day = first + dt.timedelta(days=number)
        column, line = divmod(number, 7)
        if day.day == 1:
            months.append((column * _CELL, _MONTHS[day.month - 1]))
        count = days.get(day.isoformat(), 0)
        step = 0 if not count else 1 + min(_STEPS * count // (most + 1), _STEPS - 1)
        cells.append(Cell(column * _CELL, 18 + line * _CELL, step, day.isoformat(), count))
    return Calendar(cells, months, _WEEKS * _CELL, 18 + 7 * _CELL)


def _chart(stats: Stats) -> dict[str, Any]:
    """The series that the charts draw, as plain numbers."""
    times = [
        int(dt.datetime.fromisoformat(one.start).replace(tzinfo=dt.UTC).timestamp())
        for one in stats.periods
    ]
    return {
        "times": times,
        "input": [one.input_tokens + one.cache_read_tokens + one.cache_write_tokens
                  for one in stats.periods],
        "output": [one.output_tokens for one in stats.periods],
        "cost": [one.cost for one in stats.periods],
        "messages": [one.messages for one in stats.periods],
    }  # fmt: skip
