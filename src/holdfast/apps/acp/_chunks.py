"""Pieces of messages, which nearly all frames of an agent are, read in one step."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

__all__ = ["Chunk", "read_chunk"]


class Chunk(NamedTuple):
    """A piece of what an agent says or thinks."""

    session_id: str
    kind: str
    """text or thinking, as ``delta`` events call it"""
    text: str
    message_id: str | None


class _Strict(msgspec.Struct, forbid_unknown_fields=True, gc=False, rename="camel"):
    """Nothing but what is named: whatever says more is not for here."""


class _Content(_Strict):
    type: str
    text: str


class _Update(_Strict):
    session_update: str
    content: _Content
    message_id: str | None = None


class _Params(_Strict):
    session_id: str
    update: _Update


class _Line(_Strict):
    jsonrpc: str
    method: str
    params: _Params


_KINDS = {"agent_message_chunk": "text", "agent_thought_chunk": "thinking"}
_HEAD_BYTES = 512
_decode = msgspec.json.Decoder(_Line).decode


def read_chunk(line: bytes) -> Chunk | None:
    """The piece that a line holds; None for a line that is, or says, anything else."""
    if line.find(b"_chunk", 0, _HEAD_BYTES) < 0:
        return None
    try:
        frame = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    update = frame.params.update
    kind = _KINDS.get(update.session_update)
    content = update.content
    if (
        kind is None
        or content.type != "text"
        or not content.text
        or frame.method != "session/update"
        or frame.jsonrpc != "2.0"
    ):
        return None
    return Chunk(frame.params.session_id, kind, content.text, update.message_id)
