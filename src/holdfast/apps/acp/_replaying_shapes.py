"""The parts of recorded events that a replay looks at, decoded without the rest."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from holdfast.model import Event

__all__ = [
    "DeltaData",
    "FrameData",
    "RawData",
    "Told",
    "decode_delta",
    "decode_frame_data",
    "decode_raw_data",
    "decode_told",
    "plain",
]

_ESCAPED = b'$blob":'  # keys that hold it are escaped in the log
_NOTHING = msgspec.Raw()


class DeltaData(msgspec.Struct):
    """A piece of streamed text."""

    content: str = ""
    kind: str | None = None
    messageId: str | None = None  # noqa: N815 - the name on the wire
    agent: str | None = None
    raw: msgspec.Raw = _NOTHING


class FrameData(msgspec.Struct):
    """A frame that is no conversation."""

    direction: str = ""
    frame: msgspec.Raw = _NOTHING


class RawData(msgspec.Struct):
    """The frame of an event that came over the wire."""

    raw: msgspec.Raw = _NOTHING


class _Params(msgspec.Struct, forbid_unknown_fields=True):
    update: msgspec.Raw
    sessionId: msgspec.Raw = _NOTHING  # noqa: N815 - the name on the wire


class _Notification(msgspec.Struct, forbid_unknown_fields=True):
    method: str
    params: _Params
    jsonrpc: str = "2.0"


class About(msgspec.Struct, rename={"kind": "sessionUpdate", "call": "toolCallId"}):
    """What has to be known of an update."""

    kind: str
    call: str | None = None
    status: str | None = None


class Told(NamedTuple):
    """A recorded update: its bytes, what it is about, and its params if they hold more."""

    update: msgspec.Raw | bytes
    about: About
    extra: dict[str, Any] | None


_decode_delta = msgspec.json.Decoder(DeltaData).decode
_decode_frame = msgspec.json.Decoder(FrameData).decode
_decode_raw = msgspec.json.Decoder(RawData).decode
_decode_notification = msgspec.json.Decoder(_Notification).decode
_decode_about = msgspec.json.Decoder(About).decode
_encode = msgspec.json.Encoder().encode


def plain(event: Event) -> dict[str, Any]:
    """All of an event's data, not kept with the event: a long log is told with little memory."""
    if "data" not in event.__dict__:
        event = Event(event.type, event.seq, raw=event.raw)
    return event.data


def _bytes(event: Event) -> bytes | msgspec.Raw:
    raw = event.raw
    return raw if _ESCAPED not in bytes(raw) else _encode(plain(event))


def decode_delta(event: Event) -> DeltaData:
    """A piece of text; members of other types than usual count as missing."""
    try:
        return _decode_delta(event.raw)
    except msgspec.ValidationError:
        data = plain(event)
        texts = {key: each for key, each in data.items() if isinstance(each, str)}
        return DeltaData(
            texts.get("content", ""), texts.get("kind"), texts.get("messageId"), texts.get("agent")
        )


def decode_frame_data(event: Event) -> FrameData:
    """A frame and who sent it."""
    return _decode_frame(_bytes(event))


def decode_raw_data(event: Event) -> RawData:
    """The frame that an event came with."""
    return _decode_raw(_bytes(event))


def decode_told(rpc: msgspec.Raw) -> Told | None:
    """A recorded ``session/update``; None for anything else."""
    try:
        frame = _decode_notification(rpc)
        if frame.method != "session/update":
            return None
        update = frame.params.update
        return Told(update, _decode_about(update), None)
    except msgspec.ValidationError:
        return _decode_odd(rpc)


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
    )
    return Told(_encode(update), about, params)
