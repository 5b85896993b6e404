"""Times as people write them: a date, a date with a time, or how long ago."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

__all__ = ["moment_of"]

_AGO = re.compile(r"(\d{1,6}) ?(min|m|h|d|w)\Z", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)
_SECONDS = {"m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}


def moment_of(text: str, *, end: bool = False) -> datetime:
    """The moment, in the user's time zone if none is named.

    A day without a time means its beginning, or its end with ``end``. Raises ValueError,
    OverflowError or OSError for what is no time.
    """
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
