"""Moments for programs in other languages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

__all__ = ["utc"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = datetime(1, 1, 1, tzinfo=UTC)
_LAST = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)


def utc(ms: int) -> str:
    """A moment as RFC 3339 has it, to the millisecond; one that no calendar has is cut off."""
    try:
        when = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        when = _LAST if ms > 0 else _FIRST
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
