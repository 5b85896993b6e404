"""Reading a message of any dialect, or of none, as pairs of a side and a neutral block."""

from __future__ import annotations

from typing import Any

from holdfast.replay._blocks import Block, Note, is_soft, text_block
from holdfast.replay._dialects import DIALECTS, Dialect, Message, Pair
from holdfast.replay._dialects.responses import ITEMS
from holdfast.replay._media import describe
from holdfast.replay._text import type_name

__all__ = ["admit", "read_message", "recognise"]

_CHAT = frozenset({"tool_calls", "function_call", "refusal", "audio", "reasoning_content"})
_CHAT_PARTS = frozenset({"image_url", "input_audio", "file", "refusal"})
_ITEM_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file"})


def read_message(message: Any, note: Note) -> tuple[Dialect, list[Pair]]:
    """What a message says, and the dialect it is in. Anything that is no message says nothing."""
    if not isinstance(message, dict):
        note("invalid_structure", f"a {type_name(message)} is not a message: dropped", None)
        return DIALECTS["neutral"], []
    dialect = recognise(message)
    pairs = (admit(side, block, note) for side, block in dialect.read(message, note))
    return dialect, [pair for pair in pairs if pair is not None]


def recognise(message: Message) -> Dialect:
    """The dialect whose marks a message bears; the neutral one if it bears none."""
    if "parts" in message:
        return DIALECTS["pydantic-ai" if "kind" in message else "gemini"]
    role, kind = message.get("role"), message.get("type")
    if isinstance(kind, str) and (kind in ITEMS or role is None):
        return DIALECTS["openai-responses"]
    tool = isinstance(role, str) and role in {"tool", "function"}
    if tool or not _CHAT.isdisjoint(message):
        return DIALECTS["openai"]
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    # Of the dict itself: an object that fights back is no block, and no reason to drop the rest.
    found = [dict.get(one, "type") for one in parts if isinstance(one, dict)]
    kinds = {kind for kind in found if isinstance(kind, str)}
    if kinds & _ITEM_PARTS:
        return DIALECTS["openai-responses"]
    return DIALECTS["openai" if kinds & _CHAT_PARTS else "neutral"]


def admit(side: str, block: Block, note: Note) -> Pair | None:
    """A block on the side where it may stand; None if it may stand on none."""
    kind = block["type"]
    if kind == "tool_use":
        return "assistant", block
    if kind == "tool_result":
        return "user", block
    if side != "assistant" and is_soft(block):
        note("invalid_block", f"a {kind} block outside an assistant's turn was dropped", block)
        return None
    if side != "user" and kind in {"image", "document"}:
        note("invalid_block", f"a {kind} outside a user's turn was put into words", block)
        return side, text_block(describe(block))
    return side, block
