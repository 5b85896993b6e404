"""OpenAgent-Terminal's session file: metadata and messages, each with its role, words and time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.errors import HoldfastError
from holdfast.formats._view import Block, DialogueTurn, ExportOptions, Recorded, dialogue, iso, result_text
from holdfast.replay import as_json
from holdfast.security import escape_json

Message = dict[str, Any]


def write_openagent_terminal(recorded: Recorded, _options: ExportOptions) -> Iterator[bytes]:
    """Yield one document of two members, indented as that system writes it."""
    row, found = recorded.metadata, dialogue(recorded)
    kept = _kept(recorded)
    messages = [] if found.system is None else [_message("system", found.system, row.created_at)]
    for turn in found.turns:
        messages += _spoken(turn, kept) if turn.role == "assistant" else _heard(turn, kept)
    about = {
        "session_id": row.session_id,
        "created_at": iso(row.created_at),
        "updated_at": iso(row.updated_at),
        "message_count": len(messages),
        "total_tokens": 0 if row.tokens_estimated else row.total_tokens,
        "title": row.title,
        "tags": list(row.tags),
    }
    plain = escape_json(as_json({"metadata": about, "messages": messages}))
    yield msgspec.json.format(plain.encode("utf-8", "surrogatepass"), indent=2) + b"\n"


def _kept(recorded: Recorded) -> dict[int, Message]:
    """Return, by the place of an event in the log, what a message has besides its words."""
    found: dict[int, Message] = {}
    for place, event in enumerate(recorded.events()):
        if event.type in ("user", "assistant"):
            try:
                data = event.data
            except HoldfastError:
                continue
            own = {name: data[name] for name in ("token_count", "metadata") if data.get(name)}
            if own:
                found[place] = own
    return found


def _spoken(turn: DialogueTurn, kept: dict[int, Message]) -> list[Message]:
    """Return an answer with its calls as one message; the model's thinking is beside the words."""
    words = [block for block in turn.blocks if block["type"] not in ("tool_use", "thinking")]
    calls = [
        {"id": block["id"], "tool": block["name"], "args": block["input"]}
        for block in turn.blocks
        if block["type"] == "tool_use"
    ]
    thoughts = [block["thinking"] for block in turn.blocks if block["type"] == "thinking"]
    message = _message("assistant", _text(words), turn.times[0], tool_calls=calls or None)
    for source in turn.sources:
        message |= kept.get(source, {})
    if thoughts:
        message["metadata"] = {**message["metadata"], "thinking": "\n".join(thoughts)}
    return [message]


def _heard(turn: DialogueTurn, kept: dict[int, Message]) -> list[Message]:
    """Return the user's words of a turn as one message, and each result of a tool as another."""
    messages: list[Message] = []
    said: dict[int, list[Block]] = {}
    for block, time, source in zip(turn.blocks, turn.times, turn.sources, strict=True):
        if block["type"] == "tool_result":
            about = {"tool_call_id": block["tool_use_id"]}
            messages.append(_message("tool", result_text(block), time, metadata=about))
            continue
        if source not in said:
            messages.append(_message("user", "", time) | kept.get(source, {}))
            said[source] = []
        said[source].append(block)
        messages[-1]["content"] = _text(said[source])
    return messages


def _text(blocks: list[Block]) -> str:
    return "\n".join(str(block.get("text", f"[{block['type']}]")) for block in blocks)


def _message(role: str, content: str, time: int, **more: Any) -> Message:
    empty: Message = {"token_count": None, "tool_calls": None, "metadata": {}}
    return {"role": role, "content": content, "timestamp": iso(time), **empty, **more}
