"""Messages in the neutral form: plain dicts with a role and a string or blocks as content.

Blocks have Anthropic's shape: ``text``, ``thinking``, ``tool_use {id, name, input}``,
``tool_result {tool_use_id, content, is_error}``, ``image``, ``document``. The types here say what a
message holds; at run time they are ordinary dicts that any JSON library takes.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

__all__ = ["Block", "Content", "Message", "Role"]

Role = Literal["user", "assistant", "system", "tool"]


class Block(TypedDict, total=False):
    """One part of a message; ``type`` says which of the other members are there."""

    type: str
    text: str
    thinking: str
    signature: str
    id: str
    name: str
    input: Any
    tool_use_id: str
    content: Any
    is_error: bool
    source: dict[str, Any]


Content = str | list[Block]


class Message(TypedDict):
    """One turn of a conversation."""

    role: Role
    content: Content
