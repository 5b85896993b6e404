"""The usage of sessions, as charts and tables."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from holdfast.apps.render.charts import over_time
from holdfast.apps.render.words import price, short
from holdfast.apps.web._page import Site, page, site_of
from holdfast.catalog import Stats

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


class Chart(NamedTuple):
    """A picture with its heading; with ``has_parts`` a part of each column is dark."""

    title: str
    picture: Markup
    has_parts: bool = False


class Cell(NamedTuple):
    """One day of the calendar; ``step`` is 0 for nothing to 4 for the busiest."""

    x: int
    y: int
    step: int
    day: str
    messages: int


class YearCalendar(NamedTuple):
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
        charts=charts_of(stats),
        calendar=calendar_of(year.days, dt.datetime.now().astimezone().date()),
        busiest=max(stats.hours, default=0) or 1,
        most_calls=max((tool.calls for tool in stats.tools), default=0) or 1,
    )


def _stats(site: Site, days: int | None, by: str) -> Stats:
    since = None if days is None else dt.datetime.now(dt.UTC) - dt.timedelta(days=days)
    return site.hf.stats(since, by=by)  # type: ignore[arg-type]  # one of its words


def store_page(request: Request) -> Response:
    """Show where the store is and its condition."""
    site = site_of(request)
    return page(request, "store.html", checks=list(site.checks()), health=site.hf.catalog_health())


def calendar_of(days: dict[str, int], today: dt.date) -> YearCalendar:
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
        # Something is never shown as nothing, however busy another day was.
        step = 0 if not count else 1 + min(_STEPS * count // (most + 1), _STEPS - 1)
        cells.append(Cell(column * _CELL, 18 + line * _CELL, step, day.isoformat(), count))
    return YearCalendar(cells, months, _WEEKS * _CELL, 18 + 7 * _CELL)


def charts_of(stats: Stats) -> list[Chart]:
    """Tokens and cost of each period, as columns."""
    starts = [one.start for one in stats.periods]
    given = [one.input_tokens + one.cache_read_tokens + one.cache_write_tokens for one in stats.periods]
    output = [one.output_tokens for one in stats.periods]
    both = [sum(pair) for pair in zip(given, output, strict=True)]
    costs = [one.cost or 0.0 for one in stats.periods]
    told = [f"{short(into)} in, {short(out)} out" for into, out in zip(given, output, strict=True)]
    tokens = over_time("tokens", "Tokens", starts, both, told=told, say=lambda value: short(round(value)), parts=output)
    dollars, prices = "Cost in US dollars", [price(cost) for cost in costs]
    cost = over_time("cost", dollars, starts, costs, told=prices, say=lambda value: f"${value:g}")
    # Only words of ours are in them, and all are escaped.
    return [Chart("Tokens", Markup(tokens), has_parts=True), Chart(dollars, Markup(cost))]  # noqa: S704 - see above
