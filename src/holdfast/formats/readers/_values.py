"""Taking values out of untrusted records: an invalid one becomes an empty one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from holdfast.errors import InvalidData
from holdfast.formats._file import decode_value
from holdfast.formats._foreign import ForeignDraft, read_time

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
ANTHROPIC_USAGE = {
    name: name for name in ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
}
"""The usage of a request, by the provider's names, which are ours."""
_BASE64 = ";base64"


def mapping(value: Any) -> dict[str, Any]:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    """Return the value if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def texts(values: Iterable[Any]) -> tuple[str, ...]:
    """Return the values that are texts."""
    return tuple(value for value in values if isinstance(value, str))


def first_text(*values: Any) -> str | None:
    """Return the first of the values that is a non-empty text."""
    return next((value for value in values if isinstance(value, str) and value.strip()), None)


def first_time(*values: Any) -> int | None:
    """Return the first of the values that is a time, in Unix milliseconds."""
    return next(filter(None, map(read_time, values)), None)


def between(words: str, opening: str, closing: str) -> str | None:
    """Return the text between two marks; None without the first, all the rest without the second."""
    _, found, rest = words.partition(opening)
    return rest.partition(closing)[0] if found else None


def block_text(blocks: Any) -> str:
    """Return the text of a content: a string, or the text of its blocks joined by newlines."""
    if isinstance(blocks, str):
        return blocks
    parts = (part if isinstance(part, str) else mapping(part).get("text") for part in items(blocks))
    return "\n".join(part for part in parts if isinstance(part, str) and part)


def text_result(result: Any) -> Any:
    """Return a tool's result; blocks that are all text become one text."""
    is_text = items(result) and all(mapping(block).get("type") == "text" for block in result)
    return block_text(result) if is_text else result


def said_blocks(content: Any) -> list[dict[str, Any]]:
    """Return the words and images of a content in our form; others are left out."""
    found: list[dict[str, Any]] = []
    for block in map(mapping, items(content)):
        if block.get("type") == "text":
            found.append(text_block(block.get("text")))
        elif block.get("type") == "image":
            source = mapping(block.get("source"))
            media = first_text(block.get("mimeType"), source.get("mediaType"))
            found += blocks(image_block(media, block.get("data", source.get("data"))))
    return found


