"""Progress of long operations: on a terminal only, and removed when they are done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO, TypeVar

from holdfast.apps.cli._screen import Screen
from holdfast.apps.render.words import size

T = TypeVar("T")
_QUIET_SECONDS = 0.5
_REDRAW_SECONDS = 0.1
_WINDOW_SECONDS = 20.0
_BAR_CHARS = 20
_MINUTE, _HOUR = 60, 3600
_CLEAR = "\r\x1b[K"  # to the beginning of the line, and nothing on it


class Meter:
    """One line that says how far work is, how fast, and how long it will take; nothing of what is soon done."""

    def __init__(
        self, screen: Screen, what: str, *, in_bytes: bool = False, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._screen = screen
        self._what = what
        self._in_bytes = in_bytes
        self._now = now
        self._started = now()
        self._drawn_at = -_REDRAW_SECONDS
        self._is_shown = False
        # The progress at recent times: the pace is that of the last seconds.
        self._marks: list[tuple[float, int]] = []

    def update(self, done: int, total: int) -> None:
        """Show it, if there is a terminal, and not more often than eyes can follow."""
        if not self._screen.is_terminal:
            return
        now = self._now()
        # Over a window, since the pace of a whole import says little about the file at hand.
        if not self._marks or now - self._marks[-1][0] >= _REDRAW_SECONDS:
            self._marks.append((now, done))
            while len(self._marks) > 2 and now - self._marks[1][0] >= _WINDOW_SECONDS:
                del self._marks[0]
        if now - self._started < _QUIET_SECONDS or now - self._drawn_at < _REDRAW_SECONDS:
            return
        self._drawn_at = now
        room = self._screen.columns - 1
        self._write(_CLEAR + _fitting(self._parts(done, total, now), room))
        self._is_shown = True

    def clear(self) -> None:
        """Take the line away, for other words or for good."""
        if self._is_shown:
            self._write(_CLEAR)
            self._is_shown = False

    def _parts(self, done: int, total: int, now: float) -> list[str]:
        """Return the parts of the line, most important first."""
        share = min(done / total, 1.0) if total > 0 else 0.0
        count = f"{size(done)} of {size(total)}" if self._in_bytes else f"{done:,}/{total:,}"
        began, before = self._marks[0]
        pace = (done - before) / (now - began) if now > began else 0.0
        full = round(share * _BAR_CHARS)
        there, rest = ("━", "┄") if self._screen.is_unicode else ("#", ".")
        parts = [self._what, f"{share:4.0%}", there * full + rest * (_BAR_CHARS - full), count]
        if pace > 0:
            rate = size(round(pace)) if self._in_bytes else f"{pace:,.0f}" if pace >= 10 else f"{pace:.1f}"
            parts += [f"{_clock((total - done) / pace)} left", f"{rate}/s"]
        return parts

    def _write(self, text: str) -> None:
        # Past the pager: what comes and goes is not part of the output that it shows.
        stream: TextIO = self._screen.beside
        stream.write(text)
        stream.flush()


def _fitting(parts: list[str], room: int) -> str:
    """Return the parts that fit on a line; the operation and its progress come first."""
    what, share, bar, count, *more = parts
    # A line that is broken by the terminal could not be taken away by one carriage return.
    for chosen in ([what, bar, share, count, *more], [what, share, count, *more[:1]], [what]):
        line = "  ".join(chosen)
        if len(line) <= room:
            return line
    return what[: max(room, 0)]


def _clock(seconds: float) -> str:
    """Return a duration such as ``0:42``, ``12:05`` or ``3:07:00``."""
    whole = max(0, round(seconds))
    hours, minutes = divmod(whole // _MINUTE, _HOUR // _MINUTE)
    if hours:
        return f"{hours}:{minutes:02}:{whole % _MINUTE:02}"
    return f"{minutes}:{whole % _MINUTE:02}"


def progress(screen: Screen, items: Sequence[T], what: str) -> Iterator[T]:
    """Yield the items one by one, with a bar once it takes long enough to wonder."""
    with screen.meter(what) as show:
        for index, item in enumerate(items):
            show(index, len(items))
            yield item
