"""The items of a oneringai conversation: what each says, in the neutral form."""

from __future__ import annotations

from typing import Any

from holdfast.formats._foreign import Draft, frame
from holdfast.formats.readers._speech import as_json, as_text, digest, member, speak

__all__ = ["TOOL", "Item", "said"]

TOOL = "oneringai"


class Item:
    """One item of the conversation, with its time and line where the journal has them."""

    __slots__ = ("item", "raw", "role", "when")

    def __init__(self, item: Any, when: int | None = None, raw: Any = None, role: str = "") -> None:
        self.item = item
        self.when = when
        self.raw = item if raw is None else raw
        self.role = role

    @property
    def id(self) -> str | None:
        """The item's own id, which it need not have."""
        own = member(self.item, "id")
        return own if isinstance(own, str) and own else None

    @property
    def words(self) -> str:
        """A name for what the item says."""
        return digest(member(self.item, "role") or self.role, member(self.item, "content"))

    @property
    def key(self) -> str:
        """The name under which its events are known."""
        return self.id or self.words


def said(entry: Item) -> list[Draft]:
    """The events of an item, each with a key of its own."""
    item = entry.item
    role = member(item, "role") or entry.role
    if not role or member(item, "type") == "compaction":
        drafts = [frame(TOOL, entry.raw, entry.when)]
    else:
        content = member(item, "content") if isinstance(item, dict) else item
        parts = content if isinstance(content, list) else [content]
        drafts = speak(role, [_block(part) for part in parts], entry.when, entry.raw)
    for number, draft in enumerate(drafts):
        draft.key = f"{entry.key}.{number}"
    return drafts


def _block(part: Any) -> Any:
    """A part of a message in the neutral form."""
    kind = member(part, "type")
    if kind in ("input_text", "output_text"):
        return {"type": "text", "text": as_text(part.get("text"))}
    if kind == "input_image_url":
        return {"type": "image_url", "image_url": part.get("image_url")}
    if kind == "tool_use":
        block = {"type": "tool_use", "id": part.get("id"), "name": part.get("name")}
        block["input"] = as_json(part.get("arguments", part.get("input")))
        return block | {"thought_signature": part.get("thoughtSignature")}
    if kind == "tool_result":
        return _result(part)
    if kind == "thinking":
        return {name: part.get(name) for name in ("type", "thinking", "signature")}
    return part


def _result(part: dict[str, Any]) -> dict[str, Any]:
    content: Any = part.get("content")
    error = part.get("error")
    if error and not content:
        content = as_text(error)
    images = part.get("__images")
    if isinstance(images, list) and images:
        words = [{"type": "text", "text": as_text(content)}] if content else []
        content = words + [_image(image) for image in images]
    return {
        "type": "tool_result",
        "tool_use_id": part.get("tool_use_id"),
        "content": content,
        "is_error": bool(error),
    }


def _image(image: Any) -> dict[str, Any]:
    source = {
        "type": "base64",
        "media_type": as_text(member(image, "mediaType")) or "image/png",
        "data": as_text(member(image, "base64")),
    }
    return {"type": "image", "source": source}