def blocks(*found: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the blocks that are not None."""
    return [block for block in found if block]


def text_block(words: Any) -> dict[str, Any]:
    return {"type": "text", "text": text(words)}


def image_block(media: Any, data: Any) -> dict[str, Any] | None:
    """Return an image or document in our form; None without data."""
    if not isinstance(data, str) or not data:
        return None
    media = media if isinstance(media, str) and media else "image/png"
    kind = "image" if media.startswith("image/") else "document"
    return {"type": kind, "source": {"type": "base64", "media_type": media, "data": data}}


def data_url_block(url: Any) -> dict[str, Any] | None:
    """Return an image by its address, which may be a ``data:`` one that contains the image itself."""
    if not isinstance(url, str) or not url:
        return None
    head, comma, data = url.partition(",")
    if head.startswith("data:") and comma and head.endswith(_BASE64):
        return image_block(head[len("data:") : -len(_BASE64)], data)
    if not url.startswith(("http://", "https://")):
        return None
    return {"type": "image", "source": {"type": "url", "url": url}}


def rename_figures(figures: Any, names: Mapping[str, str]) -> dict[str, Any]:
    """Return token counts under our names: ``names`` maps the tool's name to ours. Zeros are left out."""
    given: list[tuple[str, Any]] = [(ours, mapping(figures).get(theirs)) for theirs, ours in names.items()]
    return {name: amount for name, amount in given if type(amount) in (int, float) and amount > 0}


# JSON documents that were cut short: tools that rewrite whole files leave them behind.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\Z)|[\[\]{},]', re.DOTALL)
_CLOSING = {b"[": b"]", b"{": b"}"}
_DEPTH_KEPT = 2  # a list of messages is at most this deep: a message that is cut is incomplete


def mend(data: bytes) -> bytes | None:
    """Return a document that was cut short, up to the last comma between members or items; None for others."""
    # A document that a tool was writing when it died lacks its end, never its beginning.
    open_ones: list[bytes] = []
    kept: tuple[int, list[bytes]] = (0, [])
    for token in _TOKEN.finditer(data):
        mark = token[0]
        if mark in _CLOSING:
            open_ones.append(mark)
            if len(open_ones) <= _DEPTH_KEPT:
                kept = token.end(), list(open_ones)
        elif mark in (b"]", b"}"):
            if not open_ones or _CLOSING[open_ones.pop()] != mark or not open_ones:
                return None
            if len(open_ones) < _DEPTH_KEPT:
                kept = token.end(), list(open_ones)
        elif mark == b"," and len(open_ones) <= _DEPTH_KEPT:
            kept = token.start(), list(open_ones)
    end, unclosed = kept
    return data[:end] + b"".join(_CLOSING[mark] for mark in reversed(unclosed)) if end else None


# Foreign messages as drafts: words, thoughts, calls and results, in their order.
T = TypeVar("T")
_SIDES = {
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "agent", "model", "ai", "bot"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
}


def speak(role: Any, content: Any, when: int | None, raw: Any, **extra: Any) -> list[ForeignDraft]:
    """Return a message as drafts. ``content`` is a text or blocks; ``raw`` goes with the first of them.

    Adjacent words are one event; an unknown role counts as the user, with its name kept. ``extra`` (usage, model,
    metadata) goes with the first words of an assistant.
    """
    side = _SIDES.get(str(role).lower(), "user")
    named = {} if str(role).lower() in _SIDES else {"metadata": {"role": str(role)}}
    drafts: list[ForeignDraft] = []
    words: list[Any] = []

    def say() -> None:
        if words:
            bare = len(words) == 1 and words[0].get("type") == "text" and words[0].keys() <= {"type", "text"}
            drafts.append(ForeignDraft(side, {"content": words[0]["text"] if bare else list(words), **named}, when))
            words.clear()

    for block in content if isinstance(content, list) else [content]:
        if isinstance(block, dict) and (own := _own_draft(block, when)):
            say()
            drafts.append(own)
        elif block is not None:
            words.append(block if isinstance(block, dict) else text_block(as_text(block)))
    say()
    drafts = drafts or [ForeignDraft(side, {"content": ""}, when)]
    drafts[0].raw = raw
    # Usage and model belong to what the model said, not to what it thought before.
    spoken = next((draft for draft in drafts if draft.type in (side, "tool_call")), drafts[0])
    spoken.data.update((name, value) for name, value in extra.items() if value is not None)
    return drafts


def _own_draft(block: dict[str, Any], when: int | None) -> ForeignDraft | None:
    """Return the draft of a block that is an event of its own; None for words and images."""
    kind = block.get("type")
    signed = {name: block[name] for name in ("signature", "thought_signature") if block.get(name)}
    if kind == "tool_use":
        signed.pop("signature", None)
        data = {"id": as_text(block.get("id")), "tool": as_text(block.get("name")), "params": block.get("input")}
        return ForeignDraft("tool_call", data | signed, when)
    if kind == "tool_result":
        data = {"toolCallId": as_text(block.get("tool_use_id")), "result": block.get("content")}
        return ForeignDraft("tool_result", data | ({"is_error": True} if block.get("is_error") else {}), when)
    if kind == "thinking":
        return ForeignDraft("thinking", {"content": as_text(block.get("thinking"))} | signed, when)
    return None


def memories(entries: Any, when: int | None) -> Iterator[ForeignDraft]:
    """Return the entries of a memory, in any of the forms that agents use."""
    for entry in map(mapping, items(entries)):
        if not entry.get("key"):
            continue
        created, updated = read_time(entry.get("createdAt")), read_time(entry.get("updatedAt"))
        size = entry.get("sizeBytes")
        data = {
            "key": as_text(entry["key"]),
            "value": entry.get("value"),
            "description": as_text(entry.get("description")),
            "scope": as_text(entry.get("scope") or "session"),
            "priority": as_text(entry.get("basePriority") or entry.get("priority") or "normal"),
            "pinned": entry.get("pinned") is True,
            "sizeBytes": size if type(size) is int else None,
            "created_at": created or updated,
            "last_accessed_at": read_time(entry.get("lastAccessedAt")),
        }
        kept = {name: value for name, value in data.items() if value is not None}
        yield ForeignDraft("memory_set", kept, updated or created or when, raw=entry)


def join(base: list[T], other: Iterable[T], key: Callable[[T], str]) -> list[T]:
    """Return all of ``base``, with the items that only ``other`` has by their key, after those they follow there."""
    merged: list[list[T]] = [[]] + [[item] for item in base]
    places: dict[str, list[int]] = {}
    for place, item in enumerate(base, 1):
        places.setdefault(key(item), []).append(place)
    at = 0
    for item in other:
        # Each place is used up once: a repeated item stays repeated.
        known = places.get(key(item))
        if known:
            at = known.pop(0)
        else:
            merged[at].append(item)
    return [item for group in merged for item in group]


def member(value: Any, *names: str) -> Any:
    """Return the value at the end of a path through maps; None where it breaks off."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def texts_in(*values: Any) -> tuple[str, ...]:
    """Return the texts in some lists, each once."""
    return tuple(dict.fromkeys(texts(item for value in values for item in items(value))))


def as_text(value: Any) -> str:
    """Return a value as text: itself, nothing for None, else its JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return msgspec.json.encode(value).decode()
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return str(value)


def as_json(value: Any) -> Any:
    """Return the value of a text that is JSON; anything else unchanged."""
    try:
        return decode_value(value.encode("utf-8", "replace")) if isinstance(value, str) else value
    except InvalidData:
        return value


def digest(*values: Any) -> str:
    """Return a short stable name for some values, whatever the order of their members."""
    try:
        data = msgspec.json.encode(values, order="sorted")
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        data = str(values).encode("utf-8", "replace")
    return hashlib.sha256(data).hexdigest()[:20]
