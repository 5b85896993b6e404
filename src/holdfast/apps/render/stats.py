"""Statistics as a page: a summary, charts, and tables."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from holdfast.apps.render.page import Canvas, Column, Piece, Span
from holdfast.apps.render.words import counted, day_time, duration, latency, short
from holdfast.catalog import Period, SessionFigures, Share, Stats, Timeline, ToolFigures, TopicCount, TurnFigures

_COLUMNS_MAX = 120
_CHART_ROWS = 6
_BAR = 16
_ROWS_MAX = 8
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_FEW_DAYS = 3
_WIDE = 84
T = TypeVar("T")
Shown = Sequence[tuple[Column, Callable[[T], Piece]]]  # the columns of a table, each with what it shows of a row
_figure = partial(Column, right=True)
_spared = partial(Column, right=True, spared=True)


def print_stats(page: Canvas, stats: Stats, width: int, name: Callable[[str], str] = str) -> None:
    """Print the whole page, with charts for the given width."""
    width = min(width, _COLUMNS_MAX)
    _summary(page, stats)
    _over_time(page, stats, width)
    _activity(page, stats, width)
    _shares(page, "Models", "MODEL", stats.models)
    if len(stats.agents) > 1:
        _shares(page, "Agents", "AGENT", stats.agents)
    if any(share.tokens for share in stats.tags):
        _shares(page, "Tags", "TAG", stats.tags)
    _tools(page, stats.tools)
    _topics(page, stats)
    _sessions(page, "Longest sessions", stats.longest, name)
    _sessions(page, "Most expensive sessions", stats.most_expensive, name)


def _heading(page: Canvas, text: str, note: str = "") -> None:
    page.line("")
    page.line(Span(text, "strong"), Span(f"  {note}" if note else "", "faint"))


def _summary(page: Canvas, stats: Stats) -> None:
    said = f"   {counted(stats.turns, 'turn')}   {counted(stats.messages, 'message')}"
    active = Span(f"   {duration(stats.active_ms)} active", "faint")
    page.line(Span(counted(stats.sessions, "session"), "strong"), said, active, hang=2)
    if stats.tokens:
        both = f"   {short(stats.input_tokens)} in   {short(stats.output_tokens)} out"
        cached = f"   {short(stats.cache_read_tokens)} cached" if stats.cache_read_tokens else ""
        requests = Span(f"   {counted(stats.requests, 'request')}", "faint")
        page.line(Span(f"{short(stats.tokens)} tokens", "strong"), both, cached, requests, hang=2)
    if stats.estimated_tokens:
        about = f"about {short(stats.estimated_tokens)} tokens"
        page.line(about, Span("   estimated, where no usage was reported", "faint"), hang=2)
    if stats.cost is not None:
        page.line(Span(f"{_money(stats.cost)}", "good"), _missing(stats), hang=2)
    elif stats.unpriced_tokens:
        page.line("cost unknown", _missing(stats), hang=2)
    if stats.unreadable:
        page.line(Span(f"{counted(stats.unreadable, 'session')} could not be counted", "warning"))


def _missing(stats: Stats) -> Span:
    if not stats.unpriced_tokens:
        return Span("")
    names = ", ".join(name or "(no name)" for name in stats.unpriced_models[:3])
    more = len(stats.unpriced_models) - 3
    rest = f" and {more} more" if more > 0 else ""
    text = f"   excludes {short(stats.unpriced_tokens)} tokens without a known price: {names}{rest}"
    return Span(text, "warning")


def _over_time(page: Canvas, stats: Stats, width: int) -> None:
    if not stats.periods:
        return
    use_tokens = stats.tokens > 0
    what = "Tokens" if use_tokens else "Messages"
    values = [one.tokens if use_tokens else one.messages for one in stats.periods]
    if len(values) <= _FEW_DAYS:
        _heading(page, f"{what} by {stats.by}")
        most = max(values)
        for period, value in zip(stats.periods, values, strict=True):
            start = Span(f"  {_named(period, stats.by):10}  ", "faint")
            cost = Span("" if period.cost is None else f"   {_money(period.cost)}", "faint")
            page.line(start, Span(bar(value, most, width // 2), "good"), f" {short(value)}", cost)
        return
    chart = columns(values, width - 10, _CHART_ROWS)
    left_out = len(values) - chart.shown
    note = f"the last {chart.shown} of {len(values)} {stats.by}s" if left_out else ""
    _heading(page, f"{what} by {stats.by}", note)
    most = max(values[-chart.shown :])
    for number, row in enumerate(chart.rows):
        mark = short(most) if number == 0 else "0" if number == len(chart.rows) - 1 else ""
        page.line(Span(f"{mark:>7} ", "faint"), Span(row, "good"))
    first, last = stats.periods[-chart.shown], stats.periods[-1]
    room = chart.shown * chart.per_value
    ends = _named(first, stats.by), _named(last, stats.by)
    space = max(1, room - len(ends[0]) - len(ends[1]))
    page.line(Span(f"        {ends[0]}{' ' * space}{ends[1]}", "faint"))


def _named(period: Period, by: str) -> str:
    return period.start[:7] if by == "month" else period.start


def _activity(page: Canvas, stats: Stats, width: int) -> None:
    if not any(stats.days.values()):
        return
    _heading(page, "Activity", f"messages; times of {stats.tz}")
    for row in calendar(stats.days, width - 2):
        page.line("  ", Span(row[:5], "faint"), Span(row[5:], "good"))
    page.line("")
    wide = width >= _WIDE
    if any(stats.hours):
        busiest = max(range(24), key=lambda hour: stats.hours[hour])
        line = "".join(char * (2 if wide else 1) for char in sparkline(stats.hours))
        page.line(
            Span("  Hours     ", "faint"), Span(line, "good"), Span(f"  most from {busiest} to {busiest + 1}", "faint")
        )
        axis = "".join(f"{hour:<{6 if wide else 3}}" for hour in range(0, 24, 3))
        page.line(Span(f"            {axis}", "faint"))
    most = max(stats.weekdays)
    days = (
        f"{name[: 3 if wide else 2]} {sparkline([value, most])[0] * (2 if wide else 1)}"
        for name, value in zip(_WEEKDAYS, stats.weekdays, strict=True)
    )
    page.line(
        Span("  Weekdays  ", "faint"),
        Span(("  " if wide else " ").join(days), "good"),
        Span(f"  most on {_WEEKDAYS[stats.weekdays.index(most)]}" if wide else "", "faint"),
    )


def _table(page: Canvas, rows: Sequence[T], columns: Shown[T], title: str = "") -> None:
    """Print rows, each column with what it shows of one; with a title only the first, and nothing if there are none."""
    if title and rows:
        _heading(page, title, f"the first {_ROWS_MAX} of {len(rows)}" if len(rows) > _ROWS_MAX else "")
        rows = rows[:_ROWS_MAX]
    if rows:
        page.table([column for column, _ in columns], [[cell(row) for _, cell in columns] for row in rows])


def _shares(page: Canvas, title: str, name: str, shares: Sequence[Share]) -> None:
    most = max((share.tokens for share in shares), default=0)
    columns: Shown[Share] = [
        (Column(name, flexible=True), lambda share: Span(share.name or "(no name)", "name")),
        (_spared("SESSIONS"), lambda share: f"{share.sessions:,}"),
        (_spared("INPUT"), lambda share: short(share.input_tokens)),
        (_spared("OUTPUT"), lambda share: short(share.output_tokens)),
        (
            _spared("CACHED", optional=True),
            lambda share: short(share.cache_read_tokens) if share.cache_read_tokens else "",
        ),
        (_figure("TOKENS"), lambda share: short(share.tokens)),
        (_figure("COST"), lambda share: _cost(share.cost, share.unpriced_tokens, share.tokens)),
        (Column("", spared=True), lambda share: Span(bar(share.tokens, most, _BAR), "good")),
    ]
    _table(page, shares, columns, title)


def _cost(cost: float | None, unpriced: int, tokens: int) -> Piece:
    if cost is None:
        return Span("unknown", "warning") if tokens else ""
    return Span(f"{_money(cost)} +?", "warning") if unpriced else _money(cost)


def _tools(page: Canvas, tools: Sequence[ToolFigures]) -> None:
    most = max((tool.calls for tool in tools), default=0)

    def failed(tool: ToolFigures) -> Span:
        rate = tool.failure_rate or 0.0
        return Span(f"{tool.failures:,} ({rate:.0%})" if tool.failures else "0", "bad" if rate > 1 / 4 else "")

    columns: Shown[ToolFigures] = [
        (Column("TOOL", flexible=True), lambda tool: Span(tool.name, "tool")),
        (_figure("CALLS"), lambda tool: f"{tool.calls:,}"),
        (_figure("FAILED"), failed),
        (_spared("MEDIAN"), lambda tool: at_most(tool, tool.median_ms)),
        (_spared("95 %"), lambda tool: at_most(tool, tool.p95_ms)),
        (_spared("LONGEST"), lambda tool: latency(tool.max_ms)),
        (Column("", spared=True), lambda tool: Span(bar(tool.calls, most, _BAR), "good")),
    ]
    _table(page, tools, columns, "Tools")


def _topics(page: Canvas, stats: Stats) -> None:
    most = stats.topics[0].sessions if stats.topics else 0
    columns: Shown[TopicCount] = [
        (Column("TOPIC", flexible=True), lambda one: Span(one.tag, "name")),
        (_figure("SESSIONS"), lambda one: f"{one.sessions:,}"),
        (Column("", spared=True), lambda one: Span(bar(one.sessions, most, _BAR), "good")),
    ]
    _table(page, stats.topics, columns, "Topics")


def _sessions(page: Canvas, title: str, sessions: Sequence[SessionFigures], name: Callable[[str], str]) -> None:
    columns: Shown[SessionFigures] = [
        (Column("ID", middle=True, least=20), lambda one: Span(name(one.session_id), "name")),
        (Column("TITLE", flexible=True), lambda one: one.title or ""),
        (_spared("TURNS"), lambda one: f"{one.turns:,}"),
        (_spared("ACTIVE"), lambda one: duration(one.active_ms)),
        (_figure("TOKENS"), lambda one: short(one.tokens)),
        (_figure("COST"), lambda one: _cost(one.cost, one.unpriced_tokens, one.tokens)),
    ]
    _table(page, sessions[: _ROWS_MAX - 3], columns, title)


def print_timeline(page: Canvas, timeline: Timeline) -> None:
    """Print one session turn by turn."""
    cost = "" if timeline.cost is None else f"   {_money(timeline.cost)}"
    if timeline.unpriced_tokens:
        cost = "   cost unknown"
    page.line(
        Span(timeline.session_id, "name"),
        f"   {counted(len(timeline.turns), 'turn')}   {short(timeline.tokens)} tokens{cost}",
        Span(f"   {duration(timeline.active_ms)} active", "faint"),
    )
    if not timeline.turns:
        return
    page.line("")
    longest = max(turn.duration_ms for turn in timeline.turns)
    columns: Shown[TurnFigures] = [
        (_figure("SEQ"), lambda turn: Span(str(turn.seq), "faint")),
        (Column("START", spared=True), lambda turn: Span(day_time(turn.start), "faint")),
        (_spared("PAUSE", optional=True), _pause),
        (_figure("TOOK"), lambda turn: latency(turn.duration_ms)),
        (Column("", spared=True), lambda turn: Span(bar(turn.duration_ms, longest, 10), "good")),
        (_figure("TOKENS", optional=True), lambda turn: short(turn.tokens) if turn.tokens else ""),
        (_spared("COST", optional=True), lambda turn: "" if turn.cost is None else _money(turn.cost)),
        (Column("TOOLS", flexible=True, optional=True), _used),
        (Column("PROMPT", flexible=True), lambda turn: turn.prompt),
    ]
    _table(page, timeline.turns, columns)


def _pause(turn: TurnFigures) -> Span:
    return Span(duration(turn.pause_ms) if turn.pause_ms >= 1000 else "", "faint")


def _used(turn: TurnFigures) -> Span:
    tools = ", ".join(name if calls == 1 else f"{name} x{calls}" for name, calls in turn.tools.items())
    failed = f" ({turn.failures} failed)" if turn.failures else ""
    return Span(tools + failed, "bad" if turn.failures else "tool")


def _money(dollars: float) -> str:
    if 0 < dollars < 0.01:
        return "<$0.01"
    return f"${dollars:,.2f}"


def at_most(tool: ToolFigures, ms: float | None) -> str:
    """Return a median or a quantile of a tool: ``1.5 s``, or ``≤ 3.0 s`` where only a bound of it is known."""
    return latency(ms) if tool.is_exact or ms is None else f"≤ {latency(ms)}"


# Figures drawn with characters: bars, sparklines, columns, a calendar. Pure: numbers to text.
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = " ▁▂▃▄▅▆▇█"
_SHADES = "·░▒▓█"
_WEEK = 7
_MONTH_CHARS = 3


def bar(value: float, most: float, width: int) -> str:
    """Return a bar of at most ``width`` characters; anything above nothing is seen."""
    # Zero is no bar, and everything else at least an eighth of a character.
    if value <= 0 or most <= 0:
        return ""
    eighths = max(1, round(width * 8 * min(value / most, 1)))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def sparkline(values: Sequence[float]) -> str:
    """Return one character for each value, as high as its share of the largest."""
    most = max(values, default=0)
    if most <= 0:
        return " " * len(values)
    return "".join(_LEVELS[max(1, round(8 * value / most))] for value in values)


class Columns(msgspec.Struct, frozen=True):
    """A chart of columns, from top to bottom, and how many values there was room for."""

    rows: list[str]
    shown: int
    per_value: int  # characters of one value


def columns(values: Sequence[float], width: int, height: int) -> Columns:
    """Return the newest of the values, one beside the other, as wide as there is room."""
    per_value = max(1, min(4, width // max(len(values), 1)))
    shown = min(len(values), width // per_value)
    kept = values[-shown:] if shown else []
    most = max(kept, default=0)
    # In eighths of a character; whatever is more than nothing is seen.
    heights = [max(1, round(value / most * height * 8)) if value > 0 else 0 for value in kept]
    gap = " " if per_value > 1 else ""
    rows = []
    for below in range((height - 1) * 8, -1, -8):
        cells = (_LEVELS[max(0, min(8, high - below))] for high in heights)
        rows.append("".join(cell * (per_value - len(gap)) + gap for cell in cells).rstrip())
    return Columns(rows, shown, per_value)


def calendar(days: Mapping[str, int], width: int) -> list[str]:
    """Return a row for each weekday, a column for each week up to the last day with activity.

    The first row names the months. How dark a day is says how much happened.
    """
    if not days:
        return []
    last = dt.date.fromisoformat(max(days))
    weeks = max(1, min(53, (width - 5) // 2))
    first_active = dt.date.fromisoformat(min(days))
    monday = last - dt.timedelta(days=last.weekday())
    needed = (monday - first_active).days // _WEEK + 2 if monday > first_active else 1
    # At most as many as the calendar has before that day.
    weeks = min(weeks, max(needed, min(weeks, 12)), max(1, monday.toordinal() // _WEEK))
    mondays = [monday - dt.timedelta(weeks=number) for number in range(weeks - 1, -1, -1)]
    # Thresholds of the shades, by the quartiles of the active days.
    active = sorted(count for count in days.values() if count > 0)
    bounds = [active[len(active) * quarter // 4] for quarter in (1, 2, 3)] if active else []
    rows = [_months(mondays)]
    for weekday, name in enumerate(("Mon", "", "Wed", "", "Fri", "", "Sun")):
        shades = (_shade(days, start, weekday, last, bounds) for start in mondays)
        rows.append(f"{name:4} {' '.join(shades)}".rstrip())
    return rows


def _months(mondays: Sequence[dt.date]) -> str:
    """Return the name of a month above the first week that begins in it, where there is room."""
    line = [" "] * (5 + 2 * len(mondays) + _MONTH_CHARS)
    free = 0
    for number, monday in enumerate(mondays):
        before = mondays[number - 1].month if number else 0
        after = mondays[number + 1].month if number + 1 < len(mondays) else monday.month
        place = 5 + 2 * number
        if before != monday.month == after and place >= free:
            line[place : place + _MONTH_CHARS] = monday.strftime("%b")
            free = place + _MONTH_CHARS + 1
    return "".join(line).rstrip()


def _shade(days: Mapping[str, int], monday: dt.date, weekday: int, last: dt.date, bounds: Sequence[int]) -> str:
    if (last - monday).days < weekday:
        return " "
    count = days.get((monday + dt.timedelta(days=weekday)).isoformat(), 0)
    return _SHADES[1 + sum(count >= bound for bound in bounds)] if count > 0 else _SHADES[0]
