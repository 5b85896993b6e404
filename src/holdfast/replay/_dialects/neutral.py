"""The neutral form, and Anthropic's, which differs only in what it does not take."""

from __future__ import annotations

from holdfast.replay._blocks import OWNERS, Block, Note, read_content, text_block
from holdfast.replay._dialects._form import (
    Dialect,
    Fragment,
    Growth,
    Message,
    Pair,
    begin_message,
    named,
)
from holdfast.replay._text import plain_text, template, type_name

__all__ = ["ANTHROPIC", "NEUTRAL", "bare_text", "read_message"]

_MESSAGES = {role: template(role=role, content=None) for role in ("user", "assistant", "system")}
_COMMON = frozenset({"text", "tool_use", "tool_result"})  # everyone's, if nobody signed them
_HTTPS = frozenset({"https"})  # the only addresses that Anthropic fetches
_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}


def bare_text(block: Block) -> bool:
    """Whether a block is a text and nothing more, so that a string says the same."""
    return block["type"] == "text" and len(block) == 2


def _message(role: str, blocks: list[Block]) -> list[Message]:
    message = _MESSAGES[role].copy()
    if len(blocks) == 1 and bare_text(blocks[0]):
        message["content"] = blocks[0]["text"]
    else:
        message["content"] = blocks
    return [message]


def _write_neutral(role: str, blocks: list[Block], _before: list[Block]) -> list[Message]:
    return _message(role, blocks)


def _write_anthropic(role: str, blocks: list[Block], _before: list[Block]) -> list[Message]:
    for block in blocks:
        if block["type"] not in _COMMON or "thought_signature" in block:
            kept = [own for each in blocks if (own := _keep_anthropic(each)) is not None]
            return _message(role, kept)
    return _message(role, blocks)


def _keep_neutral(block: Block) -> Block:
    return block


def _keep_anthropic(block: Block) -> Block | None:
    """A block as Anthropic takes it: without other providers' signatures; None for their blocks."""
    kind = block["type"]
    if OWNERS.get(kind, "anthropic") != "anthropic":
        return None
    if kind == "thinking" and "signature" not in block:
        return None
    if "thought_signature" in block:
        return {name: value for name, value in block.items() if name != "thought_signature"}
    return block


def _join(fragments: list[Fragment]) -> list[Message]:
    """One message of all fragments: their blocks one after the other."""
    given = [message for fragment in fragments for message in fragment.messages]
    blocks: list[Block] = []
    for message in given:
        content = message["content"]
        blocks += [text_block(content)] if isinstance(content, str) else content
    return [{"role": given[0]["role"], "content": blocks}]


def read_message(message: Message, note: Note) -> list[Pair]:
    """What a message with a role and a content says."""
    role = message.get("role")
    side = _ROLES.get(role) if isinstance(role, str) else None
    if side is None:
        shown = plain_text(role) if isinstance(role, str) else type_name(role)
        note("invalid_structure", f"a message of role {shown!r} was dropped", message)
        return []
    return [(side, block) for block in read_content(message.get("content"), note)]


NEUTRAL = Dialect(
    "neutral",
    _write_neutral,
    read_message,
    growth=Growth(begin_message, _keep_neutral, texts_only=False),
)
ANTHROPIC = Dialect(
    "anthropic",
    _write_anthropic,
    read_message,
    growth=Growth(
        begin_message, lambda block: _keep_anthropic(named(block, _HTTPS)), texts_only=False
    ),
    schemes=_HTTPS,
    join=_join,
)
