"""The usage in each hour of a session, by model and tool, and its cost.

Hours are counted in UTC since 1970; the display chooses the time zone. However long a
session lasts, it keeps a bounded number of figures: the oldest hours are then added up into days,
later into months and years.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from functools import lru_cache
from time import localtime
from typing import Any
from zlib import crc32

import msgspec

from holdfast.errors import UsageError
from holdfast.replay import Tokens, add_usage

HOUR_MS = 3_600_000
OTHERS = "(others)"  # stands for the models or tools of a session beyond the number that is kept apart
LATENCY_BOUNDS_MS = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 60_000, 300_000, 900_000)
"""A call that took less than the n-th bound, and no less than the one before, is in bucket n."""

NAME_CHARS_MAX = 120
_HOUR_LAST = 253_402_300_799 // 3600  # the end of the year 9999
_CELLS_MAX = 1024
_CELLS_AIM = 512
_HOURS_FINE = 96  # the number of newest hours that are kept as hours
_NAMES_MAX = 48
_FIGURE_MAX = 10**12  # of one report, so that a session's sum always fits 64 bits
# Under these names a provider counts what it read from its cache in addition to the input.
_BESIDE_INPUT = frozenset({"cache_read_input_tokens", "cache_creation_input_tokens"})


class Spent(msgspec.Struct, array_like=True, gc=False):
    """The usage of requests to one model; ``fresh`` is the input that no cache had."""

    input: int = 0
    output: int = 0
    total: int = 0
    cache_read: int = 0
    cache_write: int = 0
    fresh: int = 0
    requests: int = 0
    cost: float = 0.0  # the cost in the log itself

    def add(self, other: Spent) -> None:
        self.input += other.input
        self.output += other.output
        self.total += other.total
        self.cache_read += other.cache_read
        self.cache_write += other.cache_write
        self.fresh += other.fresh
        self.requests += other.requests
        self.cost += other.cost


def told_tokens(count: Any) -> int | None:
    """Return the token count recorded in a message; None if there is none."""
    return min(count, _FIGURE_MAX) if type(count) is int and count >= 0 else None


class ToolHours(msgspec.Struct, array_like=True):
    """The use of one tool: calls, ends, failures, and the known durations."""

    calls: int = 0
    finished: int = 0
    failures: int = 0
    timed: int = 0
    total_ms: int = 0
    max_ms: int = 0
    buckets: list[int] = []

    def add(self, other: ToolHours) -> None:
        self.calls += other.calls
        self.finished += other.finished
        self.failures += other.failures
        self.timed += other.timed
        self.total_ms += other.total_ms
        self.max_ms = max(self.max_ms, other.max_ms)
        if other.buckets:
            mine = self.buckets or [0] * len(other.buckets)
            self.buckets = [a + b for a, b in zip(mine, other.buckets, strict=True)]

    def finish(self, took_ms: int | None, *, failed: bool) -> None:
        """Count the end of a call; None if its duration is unknown."""
        self.finished += 1
        self.failures += failed
        if took_ms is None:
            return
        if not self.buckets:
            self.buckets = [0] * (len(LATENCY_BOUNDS_MS) + 1)
        self.timed += 1
        self.total_ms += min(took_ms, _FIGURE_MAX)
        self.max_ms = max(self.max_ms, min(took_ms, _FIGURE_MAX))
        self.buckets[sum(took_ms >= bound for bound in LATENCY_BOUNDS_MS)] += 1


class Hour(msgspec.Struct, array_like=True):
    """The figures of one hour. ``paid`` are the requests whose cost is in the log."""

    messages: int = 0
    asked: int = 0  # messages of the user among them
    turns: int = 0
    spent: dict[str, Spent] = {}
    paid: dict[str, Spent] = {}
    tools: dict[str, ToolHours] = {}
    estimated: int = 0  # estimated tokens of its messages; counts if none were reported

    def add(self, other: Hour) -> None:
        self.messages += other.messages
        self.asked += other.asked
        self.turns += other.turns
        self.estimated += other.estimated
        add_all(self.spent, other.spent, Spent, bounded=True)
        add_all(self.paid, other.paid, Spent, bounded=True)
        add_all(self.tools, other.tools, ToolHours, bounded=True)

    def cells(self) -> int:
        return 1 + len(self.spent) + len(self.paid) + len(self.tools)


def hour_of(hour: int) -> int:
    """Return the hour, in UTC; a log may claim any time, so it ends where calendars do."""
    return min(max(hour, 0), _HOUR_LAST)


def add_all(mine: dict[str, Any], others: Mapping[str, Any], new: Callable[[], Any], *, bounded: bool = False) -> None:
    """Add other figures, each under its name or, if they are bounded, where there is room for it."""
    for name, other in others.items():
        key = room_for(mine, name) if bounded else name
        one = mine.get(key)
        if one is None:
            one = mine[key] = new()
        one.add(other)


def room_for(known: dict[str, Any], name: str) -> str:
    """Return the name under which figures are kept: its own while there is room, else that of others."""
    return name if name in known or len(known) < _NAMES_MAX else OTHERS


def weigh(figures: dict[str, Any], model: Any) -> tuple[str, Spent, bool]:
    """Return a provider's report, read as the state reads it: the model, the usage, whether its cost is named."""
    found: dict[str, Tokens] = {}
    add_usage(found, figures, model)
    name, tokens = next(iter(found.items()))
    fresh = tokens.input_tokens
    if _BESIDE_INPUT.isdisjoint(figures):
        fresh = max(fresh - tokens.cache_read_tokens - tokens.cache_write_tokens, 0)
    *used, requests, cost = msgspec.structs.astuple(tokens)
    spent = Spent(*[min(figure, _FIGURE_MAX) for figure in (*used, fresh, requests)])
    spent.cost = cost or 0.0
    return name[:NAME_CHARS_MAX], spent, cost is not None


