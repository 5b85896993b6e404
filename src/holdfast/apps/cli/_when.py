"""Times on the command line: dates, and how long ago."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import click

__all__ = ["When"]

_AGO = re.compile(r"(\d{1,6}) ?(min|m|h|d|w)\Z", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)
_SECONDS = {"m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}


class When(click.ParamType[datetime]):
    """A moment; a day without a time means its beginning, or its end with ``end``."""

    name = "when"

    def __init__(self, *, end: bool = False) -> None:
        self._end = end

    def convert(
        self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """The moment in the user's time zone."""
        if isinstance(value, datetime):
            return value
        try:
            return _moment(value.strip(), end=self._end)
        except (ValueError, OverflowError, OSError):
            self.fail(
                f"{value[:40]!a} is no date (2026-05-31) and no time ago (3d, 2h, 30m)", param
            )


def _moment(text: str, *, end: bool) -> datetime:
    found = _AGO.match(text)
    now = datetime.now().astimezone()
    if found:
        return now - timedelta(seconds=int(found[1]) * _SECONDS[found[2]])
    if text in ("today", "yesterday"):
        day = now - timedelta(days=1 if text == "yesterday" else 0)
        text = day.strftime("%Y-%m-%d")
    moment = datetime.fromisoformat(text)
    if end and _DAY.match(text):
        moment += timedelta(days=1, milliseconds=-1)
    return moment if moment.tzinfo else moment.astimezone()
