"""OpenAI's chat form: calls beside the content, results as messages of their own."""

from __future__ import annotations

from typing import Any

from holdfast.replay._blocks import Block, Note, text_block
from holdfast.replay._dialects._form import (
    WEB,
    Dialect,
    Growth,
    Message,
    Pair,
    begin_message,
    data_url,
    text_or_parts,
)
from holdfast.replay._dialects.neutral import read_message
from holdfast.replay._ids import OPENAI_ID_CHARS_MAX, call_key, fit_name, name_key, short_id
from holdfast.replay._media import describe
from holdfast.replay._text import is_blank, plain_text, type_name
from holdfast.replay._values import dump_json, read_input, read_result

__all__ = ["OPENAI", "read_chat", "results_first", "text_part", "write_calls", "write_user"]

NAME_CHARS_MAX = 64


def _fit_id(identity: str) -> str:
    return short_id(identity, OPENAI_ID_CHARS_MAX)


def _fit_name(name: str) -> str:
    return fit_name(name, NAME_CHARS_MAX)


def _write(role: str, blocks: list[Block], _before: list[Block]) -> list[Message]:
    if role == "user":
        return write_user(blocks, _fit_id, _media_part)
    texts = [text_part(block) for block in blocks if block["type"] == "text"]
    message: Message = {"role": "assistant", "content": text_or_parts(texts) if texts else None}
    calls = write_calls(blocks, _fit_id, _fit_name)
    if calls:
        message["tool_calls"] = calls
    return [message] if texts or calls else []


def write_calls(blocks: list[Block], fit_own_id: Any, fit_own_name: Any) -> list[Message]:
    """The calls of an assistant's message."""
    return [
        {
            "id": fit_own_id(block["id"]),
            "type": "function",
            "function": {
                "name": fit_own_name(block["name"]),
                "arguments": dump_json(block["input"]),
            },
        }
        for block in blocks
        if block["type"] == "tool_use"
    ]


def write_user(blocks: list[Block], fit_own_id: Any, media_part: Any) -> list[Message]:
    """Results as tool messages, then everything else as one user message.

    A tool message takes text only, so images and documents of a result go with the user's words.
    """
    messages: list[Message] = []
    parts: list[Message] = []
    for block in blocks:
        if block["type"] != "tool_result":
            parts.append(_part(block, media_part))
            continue
        content = block["content"]
        shown, apart = (content, []) if isinstance(content, str) else _sort(content, media_part)
        identity = fit_own_id(block["tool_use_id"])
        messages.append({"role": "tool", "tool_call_id": identity, "content": shown})
        parts.extend(apart)
    if parts:
        messages.append({"role": "user", "content": text_or_parts(parts)})
    return messages


def _sort(content: list[Block], media_part: Any) -> tuple[str | list[Message], list[Message]]:
    """A result's texts, and apart from them what a tool message cannot hold."""
    texts, apart = [], []
    for block in content:
        part = _part(block, media_part)
        if part["type"] == "text":
            texts.append(part)
        else:
            texts.append({"type": "text", "text": f"(the {block['type']} that follows)"})
            apart.append(part)
    return text_or_parts(texts), apart


def text_part(block: Block) -> Message:
    """A text as a part of a message."""
    return {"type": "text", "text": block["text"]}


def _part(block: Block, media_part: Any) -> Message:
    if block["type"] == "text":
        return text_part(block)
    part: Message = media_part(block) or {"type": "text", "text": describe(block)}
    return part


def _media_part(block: Block) -> Message | None:
    source = block["source"]
    kind = source["type"]
    if kind == "text":
        return {"type": "text", "text": source["data"]}
    if block["type"] == "image" and kind in {"base64", "url"}:
        url = data_url(source) if kind == "base64" else source["url"]
        return {"type": "image_url", "image_url": {"url": url}}
    if block["type"] == "document" and kind == "base64":
        name = block.get("title", "document.pdf")
        return {"type": "file", "file": {"filename": name, "file_data": data_url(source)}}
    return None


def read_chat(message: Message, note: Note) -> list[Pair]:
    """What a chat message says: words, calls, or a tool's result."""
    role = message.get("role")
    if role in {"tool", "function"}:
        return [("user", _read_tool(message, note))]
    pairs = read_message(message, note)
    if role == "assistant":
        pairs[:0] = [("assistant", block) for block in _read_thoughts(message)]
        pairs += [("assistant", block) for block in _read_sounds(message)]
        pairs += [("assistant", call) for call in _read_calls(message, note)]
    return pairs


def _read_thoughts(message: Message) -> list[Block]:
    """What other servers that speak this form tell of what the model thought."""
    given = plain_text(message.get("reasoning_content")) or plain_text(message.get("reasoning"))
    return [{"type": "thinking", "thinking": given}] if given and not is_blank(given) else []


def _read_sounds(message: Message) -> list[Block]:
    """A refusal, and what was said aloud, in words."""
    audio = message.get("audio")
    heard = None
    if isinstance(audio, dict):
        heard = plain_text(audio.get("transcript")) or f"(audio {plain_text(audio.get('id'))})"
    said = (plain_text(message.get("refusal")), heard)
    return [text_block(text) for text in said if text and not is_blank(text)]


def _read_tool(message: Message, note: Note) -> Block:
    content = message.get("content")
    text, failed = read_result(content, note)
    key = call_key(message.get("tool_call_id"))
    if key is None and message["role"] == "function":
        key = name_key(message.get("name"))
    block: Block = {"type": "tool_result", "tool_use_id": key, "content": text}
    if failed:
        block["is_error"] = True
    return block


def _read_calls(message: Message, note: Note) -> list[Block]:
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, (list, tuple)):
        note("invalid_structure", f"tool_calls is a {type_name(calls)}: dropped", None)
    found = [_read_call(call, note) for call in calls] if isinstance(calls, (list, tuple)) else []
    old = message.get("function_call")
    if isinstance(old, dict):
        found.append(_call(name_key(old.get("name")), old, note))
    return [block for block in found if block is not None]


def _read_call(call: Any, note: Note) -> Block | None:
    function = call.get("function") if isinstance(call, dict) else None
    custom = call.get("custom") if isinstance(call, dict) else None
    if isinstance(custom, dict):
        function = {"name": custom.get("name"), "arguments": {"input": custom.get("input")}}
    if not isinstance(function, dict):
        note("invalid_structure", "a tool call without a function was dropped", call)
        return None
    return _call(call_key(call.get("id")), function, note)


def _call(key: str | None, function: Block, note: Note) -> Block:
    return {
        "type": "tool_use",
        "id": key,
        "name": plain_text(function.get("name")) or "",
        "input": read_input(function.get("arguments"), note),
    }


def results_first(messages: list[Message]) -> list[Message]:
    """The messages, those of tools before what the user says."""
    return sorted(messages, key=lambda message: message["role"] not in {"tool", "function"})


OPENAI = Dialect(
    "openai",
    _write,
    read_chat,
    has_system=True,
    growth=Growth(begin_message, text_part),
    order=results_first,
    systems="anywhere",
    schemes=WEB,
)