def coarsen(hours: dict[int, Hour], coarse_until: int) -> tuple[dict[int, Hour], int]:
    """Return the hours, the oldest of them added up if they are too many; and up to which that is so."""
    if len(hours) < _HOURS_FINE or sum(hour.cells() for hour in hours.values()) <= _CELLS_MAX:
        return hours, coarse_until
    oldest_fine = sorted(hours)[-_HOURS_FINE // 2]
    for middle in _MIDDLES:
        found: dict[int, Hour] = {}
        for key in sorted(hours):
            place = key if key >= oldest_fine else min(_moved(key, middle), oldest_fine - 1)
            found.setdefault(place, Hour()).add(hours[key])
        hours = found
        if sum(hour.cells() for hour in hours.values()) <= _CELLS_AIM:
            break
    return hours, max(coarse_until, oldest_fine)


# The middle of a day, a month, a year, and of all time. Noon, so that it stays the same day nearly everywhere on earth.
_MIDDLES: tuple[dict[str, Any] | None, ...] = ({}, {"day": 15}, {"day": 1, "month": 7}, None)


def _moved(hour: int, middle: dict[str, Any] | None) -> int:
    if middle is None:
        return 0
    return int(dt.datetime.fromtimestamp(hour * 3600, dt.UTC).replace(hour=12, **middle).timestamp()) // 3600


# Hours in UTC as days, weeks and months of a time zone.
_PERIODS_FILLED_MAX = 20_000
_PRINTED_UNTIL_S = 2_524_608_000  # the year 2050


class Moment(msgspec.Struct, frozen=True):
    """An hour in a time zone."""

    date: dt.date
    hour: int

    def period(self, by: str) -> str:
        """Return the first day of the day, week or month that this is in."""
        day = self.date
        if by == "week" and day.toordinal() > day.weekday():
            day -= dt.timedelta(days=day.weekday())
        return (day.replace(day=1) if by == "month" else day).isoformat()


class Calendar:
    """The days of a time zone; that of this machine by default."""

    def __init__(self, tz: str | dt.tzinfo | None = None) -> None:
        self._tz = _zone(tz)
        self.name = str(self._tz or dt.datetime.now().astimezone().tzname() or "local")

    def moment(self, hour: int) -> Moment:
        """Return an hour since 1970, in UTC, in this zone."""
        try:
            found = dt.datetime.fromtimestamp(hour * 3600, dt.UTC).astimezone(self._tz)
        except (OverflowError, ValueError, OSError):  # at the ends of the calendar
            found = dt.datetime.fromtimestamp(hour * 3600, dt.UTC)
        return Moment(found.date(), found.hour)

    @property
    def print(self) -> str:
        """The fingerprint of its days: its offset from UTC, week after week, since local zones have no name."""
        return _print(self._tz, dt.datetime.now().astimezone().tzname())

    def fill(self, starts: list[str], by: str) -> list[str]:
        """Return the periods from the first to the last, none left out while there are not too many."""
        if not starts:
            return []
        first, last = dt.date.fromisoformat(min(starts)), dt.date.fromisoformat(max(starts))
        if (last - first).days > _PERIODS_FILLED_MAX:
            return sorted(starts)
        found, day = [first.isoformat()], first
        while day < last:
            if by == "month":
                day = (day.replace(day=28) + dt.timedelta(days=4)).replace(day=1)
            else:
                day += dt.timedelta(days=7 if by == "week" else 1)
            found.append(day.isoformat())
        return found


@lru_cache(8)
def _print(zone: dt.tzinfo | None, _now: str | None) -> str:
    """Compute the fingerprint; ``_now`` keeps local zones apart if the machine is set to another one meanwhile."""
    weeks = range(0, _PRINTED_UNTIL_S, 7 * 86_400)
    offsets: list[Any]
    if zone is None:
        offsets = [localtime(second).tm_gmtoff for second in weeks]  # in a quarter of the time that datetimes take
    else:
        offsets = [dt.datetime.fromtimestamp(second, zone).utcoffset() for second in weeks]
    return f"{crc32(repr(offsets).encode()):08x}"


def _zone(tz: str | dt.tzinfo | None) -> dt.tzinfo | None:
    if tz is None or isinstance(tz, dt.tzinfo):
        return tz
    if not isinstance(tz, str):
        raise UsageError(f"a time zone is a name or a tzinfo, not {type(tz).__name__}")
    if tz.upper() == "UTC":
        return dt.UTC
    import zoneinfo

    try:
        return zoneinfo.ZoneInfo(tz)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError) as error:
        remedy = "Name one such as Europe/Zurich, or UTC."
        raise UsageError(f"there is no time zone {tz[:60]!a}", remedy=remedy) from error
