"""Pydantic AI's message form as plain data, as its ModelMessagesTypeAdapter reads it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from holdfast.replay._blocks import Block, Note, call_block, describe, dump_json, read_content, result_block, text_block
from holdfast.replay._dialects._form import WEB, Dialect, Message, Pair, call_names, joined, short_name
from holdfast.replay._text import call_key, type_name


def _write(role: str, blocks: list[Block], before: list[Block]) -> list[Message]:
    if role == "assistant":
        parts = [part for block in blocks if (part := _response_part(block)) is not None]
        # Thinking alone is no response: the next request would follow nothing.
        says = any(part["part_kind"] != "thinking" for part in parts)
        return [{"kind": "response", "parts": parts}] if says else []
    names = call_names(before)
    # Answers come before prompts, whatever the order in the draft.
    results = [_return_part(b, names) for b in blocks if b["type"] == "tool_result"]
    prompt = [_user_content(block) for block in blocks if block["type"] != "tool_result"]
    if prompt:
        lone = len(prompt) == 1 and isinstance(prompt[0], str)
        results.append({"part_kind": "user-prompt", "content": prompt[0] if lone else prompt})
    return [{"kind": "request", "parts": results}]


def _response_part(block: Block) -> Message | None:
    kind = block["type"]
    if kind == "text":
        return {"part_kind": "text", "content": block["text"]}
    if kind == "tool_use":
        return {
            "part_kind": "tool-call",
            "tool_name": short_name(block["name"]),
            "args": block["input"],
            "tool_call_id": block["id"],
        }
    if kind != "thinking":
        return None
    part = {"part_kind": "thinking", "content": block["thinking"]}
    if "signature" in block:
        # Only the provider that signed it may get a signature back; this kind is Anthropic's.
        part |= {"signature": block["signature"], "provider_name": "anthropic"}
    return part


def _return_part(block: Block, names: dict[str, str]) -> Message:
    content = block["content"]
    part: Message = {
        "part_kind": "tool-return",
        "tool_name": short_name(names.get(block["tool_use_id"], "")),
        "content": content if isinstance(content, str) else [_user_content(b) for b in content],
        "tool_call_id": block["tool_use_id"],
    }
    if block.get("is_error"):
        part["outcome"] = "failed"
    return part


def _user_content(block: Block) -> str | Message:
    if block["type"] == "text":
        text: str = block["text"]
        return text
    source = block["source"]
    if source["type"] == "base64":
        return {"kind": "binary", "data": source["data"], "media_type": source["media_type"]}
    if source["type"] == "url":
        return {"kind": f"{block['type']}-url", "url": source["url"]}
    return str(source["data"]) if source["type"] == "text" else describe(block)


def read_pydantic_ai(message: Message, note: Note) -> list[Pair]:
    parts = message.get("parts")
    if not isinstance(parts, (list, tuple)):
        note("invalid_structure", "a message without parts was dropped", message)
        return []
    pairs: list[Pair] = []
    for part in parts:
        kind = part.get("part_kind") if isinstance(part, dict) else None
        reader = _READERS.get(kind) if isinstance(kind, str) else None
        if reader is None:
            note("invalid_block", f"a part of kind {kind!r} was dropped", part)
        else:
            pairs += reader(part, note)
    return pairs


def _read_prompt(part: Message, note: Note) -> list[Pair]:
    content = part.get("content")
    if isinstance(content, (list, tuple)):
        content = [_read_user_content(item) for item in content]
    return [("user", block) for block in read_content(content, note)]


def _read_user_content(item: Any) -> Any:
    """Return one part of a prompt in a form that the block readers know."""
    kind = item.get("kind") if isinstance(item, dict) else None
    if kind == "binary":
        media = item.get("media_type")
        source = {"type": "base64", "media_type": media, "data": item.get("data")}
        return {"type": "document" if media == "application/pdf" else "image", "source": source}
    if kind in {"image-url", "document-url"}:
        source = {"type": "url", "url": item.get("url")}
        return {"type": kind.removesuffix("-url"), "source": source}
    return item


def _read_words(side: str, part: Message, note: Note) -> list[Pair]:
    return [(side, one) for one in read_content(part.get("content"), note)]


def _read_thinking(part: Message, note: Note) -> list[Pair]:
    block = {"type": "thinking", "thinking": part.get("content"), "signature": part.get("signature")}
    return [("assistant", block) for block in read_content([block], note)]


def _read_call(part: Message, note: Note) -> list[Pair]:
    key = call_key(part.get("tool_call_id"))
    return [("assistant", call_block(key, part.get("tool_name"), part.get("args"), note))]


def _read_return(part: Message, note: Note) -> list[Pair]:
    given = part.get("content")
    if isinstance(given, (list, tuple)):
        given = [text_block(i) if isinstance(i, str) else _read_user_content(i) for i in given]
    failed = part.get("outcome") not in {None, "success"} or "retry" in part["part_kind"]
    key = call_key(part.get("tool_call_id"))
    return [("user", result_block(key, given, note, failed=failed))]


def _read_retry(part: Message, note: Note) -> list[Pair]:
    # Without a tool it is a message of the framework to the model, on the user's side.
    if part.get("tool_name") is None:
        content = part.get("content")
        text = content if isinstance(content, str) else dump_json(str(type_name(content)))
        return [("user", block) for block in read_content(text, note)]
    return _read_return(part, note)


_READERS: dict[str, Callable[[Message, Note], list[Pair]]] = {
    "system-prompt": partial(_read_words, "system"),
    "user-prompt": _read_prompt,
    "text": partial(_read_words, "assistant"),
    "thinking": _read_thinking,
    "tool-call": _read_call,
    "tool-return": _read_return,
    "retry-prompt": _read_retry,
}

_JOIN = partial(joined, "parts")
PYDANTIC_AI = Dialect("pydantic-ai", _write, read_pydantic_ai, has_system=True, join=_JOIN, schemes=WEB | {"gs", "s3"})
