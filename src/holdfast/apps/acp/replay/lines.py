"""The lines of a log, decoded with one call as far as a replay looks at them."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from holdfast.apps.acp.replay.shapes import CallFrame, DeltaData, FinalData
from holdfast.model import BODIES, Event

__all__ = [
    "CallLine",
    "DeltaLine",
    "EventLine",
    "FinalLine",
    "FrameLine",
    "OtherLine",
    "ResultLine",
    "decode_lines",
]

_NOTHING = msgspec.Raw()


class EventLine(msgspec.Struct, gc=False, kw_only=True, tag_field="type"):
    """Any event, if it is not of a child run."""

    seq: int
    run: None = None


class _CallData(msgspec.Struct, gc=False):
    raw: CallFrame | None = None


class CallLine(EventLine, tag="tool_call", gc=False, kw_only=True):
    """A tool call, and the frame that it came with."""

    data: _CallData


class ResultLine(EventLine, tag="tool_result", gc=False, kw_only=True):
    """The end of a tool call, and the frame that it came with."""

    data: _CallData


class FinalLine(EventLine, tag="assistant", gc=False, kw_only=True):
    """A whole message."""

    data: FinalData


class DeltaLine(EventLine, tag="delta", gc=False, kw_only=True):
    """A piece of a message."""

    data: DeltaData


class OtherLine(EventLine, gc=False, kw_only=True):
    """Whatever else there is, by its name."""

    data: msgspec.Raw = _NOTHING

    def event(self) -> Event:
        """The event of it, without its time."""
        return Event(str(self.__struct_config__.tag), self.seq, raw=self.data)


class FrameLine(OtherLine, tag="frame", gc=False, kw_only=True):
    """A frame that is no conversation."""


_LINES = (CallLine, ResultLine, FrameLine, DeltaLine, FinalLine)


def decode_lines(block: bytes) -> list[EventLine]:
    """The lines of a block. Raises msgspec.ValidationError if one is of another form or type."""
    found: list[EventLine] = _decoder().decode_lines(block)
    return found


@cache
def _decoder() -> msgspec.json.Decoder[Any]:
    known = {str(line.__struct_config__.tag) for line in _LINES}
    union: Any = CallLine | ResultLine | FrameLine | DeltaLine | FinalLine
    for name in BODIES:
        if name not in known:
            union |= msgspec.defstruct(name, [], bases=(OtherLine,), tag=name, gc=False)
    return msgspec.json.Decoder(union)
