"""The parts of recorded events that a replay looks at, decoded without the rest."""

from __future__ import annotations

import contextlib
from typing import Any, Literal

import msgspec

from holdfast.model import Event, has_marked_keys

__all__ = [
    "CALLS",
    "CLOSING",
    "About",
    "CallAbout",
    "CallFrame",
    "DeltaData",
    "FinalData",
    "Finder",
    "Told",
    "decode_calls",
    "decode_texts",
    "plain",
]

CALLS = frozenset({"tool_call", "tool_call_update"})
CLOSING = 3
"""The braces behind an update: of the params, the frame and the event's data."""

_NOTHING = msgspec.Raw()


class DeltaData(msgspec.Struct, gc=False):
    """A piece of streamed text."""

    content: msgspec.Raw = _NOTHING
    kind: str | None = None
    messageId: str | None = None  # noqa: N815 - the name on the wire
    agent: str | None = None
    raw: msgspec.Raw = _NOTHING

    @property
    def message(self) -> tuple[str | None, str | None] | None:
        """What its text belongs to; None if there is more than text of the session's own agent."""
        return None if self.raw or self.agent is not None else (self.kind, self.messageId)


class FinalData(msgspec.Struct, gc=False):
    """A whole message, after its pieces."""

    covers_from: int | None = None
    content: msgspec.Raw = _NOTHING
    agent: str | None = None
    raw: msgspec.Raw = _NOTHING
    messageId: str | None = None  # noqa: N815 - the name on the wire

    @property
    def is_bare_text(self) -> bool:
        """Whether there is nothing in it but text of the session's own agent."""
        return self.agent is None and not self.raw and bytes(self.content).startswith(b'"')


class CallParams(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """What an update comes in, and nothing more."""

    update: msgspec.Raw
    sessionId: msgspec.Raw = _NOTHING  # noqa: N815 - the name on the wire


class CallFrame(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A notification, and nothing more."""

    method: Literal["session/update"]
    params: CallParams
    jsonrpc: Literal["2.0"] = "2.0"


class About(msgspec.Struct, gc=False, rename={"kind": "sessionUpdate", "call": "toolCallId"}):
    """What has to be known of an update."""

    kind: str
    call: str | None = None
    status: str | None = None
    content: msgspec.Raw = _NOTHING


class CallAbout(msgspec.Struct, gc=False, rename={"kind": "sessionUpdate", "call": "toolCallId"}):
    """What has to be known of an update about a tool call."""

    kind: Literal["tool_call", "tool_call_update"]
    call: str
    status: str | None = None
    content: msgspec.Raw = _NOTHING


Told = tuple[bytes, About, dict[str, Any] | None]
"""A recorded update: its bytes, what it is about, and its params if they hold more than usual."""


class _FrameData(msgspec.Struct):
    direction: str = ""
    frame: msgspec.Raw = _NOTHING


class _RawData(msgspec.Struct):
    raw: msgspec.Raw = _NOTHING


_decode_texts = msgspec.json.Decoder(str).decode_lines
_decode_frame = msgspec.json.Decoder(_FrameData).decode
_decode_raw = msgspec.json.Decoder(_RawData).decode
_decode_notification = msgspec.json.Decoder(CallFrame).decode
_decode_about = msgspec.json.Decoder(About).decode
decode_calls = msgspec.json.Decoder(CallAbout).decode_lines
_encode = msgspec.json.Encoder().encode
_CALL = b'{"sessionUpdate":"tool_call'


def plain(event: Event) -> dict[str, Any]:
    """All of an event's data, not kept with the event: a long log is told with little memory."""
    if "data" not in event.__dict__:
        event = Event(event.type, event.seq, raw=event.raw)
    return event.data


def decode_texts(pieces: list[DeltaData]) -> list[str]:
    """The words of some pieces; nothing if they are not all text."""
    try:
        texts = _decode_texts(b"\n".join([piece.content for piece in pieces]))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
    return texts if len(texts) == len(pieces) else []


class Finder:
    """Finds the updates in recorded events.

    Nearly all frames of a session begin with the same bytes, up to the update itself. Where those
    are found and one value stands between them and the end, nothing else has to be decoded.
    """

    def __init__(self) -> None:
        self.start_of_calls = b"\n"  # as no data begin
        """How the data of events begin that hold a frame about a tool call."""
        self.begin = 0
        """Where in them the update does; 0 if that is not known yet."""

    def learn(self, data: bytes) -> None:
        """Take it from the data of an event that holds a frame, if they are as usual."""
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            self._learn(_decode_notification(_decode_frame(data).frame))

    def _learn(self, frame: CallFrame) -> None:
        start = (
            b'{"direction":"agent","frame":{"jsonrpc":"2.0","method":"session/update",'
            b'"params":{"sessionId":%b,"update":' % frame.params.sessionId
        )
        self.start_of_calls, self.begin = start + _CALL, len(start)

    def in_frame(self, event: Event) -> Told | None:
        """The update in a frame of the agent; None if there is none."""
        data = bytes(event.raw)
        frame = _decode_frame(_unescaped(event, data))
        return self._decode(frame.frame) if frame.direction == "agent" else None

    def in_raw(self, event: Event) -> Told | None:
        """The update that an event came with; None if it came in another way."""
        return self.decode(_decode_raw(_unescaped(event, bytes(event.raw))).raw)

    def decode(self, rpc: msgspec.Raw) -> Told | None:
        """The update of a frame; None for any other value."""
        return self._decode(rpc) if rpc else None

    def _decode(self, rpc: msgspec.Raw) -> Told | None:
        try:
            frame = _decode_notification(rpc)
            update = bytes(frame.params.update)
            about = _decode_about(update)
        except msgspec.ValidationError:
            return _decode_odd(rpc)
        self._learn(frame)
        return update, about, None


def _unescaped(event: Event, data: bytes) -> bytes:
    return _encode(plain(event)) if has_marked_keys(data) else data


def _decode_odd(rpc: msgspec.Raw) -> Told | None:
    frame = msgspec.json.decode(rpc)
    if not isinstance(frame, dict) or frame.get("method") != "session/update":
        return None
    params = frame.get("params")
    update = params.get("update") if isinstance(params, dict) else None
    if not isinstance(update, dict) or not isinstance(update.get("sessionUpdate"), str):
        return None
    call, status = update.get("toolCallId"), update.get("status")
    about = About(
        update["sessionUpdate"],
        call if isinstance(call, str) else None,
        status if isinstance(status, str) else None,
        msgspec.Raw(_encode(update.get("content"))),
    )
    return _encode(update), about, params
