"""The usage of sessions, as charts and tables."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

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
_TIME_WIDTH, _TIME_LEFT, _TIME_HEIGHT = 560, 50, 150
_BAR_MAX = 26.0
_GRID_LINES = 4
_DATES_MAX = 5


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
    """Return tokens, cost, activity and tools."""
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
    """Return the year up to today; every day is there, also those without anything."""
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
    """Return tokens and cost of each period, as columns."""
    starts = [one.start for one in stats.periods]
    given = [one.input_tokens + one.cache_read_tokens + one.cache_write_tokens for one in stats.periods]
    output = [one.output_tokens for one in stats.periods]
    both = [sum(pair) for pair in zip(given, output, strict=True)]
    costs = [one.cost or 0.0 for one in stats.periods]
    told = [f"{short(into)} in, {short(out)} out" for into, out in zip(given, output, strict=True)]
    tokens = _over_time(
        "tokens", "Tokens", starts, both, told=told, say=lambda value: short(round(value)), parts=output
    )
    dollars, prices = "Cost in US dollars", [price(cost) for cost in costs]
    cost = _over_time("cost", dollars, starts, costs, told=prices, say=lambda value: f"${value:g}")
    # Only words of ours are in them, and all are escaped.
    return [Chart("Tokens", Markup(tokens), has_parts=True), Chart(dollars, Markup(cost))]  # noqa: S704 - see above


def _over_time(
    id: str,
    title: str,
    starts: Sequence[str],
    values: Sequence[float],
    *,
    told: Sequence[str],
    say: Callable[[float], str],
    parts: Sequence[float] = (),
) -> str:
    """Return a chart as SVG with a column for each period, labelled ``told``, of which ``parts`` are dark.

    The style sheet of the page has the colours.
    """
    base = _TIME_HEIGHT
    top = max(values, default=0) or 1
    # Lines at round values (1, 2, 5, 10, 20, …), and the highest of them not below the highest column.
    least = top / _GRID_LINES
    ten = 10.0 ** math.floor(math.log10(least))
    step = next(ten * factor for factor in (1, 2, 5, 10) if ten * factor >= least * 0.999)
    top = step * math.ceil(top / step)
    scale = base / top
    pace = (_TIME_WIDTH - _TIME_LEFT - 6) / max(len(values), 1)
    wide = min(pace * 0.7, _BAR_MAX)
    drawn = []
    for count in range(round(top / step) + 1):
        y = base - count * step * scale
        drawn.append(_element("line", x1=_TIME_LEFT, x2=_TIME_WIDTH, y1=y, y2=y))
        said = escape(say(count * step))
        drawn.append(_element("text", said, class_="value", x=_TIME_LEFT - 6, y=y + 4))
    for number, value in enumerate(values):
        x = _TIME_LEFT + number * pace + (pace - wide) / 2
        heights = {"whole": max(value * scale, 1.0 if value else 0.0)}
        if parts and parts[number]:
            heights["dark"] = parts[number] * scale
        columns = [
            _element("rect", class_=name, x=x, y=base - high, width=wide, height=high, rx=2)
            for name, high in heights.items()
        ]
        words = escape(f"{starts[number]}: {told[number]}")
        drawn.append(_element("g", _element("title", words), *columns))
    every = max(1, -(-len(starts) // _DATES_MAX))
    for number in range(0, len(starts), every):
        x = _TIME_LEFT + (number + 0.5) * pace
        drawn.append(_element("text", escape(starts[number]), class_="date", x=x, y=base + 18))
    most = max(range(len(values)), key=values.__getitem__, default=0)
    about = f"{starts[0]} to {starts[-1]}; most on {starts[most]}: {told[most]}" if starts else ""
    return _element(
        "svg",
        _element("title", escape(f"{title} over time"), id=f"chart-{id}-title"),
        _element("desc", f"{escape(about)}. The table below has the figures.", id=f"chart-{id}-about"),
        *drawn,
        class_="chart",
        id=f"chart-{id}",
        viewBox=f"0 -10 {_TIME_WIDTH} {base + 34}",
        role="img",
        aria_labelledby=f"chart-{id}-title chart-{id}-about",
    )


def _element(name: str, *inside: str, **given: object) -> str:
    """Return an element; ``font_size`` becomes ``font-size``, and fractions are rounded to one digit."""
    pairs = (
        (key.rstrip("_").replace("_", "-"), f"{value:.1f}" if isinstance(value, float) else value)
        for key, value in given.items()
    )
    attributes = "".join(f' {key}="{escape(str(value))}"' for key, value in pairs)
    return f"<{name}{attributes}>{''.join(inside)}</{name}>" if inside else f"<{name}{attributes}/>"
