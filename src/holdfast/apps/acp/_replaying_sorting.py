"""What nearly all lines of a log hold, taken out of them at once: tool calls and whole messages."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from holdfast.apps.acp._replaying_lines import (
    CallLine,
    DeltaLine,
    FinalLine,
    FrameLine,
    Line,
    ResultLine,
)
from holdfast.apps.acp._replaying_output import Update, whole_update
from holdfast.apps.acp._replaying_shapes import CLOSING, CallAbout, Finder, decode_calls

__all__ = ["Other", "Sorted", "sort_out"]

_FROM_OTHERS = (b'{"direction":"client",', b'{"direction":"holdfast",')


class Other(NamedTuple):
    """A line from which something else may have to be told, or nothing."""

    line: Line
    before: int
    """How many updates come before it."""
    calls: int
    """How many of them are about tool calls."""
    whole: int
    """The event that the last whole message among them came with."""


class Sorted(NamedTuple):
    """Some lines of a log."""

    updates: list[Update]
    """Of tool calls, as they came, and of messages that one piece holds all of; in order."""
    calls: list[CallAbout]
    """What those of tool calls are about."""
    others: list[Other]
    """All that is not told by them, in order."""
    whole: int
    """The event that the last whole message came with; less than 0 if there is none."""


def sort_out(lines: list[Any], find: Finder, *, silent: bool) -> Sorted | None:
    """Tool calls, messages and the rest; None if what looks like an update of a call is none.

    ``silent`` is whether no words wait for more of their message. It takes a few steps for each
    line: a function that is called for each would double what a load costs.
    """
    updates: list[Update] = []
    calls: list[Update] = []
    others: list[Other] = []
    start, begin = _start(lines, find)
    piece: DeltaLine | None = None
    whole = -1
    for line in lines:
        kind = type(line)
        if piece is not None:
            if kind is FinalLine and (update := whole_update(piece, line)):
                updates.append(update)
                whole, piece = piece.seq, None
                continue
            others.append(Other(piece, len(updates), len(calls), whole))
            piece, silent = None, False
        if kind is FrameLine:
            data = bytes(line.data)
            if data.startswith(start):
                update = data[begin:-CLOSING]
                updates.append(update)
                calls.append(update)
                silent = True
                continue
            if data.startswith(_FROM_OTHERS):
                continue
        elif kind is CallLine or kind is ResultLine:
            raw = line.data.raw
            if raw is not None:
                update = raw.params.update
                updates.append(update)
                calls.append(update)
                silent = True
                continue
        elif silent and kind is DeltaLine:
            piece = line
            continue
        others.append(Other(line, len(updates), len(calls), whole))
        silent = False
    if piece is not None:
        others.append(Other(piece, len(updates), len(calls), whole))
    abouts = _decode(calls)
    return None if abouts is None else Sorted(updates, abouts, others, whole)


def _start(lines: list[Any], find: Finder) -> tuple[bytes, int]:
    """How frames about tool calls begin, and where in them the update does."""
    if not find.begin:
        frames = (bytes(line.data) for line in lines if type(line) is FrameLine)
        find.learn(next((one for one in frames if not one.startswith(_FROM_OTHERS)), b""))
    return find.start_of_calls, find.begin


def _decode(calls: list[Update]) -> list[CallAbout] | None:
    try:
        abouts = decode_calls(b"\n".join(calls))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return abouts if len(abouts) == len(calls) else None
