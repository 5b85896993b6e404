"""From an event's data to its line in one step, for the most frequent kind of append.

The step also exists compiled (``_line_maker.c``), for installations that have it: the same bytes, in a third of the
time. :func:`line_maker` chooses between the two.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any
from zlib import crc32

from holdfast.model._data import encode_plain, is_plain
from holdfast.model._event import Event
from holdfast.model._line import LINE_HEADS, LINE_TAIL, encode_line, line_body

LineMaker = Callable[[str, dict[str, Any], int, int, Callable[[], int], int], tuple[Event, bytes, int] | None]

_NS_PER_MS = 1_000_000
# The interface between the two; raise it in both with every change of it.
_ABI = 1
_COMPILED = "holdfast.model._line_maker"


def make_line(  # noqa: PLR0917 - by their places: every append comes by here
    type: str,
    data: dict[str, Any],
    seq: int,
    crc: int,
    clock: Callable[[], int],
    depth: int,
    run: str | None = None,
    key: str | None = None,
) -> tuple[Event, bytes, int] | None:
    """Return the event, its line and the running checksum after it, given the one before it.

    ``clock`` returns the time in nanoseconds. None if the data is not plain, is nested deeper than ``depth``, or no
    line of this type was made before: it may still be recorded. With a run or a key, which the compiled step does not
    support, raises InvalidData for an invalid one.
    """
    is_named = run is not None or key is not None
    try:
        head = b"" if is_named else LINE_HEADS[type]
        raw = encode_plain(data) if is_plain(data, depth) else None
    except (KeyError, TypeError, UnicodeEncodeError, RecursionError):
        return None
    if raw is None:
        return None
    stamp = clock() // _NS_PER_MS
    if is_named:
        event = Event(type, seq, stamp, raw, run, key)
        return event, *encode_line(seq, line_body(event), crc)
    head %= seq, stamp, raw
    crc = crc32(head, crc)
    tail = LINE_TAIL % crc
    return Event(type, seq, stamp, raw), head + tail, crc32(tail, crc)


def line_maker(*, pure: bool = False, compiled: str = _COMPILED) -> LineMaker:
    """Return the compiled step if it was built for this very code and ``pure`` is false, else :func:`make_line`."""
    try:
        found = None if pure else import_module(compiled)
    except ImportError:
        found = None
    if getattr(found, "ABI", None) != _ABI:
        return make_line
    found.bind(Event, LINE_HEADS, encode_plain)  # type: ignore[union-attr]  # it has a number
    return found.make_line  # type: ignore[union-attr, no-any-return]
