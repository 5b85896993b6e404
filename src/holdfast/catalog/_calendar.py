"""Hours in UTC as days, weeks and months of a time zone."""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

from holdfast.errors import UsageError

_PERIODS_FILLED_MAX = 20_000
_PRINTED_UNTIL_S = 2_524_608_000  # the year 2050
_DAY = dt.timedelta(days=1)


class Moment(NamedTuple):
    """An hour as people of a time zone call it; a weekday of 0 is Monday."""

    date: dt.date
    hour: int

    @property
    def day(self) -> str:
        """``2026-05-31``."""
        return self.date.isoformat()

    @property
    def weekday(self) -> int:
        """0 for Monday to 6 for Sunday."""
        return self.date.weekday()

    def period(self, by: str) -> str:
        """The first day of the day, week or month that this is in."""
        return _start(self.date, by).isoformat()


class Calendar:
    """The days of a time zone; that of this machine if none is named."""

    def __init__(self, tz: str | dt.tzinfo | None = None) -> None:
        self._tz = _zone(tz)
        self.name = _name(self._tz)

    def moment(self, hour: int) -> Moment:
        """An hour since 1970, in UTC, as it is called here."""
        try:
            found = dt.datetime.fromtimestamp(hour * 3600, dt.UTC).astimezone(self._tz)
        except (OverflowError, ValueError, OSError):  # at the ends of the calendar
            found = dt.datetime.fromtimestamp(hour * 3600, dt.UTC)
        return Moment(found.date(), found.hour)

    @property
    def print(self) -> str:
        """What tells it from one whose days are others: the time zone of this machine has no name.

        By how far it is from UTC, week after week.
        """
        return _print(self._tz, dt.datetime.now().astimezone().tzname())

    def fill(self, starts: list[str], by: str) -> list[str]:
        """The periods from the first to the last, none left out while there are not too many."""
        if not starts:
            return []
        first, last = dt.date.fromisoformat(min(starts)), dt.date.fromisoformat(max(starts))
        if (last - first).days > _PERIODS_FILLED_MAX:
            return sorted(starts)
        found, day = [first.isoformat()], first
        while day < last:
            day = _after(day, by)
            found.append(day.isoformat())
        return found


@lru_cache(8)
def _print(zone: dt.tzinfo | None, _now: str | None) -> str:
    """``_now`` tells the zones of this machine apart, if it is set to another one meanwhile."""
    weeks = range(0, _PRINTED_UNTIL_S, 7 * 86_400)
    times = (dt.datetime.fromtimestamp(second, dt.UTC).astimezone(zone) for second in weeks)
    return f"{crc32(repr([time.utcoffset() for time in times]).encode()):08x}"


def _start(day: dt.date, by: str) -> dt.date:
    if by == "week":
        return day - dt.timedelta(days=day.weekday()) if day.toordinal() > day.weekday() else day
    return day.replace(day=1) if by == "month" else day


def _after(day: dt.date, by: str) -> dt.date:
    if by == "month":
        return (day.replace(day=28) + dt.timedelta(days=4)).replace(day=1)
    return day + (7 * _DAY if by == "week" else _DAY)


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
        raise UsageError(
            f"there is no time zone {tz[:60]!a}", remedy="Name one such as Europe/Zurich, or UTC."
        ) from error


def _name(zone: dt.tzinfo | None) -> str:
    if zone is None:
        return dt.datetime.now().astimezone().tzname() or "local"
    return str(zone)
