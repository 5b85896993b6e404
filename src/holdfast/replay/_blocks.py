"""Reading one part of a message, in whatever shape a provider gives it, as a neutral block.

Neutral blocks have Anthropic's shape. Readers here take any Python value, return a block that is
valid by itself or None, and say through ``note`` what they could not keep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.model import BLOB_KEY
from holdfast.replay._ids import call_key
from holdfast.replay._media import read_document, read_image
from holdfast.replay._text import (
    clean_json,
    clean_text,
    is_base64,
    is_blank,
    plain_text,
    template,
    type_name,
)
from holdfast.replay._values import blob_text, read_input, read_result

Block = dict[str, Any]
Note = Callable[[str, str, Any], None]
"""Takes an issue's type, its detail and what was left out."""

OWNERS: Mapping[str, str] = {
    "advisor_tool_result": "anthropic",
    "bash_code_execution_tool_result": "anthropic",
    "code_execution_tool_result": "anthropic",
    "mcp_tool_result": "anthropic",
    "mcp_tool_use": "anthropic",
    "reasoning": "openai-responses",
    "redacted_thinking": "anthropic",
    "server_tool_use": "anthropic",
    "text_editor_code_execution_tool_result": "anthropic",
    "tool_search_tool_result": "anthropic",
    "web_fetch_tool_result": "anthropic",
    "web_search_tool_result": "anthropic",
}
"""Blocks that only one provider understands; they are kept for that one and left out for others."""

SERVER_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})
"""Calls that their provider runs itself; the result stands behind the call in the same turn."""

_THOUGHTS = frozenset({"thinking", "redacted_thinking", "reasoning"})
_TEXT = template(type="text", text="")


def is_soft(block: Block) -> bool:
    """Whether a block cannot stand alone: thinking and what belongs to one provider only."""
    kind = block["type"]
    return kind == "thinking" or kind in OWNERS


def is_thought(block: Block) -> bool:
    """Whether a block is thinking, with which no message may end."""
    return block["type"] in _THOUGHTS


def code_of(block: Block) -> str | None:
    """The id of the server's tool whose code makes a call; None for a call of the model itself."""
    caller = block.get("caller")
    return caller["tool_id"] if caller else None


def is_paused(blocks: list[Block]) -> bool:
    """Whether a message ends with a call that its provider has yet to run: it was paused there."""
    return bool(blocks) and blocks[-1]["type"] in SERVER_CALLS


def text_block(text: str) -> Block:
    """A block of text."""
    block = _TEXT.copy()
    block["text"] = text
    return block


def read_content(content: Any, note: Note) -> list[Block]:
    """The blocks of a message's content: a string, a list of parts, or a single part."""
    if isinstance(content, str):
        text = clean_text(content)
        if text is not content:
            note("invalid_text", "broken characters were replaced", None)
        return [] if is_blank(text) else [text_block(text)]
    if content is None:
        return []
    parts = content if isinstance(content, (list, tuple)) else (content,)
    blocks = (read_block(part, note) for part in parts)
    return [block for block in blocks if block is not None]


def read_block(part: Any, note: Note) -> Block | None:
    """One part as a neutral block; None if nothing of it can be kept."""
    try:
        return _read_block(part, note)
    except Exception as error:  # noqa: BLE001 - an object that fights back is no block
        note("invalid_block", f"an unreadable block was dropped ({type_name(error)})", None)
        return None


def _read_block(part: Any, note: Note) -> Block | None:
    if isinstance(part, str):
        return _read_text({"type": "text", "text": part}, note)
    if not isinstance(part, dict):
        note("invalid_block", f"a {type_name(part)} is not a content block: dropped", None)
        return None
    if BLOB_KEY in part:
        return text_block(blob_text(part))
    kind = part.get("type")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is not None:
        return reader(part, note)
    if isinstance(part.get("text"), str):
        note("invalid_block", "a block of unknown type was kept as text", None)
        return _read_text(part, note)
    note("invalid_block", "a block of unknown type was dropped", part)
    return None


def _check_members(part: Block, known: frozenset[str], note: Note) -> None:
    if not known.issuperset(part):
        note("unknown_member", f"members that a {part.get('type')} block has not: dropped", None)


_TEXT_MEMBERS = frozenset({"type", "text", "cache_control", "citations", "thought_signature"})


