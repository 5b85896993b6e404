"""Numbers, sizes and times as people say them, and the trees that forks make."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

TYPE_CHECKING = False  # the command's quick start loads this, and loading `typing` takes longer
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.model import SessionMetadata

_MS = 1000
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_RELATIVE_DAYS_MAX = 30
_UNITS = ("kB", "MB", "GB", "TB", "PB")
_STEP = 1000


def counted(number: int, word: str, plural: str | None = None) -> str:
    """Return a count with its noun: ``1 event``, ``2,000 events``."""
    return f"{number:,} {word if number == 1 else plural or word + 's'}"


def short(number: int) -> str:
    """Return a number for a narrow column: ``950``, ``12.3k``, ``4.1M``."""
    if number < _STEP:
        return str(number)
    for unit in ("k", "M", "G"):
        scaled = number / _STEP
        if scaled < _STEP or unit == "G":
            return f"{scaled:.1f}{unit}" if scaled < 100 else f"{scaled:.0f}{unit}"
        number = round(scaled)
    raise AssertionError


def size(count: int) -> str:
    """Return a size such as ``512 bytes`` or ``1.4 MB``."""
    if count < _STEP:
        return counted(count, "byte")
    scaled = float(count)
    for unit in _UNITS:
        scaled /= _STEP
        if scaled < _STEP or unit == _UNITS[-1]:
            break
    return f"{scaled:.1f} {unit}"


def price(cost: float | None) -> str:
    """Return a price such as ``$1.23``, with more digits below a cent; empty if unknown."""
    if cost is None:
        return ""
    return f"${cost:,.2f}" if cost >= 0.01 or not cost else f"${cost:.1g}"


def latency(ms: float | None) -> str:
    """Return how long something took: ``12 ms``, ``1.5 s``; nothing for None."""
    if ms is None:
        return ""
    if ms < 1000:
        return f"{ms:.0f} ms"
    return f"{ms / 1000:.1f} s" if ms < 60_000 else duration(ms)


def duration(ms: float) -> str:
    """Return a span of time: ``45 s``, ``12 min``, ``3 h 20``, ``2 d 4 h``."""
    minutes, seconds = divmod(int(ms // 1000), 60)
    hours, minutes = divmod(minutes, 60)
    days, rest = divmod(hours, 24)
    if days:
        return f"{days:,} d {rest} h"
    if hours:
        return f"{hours} h {minutes:02}"
    return f"{minutes} min" if minutes else f"{seconds} s"


def ago(time_ms: int, now_ms: int) -> str:
    """Return a time as ``just now``, ``5 min ago``, ``3 h ago`` or ``2 d ago``, or as a date if it is older."""
    if not time_ms:
        return ""
    seconds = (now_ms - time_ms) // _MS
    if seconds < -_MINUTE or seconds >= _RELATIVE_DAYS_MAX * _DAY:
        return _local(time_ms).strftime("%Y-%m-%d")
    if seconds < _MINUTE:
        return "just now"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE} min ago"
    if seconds < _DAY:
        return f"{seconds // _HOUR} h ago"
    return f"{seconds // _DAY} d ago"


def day_time(time_ms: int) -> str:
    """Return a time such as ``2026-05-01 14:03:09`` in the user's time zone; empty if unknown."""
    return _local(time_ms).strftime("%Y-%m-%d %H:%M:%S") if time_ms else ""


def clock(time_ms: int) -> str:
    """Return a time of day such as ``14:03:09`` in the user's time zone; empty if unknown."""
    return _local(time_ms).strftime("%H:%M:%S") if time_ms else ""


def _local(time_ms: int) -> datetime:
    """Return the time; a log may claim anything, so what no calendar has becomes its nearest end."""
    seconds = min(max(time_ms / _MS, 0), 253_402_214_400)
    return datetime.fromtimestamp(seconds, UTC).astimezone()


# Times as people write them: a date, a date with a time, or how long ago.
_SECONDS = {"m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}


def moment_of(text: str, *, end: bool = False) -> datetime:
    """Return the moment, in the user's time zone if none is named.

    A day without a time means its beginning, or its end with ``end``. Raises ValueError,
    OverflowError or OSError for what is no time.
    """
    import re  # late: the quick list of the command shows times, and reads none

    found = re.match(r"(\d{1,6}) ?(min|m|h|d|w)\Z", text, re.ASCII)
    now = datetime.now().astimezone()
    if found:
        return now - timedelta(seconds=int(found[1]) * _SECONDS[found[2]])
    if text in ("today", "yesterday"):
        day = now - timedelta(days=1 if text == "yesterday" else 0)
        text = day.strftime("%Y-%m-%d")
    moment = datetime.fromisoformat(text)
    if end and re.match(r"\d{4}-\d\d-\d\d\Z", text, re.ASCII):
        moment += timedelta(days=1, milliseconds=-1)
    return moment if moment.tzinfo else moment.astimezone()


# Sessions as the trees that their forks make. Deeper ones stand below each other, so that the lines still fit on a
# screen. Pure.
_DEPTH_SHOWN_MAX = 10


def forest(rows: Sequence[SessionMetadata]) -> Iterator[tuple[str, SessionMetadata]]:
    """Yield each row once, below its parent, with the branches to draw before it.

    Rows keep their order among those of one parent. One whose parent is not among the rows stands
    by itself, and so does one of a circle that hostile data claims.
    """
    known = {row.session_id: row for row in rows}
    children: dict[str, list[SessionMetadata]] = {}
    roots = []
    for row in rows:
        if row.parent in known and row.parent != row.session_id:
            children.setdefault(row.parent or "", []).append(row)
        else:
            roots.append(row)
    shown: set[str] = set()
    # All rows once more behind the roots: one of a circle has no root above it.
    for row in [*roots, *rows]:
        yield from _tree(row, children, shown)


def _tree(
    root: SessionMetadata, children: dict[str, list[SessionMetadata]], shown: set[str]
) -> Iterator[tuple[str, SessionMetadata]]:
    waiting = [("", "", root)]
    while waiting:
        mark, below, row = waiting.pop()
        if row.session_id in shown:
            continue
        shown.add(row.session_id)
        yield mark, row
        found = [one for one in children.get(row.session_id, []) if one.session_id not in shown]
        deep = len(below) >= 3 * _DEPTH_SHOWN_MAX
        for index, child in reversed(list(enumerate(found))):
            last = index == len(found) - 1
            edge, trunk = ("└─ ", "   ") if last else ("├─ ", "│  ")
            waiting.append((below + edge, below if deep else below + trunk, child))
