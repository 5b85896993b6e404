"""Format versions: events of older logs are brought up to date one version at a time.

A log names its version in ``session_start``; a plain log, without one, is version 0. A newer writer that continues
an older log names its own version in ``opened``. A step changes the form of an event, never which events there
are, their order or the version they name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from holdfast.errors import TooNew
from holdfast.model import FORMAT_VERSION, Event, LazyDecoder

Step = Callable[[Event], Event]
Steps = Sequence[Step | None]

STEPS: Steps = (None,) * FORMAT_VERSION
"""``STEPS[n]`` brings an event of version n to n + 1; None if no event changed its form.

Version 1 added members to the line and new types; events of plain logs are valid as they are.
"""

_NAMES_FORMAT = frozenset({"session_start", "opened"})


class _Format(msgspec.Struct):
    format: int | None = None


_format_decoder = LazyDecoder(_Format)


def format_of(event: Event) -> int | None:
    """Return the version that the log has from an event on; None if the event names none."""
    if event.type not in _NAMES_FORMAT:
        return None
    try:
        return _format_decoder.decode(event.raw).format
    except (ValueError, RecursionError):
        return None


def check_format(found: Event | int, steps: Steps = STEPS) -> int:
    """Return the version, given or named by an event (0 if none). Raises TooNew if it is newer than this code knows."""
    if isinstance(found, int):
        version = found
    elif found.type not in _NAMES_FORMAT:
        return 0  # called for nearly every event of a log
    else:
        version = format_of(found) or 0
    if version > len(steps):
        raise TooNew(
            f"the session has format {version}, and this Holdfast knows up to {len(steps)}; it was left untouched",
            format=version,
        )
    # A foreign log may say anything; below zero counts as none.
    return max(version, 0)


def upcast_event(event: Event, version: int, steps: Steps = STEPS) -> Event:
    """Return the event as the current version would have recorded it."""
    for step in steps[check_format(version, steps) :]:
        if step is not None:
            event = step(event)
    return event


def upcast(events: Iterable[Event], version: int = 0, steps: Steps = STEPS) -> Iterable[Event]:
    """Yield the events of a log as the current version would have recorded them.

    ``version`` is that of the log where the events begin. If no step from there on changes anything, the events are
    returned unchanged, at no cost. Raises TooNew, also later, while being consumed.
    """
    if version > len(steps):
        check_format(version, steps)
    if not any(steps[max(version, 0) :]):
        return events
    return _upcast_each(events, version, steps)


def _upcast_each(events: Iterable[Event], version: int, steps: Steps) -> Iterator[Event]:
    for event in events:
        named = format_of(event)
        if named is not None:
            version = check_format(named, steps)
        yield upcast_event(event, version, steps)