def _read_text(part: Block, note: Note) -> Block | None:
    given = part.get("text", part.get("refusal"))
    if not isinstance(given, str):
        note("invalid_block", "a text block without a text was dropped", None)
        return None
    text = clean_text(given)
    if is_blank(text):
        note("empty_block", "an empty text block was dropped", None)
        return None
    if text is not given or part["type"] != "text":
        note("invalid_text", "a text was made well-formed", None)
    else:
        _check_members(part, _TEXT_MEMBERS, note)
    block = text_block(text)
    if isinstance(part.get("citations"), list) and part["citations"]:
        block["citations"] = clean_json(part["citations"])
    return _sign(block, part)


def _sign(block: Block, part: Block) -> Block:
    signature = part.get("thought_signature")
    if isinstance(signature, str) and is_base64(signature):
        block["thought_signature"] = signature
    return block


def _read_thinking(part: Block, note: Note) -> Block | None:
    text = plain_text(part.get("thinking"))
    signature = plain_text(part.get("signature"))
    if text is None or (is_blank(text) and not signature):
        note("invalid_block", "an empty thinking block was dropped", None)
        return None
    _check_members(part, frozenset({"type", "thinking", "signature", "thought_signature"}), note)
    block = {"type": "thinking", "thinking": text}
    if signature:
        block["signature"] = signature
    return _sign(block, part)


def _read_redacted(part: Block, note: Note) -> Block | None:
    data = plain_text(part.get("data"))
    if not data:
        note("invalid_block", "a redacted thinking block without data was dropped", None)
        return None
    return {"type": "redacted_thinking", "data": data}


_REASONING_MEMBERS = ("id", "summary", "content", "encrypted_content")


def _read_reasoning(part: Block, note: Note) -> Block | None:
    block: Block = {"type": "reasoning"}
    block |= {name: clean_json(part[name]) for name in _REASONING_MEMBERS if part.get(name)}
    named = isinstance(block.get("id"), str) and block["id"].startswith("rs")
    if not named or not isinstance(block.setdefault("summary", []), list):
        note("invalid_block", "a reasoning item without an id or a summary was dropped", None)
        return None
    return block


def _read_owned(part: Block, note: Note) -> Block | None:
    key = call_key(part.get("id") if "id" in part else part.get("tool_use_id"))
    if key is None:
        note("invalid_block", f"a {part['type']} block without an id was dropped", part)
        return None
    block: Block = clean_json(part)
    return {name: value for name, value in block.items() if name != "cache_control"}


_HINTS = {"caller", "toolset_name"}  # of use to Anthropic only


def _read_call(part: Block, note: Note) -> Block:
    block = {
        "type": "tool_use",
        "id": call_key(part.get("id")),
        "name": plain_text(part.get("name")) or "",
        "input": read_input(part.get("input"), note),
    }
    known = {"type", "id", "name", "input", "cache_control", "thought_signature"}
    _check_members(part, frozenset(known | _HINTS), note)
    caller = part.get("caller")
    if isinstance(caller, dict) and isinstance(caller.get("tool_id"), str):
        block["caller"] = clean_json(caller)
    return _sign(block, part)


def _read_tool_result(part: Block, note: Note) -> Block:
    content, failed = read_result(part.get("content"), note)
    key = call_key(part.get("tool_use_id"))
    block: Block = {"type": "tool_result", "tool_use_id": key, "content": content}
    if failed or part.get("is_error") is True:
        block["is_error"] = True
    known = {"type", "tool_use_id", "content", "is_error", "cache_control"}
    _check_members(part, frozenset(known | _HINTS), note)
    return block


def _read_words(part: Block, note: Note) -> Block | None:
    """Something that only one provider takes, in words for the others."""
    note("invalid_block", f"a {part['type']} was put into words", None)
    texts = [plain_text(part.get(name)) for name in ("title", "source", "file_id", "tool_name")]
    content = part.get("content")
    if isinstance(content, list):
        texts += [plain_text(one.get("text")) for one in content if isinstance(one, dict)]
    said = "\n".join(text for text in texts if text)
    return text_block(f"({part['type']}: {said})" if said else f"({part['type']})")


_READERS: dict[str, Callable[[Block, Note], Block | None]] = {
    **dict.fromkeys(OWNERS, _read_owned),
    "text": _read_text,
    "input_text": _read_text,
    "output_text": _read_text,
    "refusal": _read_text,
    "thinking": _read_thinking,
    "redacted_thinking": _read_redacted,
    "reasoning": _read_reasoning,
    "tool_use": _read_call,
    "tool_result": _read_tool_result,
    "image": read_image,
    "image_url": read_image,
    "input_image": read_image,
    "document": read_document,
    "file": read_document,
    "input_file": read_document,
    "search_result": _read_words,
    "container_upload": _read_words,
    "input_audio": _read_words,
}
