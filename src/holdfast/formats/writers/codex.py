"""Codex's own session file, a rollout: what the model saw, and what the screen showed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.formats._view import ExportOptions, Recorded, clock, dialogue, digest_id, in_dialect, iso

VERSION = "0.166.0"  # the release of Codex that resumes these files in our tests

_TIME_BITS = 48


def session_id(recorded: Recorded) -> str:
    """Return the id under which Codex knows the session: a UUID of version 7 by its time, the same at each export."""
    row = recorded.metadata
    digits = int(digest_id("codex", row.session_id)[:20], 16) & ((1 << 80) - 1)
    time = max(0, row.created_at) & ((1 << _TIME_BITS) - 1)
    value = (time << 80) | digits
    # The version and the variant of a UUID have their places among the bits.
    value = value & ~(0xF << 76) | (7 << 76)
    return str(uuid.UUID(int=value & ~(3 << 62) | (2 << 62)))


def session_file(recorded: Recorded, options: ExportOptions) -> str:
    """Return where Codex looks for the session, below the user's home."""
    place = clock(recorded.metadata.created_at, options.zone, "%Y/%m/%d/rollout-%Y-%m-%dT%H-%M-%S")
    return f".codex/sessions/{place}-{session_id(recorded)}.jsonl"


def write_codex(recorded: Recorded, options: ExportOptions) -> Iterator[bytes]:
    """Yield the head, then each item of the conversation as the model gets it and as people see it."""
    created = recorded.metadata.created_at
    meta: dict[str, Any] = {
        "id": session_id(recorded),
        "timestamp": iso(created),
        "cwd": options.cwd,
        "originator": "codex_cli_rs",
        "cli_version": VERSION,
        "source": "cli",
    }
    yield _line(created, "session_meta", meta)
    for turn in dialogue(recorded).turns:
        # The screen shows thinking; the model gets none, since it is signed for another.
        for block in turn.blocks:
            if block["type"] == "thinking" and block["thinking"].strip():
                yield _line(turn.times[0], "event_msg", {"type": "agent_reasoning", "text": block["thinking"]})
        for item in in_dialect(turn, "openai-responses"):
            yield from _item(turn.times[0], item)


def _item(time: int, item: dict[str, Any]) -> Iterator[bytes]:
    kind = item.get("type", "message")
    if kind == "message":
        content, said = item["content"], "input_text" if item["role"] == "user" else "output_text"
        parts = [{"type": said, "text": content}] if isinstance(content, str) else content
        yield _line(time, "response_item", {"type": "message", "role": item["role"], "content": parts})
        text = _words(content)
        # The screen shows events, the model gets items: without both one of them has nothing.
        if text:
            shown = "user_message" if item["role"] == "user" else "agent_message"
            yield _line(time, "event_msg", {"type": shown, "message": text})
    elif kind in ("function_call", "function_call_output"):
        output = item.get("output")
        plain = {"output": _words(output)} if isinstance(output, list) else {}
        yield _line(time, "response_item", item | plain)
    # The rest is reasoning, encrypted for an account that need not be this one.


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", f"[{part.get('type')}]")) for part in content)


def _line(time: int, type: str, payload: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"timestamp": iso(time), "type": type, "payload": payload}) + b"\n"
