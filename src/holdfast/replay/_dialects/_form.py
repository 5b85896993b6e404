"""What every dialect offers, and small things that several of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.replay._blocks import Block, Note
from holdfast.replay._media import describe

__all__ = [
    "Dialect",
    "Growth",
    "Message",
    "Pair",
    "begin_message",
    "call_names",
    "data_url",
    "result_text",
    "text_or_parts",
]

Message = dict[str, Any]
Pair = tuple[str, Block]
"""Who says it (user, assistant or system) and a neutral block."""


@dataclass(frozen=True)
class Growth:
    """How a message that gets one block after the other can grow in place.

    ``begin(role)`` gives an empty message and the list in it that takes what ``part(block)`` gives.
    """

    begin: Callable[[str], tuple[Message, list[Any]]]
    part: Callable[[Block], Any]
    texts_only: bool = True
    """Whether only messages of nothing but texts can grow."""


@dataclass(frozen=True)
class Dialect:
    """How one provider writes a conversation.

    ``write(role, blocks, before)`` gives the messages for one neutral message; ``before`` are the
    blocks of the one in front of it. The list of blocks may become the message's own.
    ``read(message, note)`` gives what a message says.
    """

    name: str
    write: Callable[[str, list[Block], list[Block]], list[Message]]
    read: Callable[[Message, Note], list[Pair]]
    has_system: bool = False
    """Whether system prompts stand in the list."""
    growth: Growth | None = None
    """How a long message can grow without being written anew; None if it cannot."""


def begin_message(role: str) -> tuple[Message, list[Any]]:
    """An empty message with a list as its content, and that list."""
    content: list[Any] = []
    return {"role": role, "content": content}, content


def call_names(before: Iterable[Block]) -> dict[str, str]:
    """The tool's name for each call in a message."""
    return {block["id"]: block["name"] for block in before if block["type"] == "tool_use"}


def data_url(source: Block) -> str:
    """A base64 source as a URL."""
    return f"data:{source['media_type']};base64,{source['data']}"


def result_text(content: str | list[Block]) -> str:
    """A tool result as text; images and documents in words."""
    if isinstance(content, str):
        return content
    return "\n".join(
        block["text"] if block["type"] == "text" else describe(block) for block in content
    )


def text_or_parts(parts: list[Message], key: str = "text") -> str | list[Message]:
    """A lone text as a string, everything else as a list of parts."""
    if len(parts) == 1 and key in parts[0] and len(parts[0]) == 2:
        text: str = parts[0][key]
        return text
    return parts
