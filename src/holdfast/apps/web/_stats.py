"""What sessions used, as charts and tables."""

from __future__ import annotations

import datetime as dt
import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from holdfast.apps.render.words import price, short
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
_CHART_WIDE, _PLOT_LEFT, _PLOT_WIDE, _PLOT_HIGH = 560, 50, 504, 150
_BAR_MAX = 26.0
_GRID_LINES = 4
_DATES_MAX = 5
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()  # noqa: SIM905 - easier to read


class Bar(NamedTuple):
    """One period of a chart: where it stands, how high it is, how much of that is dark."""

    x: float
    width: float
    high: float
    dark: float
    told: str


class Chart(NamedTuple):
    """Bars over time with the lines and words around them, in the units of the drawing."""

    id: str
    title: str
    about: str
    bars: list[Bar]
    grid: list[tuple[float, str]]
    dates: list[tuple[float, str]]
    has_parts: bool
    base: int = _PLOT_HIGH
    width: int = _CHART_WIDE


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
    since = None if days is None else time.time() - days * _DAY_S
    return site.hf.stats(since, by=by)  # type: ignore[arg-type]  # one of its words


def store_page(request: Request) -> Response:
    """Where the store is and how it is."""
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
        step = 0 if not count else 1 + min(_STEPS * count // (most + 1), _STEPS - 1)
        cells.append(Cell(column * _CELL, 18 + line * _CELL, step, day.isoformat(), count))
    return YearCalendar(cells, months, _WEEKS * _CELL, 18 + 7 * _CELL)


def charts_of(stats: Stats) -> list[Chart]:
    """Tokens and cost of each period, as bars."""
    starts = [one.start for one in stats.periods]
    given = [
        one.input_tokens + one.cache_read_tokens + one.cache_write_tokens for one in stats.periods
    ]
    output = [one.output_tokens for one in stats.periods]
    both = [sum(pair) for pair in zip(given, output, strict=True)]
    costs = [one.cost or 0.0 for one in stats.periods]
    told = [f"{short(into)} in, {short(out)} out" for into, out in zip(given, output, strict=True)]
    prices = [price(cost) for cost in costs]
    return [
        _chart(
            "tokens", "Tokens", starts, both,
            parts=output, told=told, say=lambda value: short(round(value)),
        ),
        _chart(
            "cost", "Cost in US dollars", starts, costs,
            told=prices, say=lambda value: f"${value:g}",
        ),
    ]  # fmt: skip


def _chart(
    id: str,
    title: str,
    starts: Sequence[str],
    values: Sequence[float],
    *,
    told: Sequence[str],
    say: Callable[[float], str],
    parts: Sequence[float] = (),
) -> Chart:
    """A bar for each value; ``parts`` are what is dark in them."""
    top = max(values, default=0) or 1
    step = _round_step(top / _GRID_LINES)
    top = step * math.ceil(top / step)
    scale = _PLOT_HIGH / top
    pace = _PLOT_WIDE / max(len(values), 1)
    wide = min(pace * 0.7, _BAR_MAX)
    bars = []
    for number, value in enumerate(values):
        high = max(value * scale, 1.0 if value else 0.0)
        dark = parts[number] * scale if parts else 0.0
        x = _PLOT_LEFT + number * pace + (pace - wide) / 2
        bars.append(Bar(x, wide, high, dark, f"{starts[number]}: {told[number]}"))
    grid = [
        (_PLOT_HIGH - line * step * scale, say(line * step))
        for line in range(round(top / step) + 1)
    ]
    every = max(1, -(-len(starts) // _DATES_MAX))
    dates = [
        (_PLOT_LEFT + (number + 0.5) * pace, starts[number])
        for number in range(0, len(starts), every)
    ]
    most = max(range(len(values)), key=values.__getitem__, default=0)
    about = f"{starts[0]} to {starts[-1]}; most on {starts[most]}: {told[most]}" if starts else ""
    return Chart(id, title, about, bars, grid, dates, bool(parts))


def _round_step(least: float) -> float:
    """The first of 1, 2, 5, 10, 20, … that is not less."""
    ten = 10.0 ** math.floor(math.log10(least))
    return next(ten * factor for factor in (1, 2, 5, 10) if ten * factor >= least * 0.999)
