"""A session as exporters see it: what is known of it, and ways to read it as often as needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo

from holdfast.model import Event, SessionMetadata
from holdfast.replay import Recovery, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One session, to be read and never changed.

    ``events`` gives the events with their large payloads in place, ``lines`` the bytes of the log,
    ``recover`` a valid conversation for a provider and a way with incomplete calls, ``documents``
    the names and bytes of what is kept beside the log. Nothing is read before it is asked for.
    """

    metadata: SessionMetadata
    state: Callable[[], State]
    events: Callable[[], Iterator[Event]]
    lines: Callable[[], Iterator[bytes]]
    recover: Callable[[str, str], Recovery]
    documents: Mapping[str, Callable[[], bytes]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """What the caller may choose. ``cwd`` is the project that a coding agent will resume in."""

    zone: tzinfo = UTC
    cwd: str = "/"
    passphrase: str | None = None
    model: str | None = None
    """The model that a native file names, where its tool wants one."""
    incomplete: str = "mark"
    """What becomes of calls without a result in lists of messages; native files mark them."""


_EARLIEST = datetime(1, 1, 2, tzinfo=UTC)
_LATEST = datetime(9999, 12, 30, tzinfo=UTC)


def moment(timestamp_ms: int, zone: tzinfo = UTC) -> datetime:
    """The time of an event; a clock that was wrong by thousands of years gives the nearest one."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).astimezone(zone)
    except (ValueError, OverflowError, OSError):
        return (_LATEST if timestamp_ms > 0 else _EARLIEST).astimezone(zone)


def clock(timestamp_ms: int, zone: tzinfo, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """The same as text. The year has four digits also where the system would write fewer."""
    when = moment(timestamp_ms, zone)
    return when.strftime(form.replace("%Y", f"{when.year:04d}"))
