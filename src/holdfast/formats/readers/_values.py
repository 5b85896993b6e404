"""Taking values out of records that nobody vouches for: what is not as it should be is empty."""

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
"""What a request used, by the provider's names, which are ours."""
_BASE64 = ";base64"


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    """The value if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def texts(values: Iterable[Any]) -> tuple[str, ...]:
    """Those of the values that are texts."""
    return tuple(value for value in values if isinstance(value, str))


def first_text(*values: Any) -> str | None:
    """The first of the values that is a text with something in it."""
    return next((value for value in values if isinstance(value, str) and value.strip()), None)


def first_time(*values: Any) -> int | None:
    """The first of the values that is a time, in Unix milliseconds."""
    return next(filter(None, map(read_time, values)), None)


def between(words: str, opening: str, closing: str) -> str | None:
    """What stands between two marks; None without the first, all the rest without the second."""
    _, found, rest = words.partition(opening)
    return rest.partition(closing)[0] if found else None


def block_text(blocks: Any) -> str:
    """The text of a content: a string, or the text of its blocks one below the other."""
    if isinstance(blocks, str):
        return blocks
    parts = (part if isinstance(part, str) else mapping(part).get("text") for part in items(blocks))
    return "\n".join(part for part in parts if isinstance(part, str) and part)


def text_result(result: Any) -> Any:
    """A tool's result; blocks that are all text become one text."""
    is_text = items(result) and all(mapping(block).get("type") == "text" for block in result)
    return block_text(result) if is_text else result


def said_blocks(content: Any) -> list[dict[str, Any]]:
    """The words and pictures of a content in our form; what is neither is left out."""
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
    """Those of the blocks that there are."""
    return [block for block in found if block]


def text_block(words: Any) -> dict[str, Any]:
    return {"type": "text", "text": text(words)}


def image_block(media: Any, data: Any) -> dict[str, Any] | None:
    """A picture or document in our form; None without data."""
    if not isinstance(data, str) or not data:
        return None
    media = media if isinstance(media, str) and media else "image/png"
    kind = "image" if media.startswith("image/") else "document"
    return {"type": kind, "source": {"type": "base64", "media_type": media, "data": data}}


def data_url_block(url: Any) -> dict[str, Any] | None:
    """A picture by its address, which may be a ``data:`` one that carries the picture itself."""
    if not isinstance(url, str) or not url:
        return None
    head, comma, data = url.partition(",")
    if head.startswith("data:") and comma and head.endswith(_BASE64):
        return image_block(head[len("data:") : -len(_BASE64)], data)
    if not url.startswith(("http://", "https://")):
        return None
    return {"type": "image", "source": {"type": "url", "url": url}}


def rename_figures(figures: Any, names: Mapping[str, str]) -> dict[str, Any]:
    """Token counts under our names: ``names`` maps the tool's name to ours. Zeros are left out."""
    given: list[tuple[str, Any]] = [(ours, mapping(figures).get(theirs)) for theirs, ours in names.items()]
    return {name: amount for name, amount in given if type(amount) in (int, float) and amount > 0}


# JSON documents that were cut short: tools that rewrite whole files leave them behind.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\Z)|[\[\]{},]', re.DOTALL)
_CLOSING = {b"[": b"]", b"{": b"}"}
_DEPTH_KEPT = 2  # a list of messages is at most this deep: what is cut within one of them is not whole


def mend(data: bytes) -> bytes | None:
    """A document that was cut short, up to the last comma between its members or those of a list; None for another."""
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


# Messages of other systems as drafts: words, thoughts, calls and results, in their order.
T = TypeVar("T")
_SIDES = {
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "agent", "model", "ai", "bot"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
}


def speak(role: Any, content: Any, when: int | None, raw: Any, **extra: Any) -> list[ForeignDraft]:
    """A message as drafts. ``content`` is a text or blocks; ``raw`` goes with the first of them.

    Words that stand together are one event; a role that nobody knows speaks as the user, with its name kept. ``extra``
    (usage, model, metadata) goes with the first words of an assistant.
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
    """The draft of a block that is an event of its own; None for words and pictures."""
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
    """The entries of a memory, in any of the shapes that agents keep them in."""
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
    """All of ``base``, and, after what it follows there, what only ``other`` has by its key, as often as it comes."""
    merged: list[list[T]] = [[]] + [[item] for item in base]
    places: dict[str, list[int]] = {}
    for place, item in enumerate(base, 1):
        places.setdefault(key(item), []).append(place)
    at = 0
    for item in other:
        # Each place is used up once: what was said twice stays said twice.
        known = places.get(key(item))
        if known:
            at = known.pop(0)
        else:
            merged[at].append(item)
    return [item for group in merged for item in group]


def member(value: Any, *names: str) -> Any:
    """What lies at the end of a way through maps; None where it breaks off."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def texts_in(*values: Any) -> tuple[str, ...]:
    """The texts in some lists, each once; what is no list has none."""
    return tuple(dict.fromkeys(texts(item for value in values for item in items(value))))


def as_text(value: Any) -> str:
    """A value as text: itself, nothing for None, else its JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return msgspec.json.encode(value).decode()
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return str(value)


def as_json(value: Any) -> Any:
    """The value of a text that is JSON; anything else as it is."""
    try:
        return decode_value(value.encode("utf-8", "replace")) if isinstance(value, str) else value
    except InvalidData:
        return value


def digest(*values: Any) -> str:
    """A short stable name for some values, whatever the order of their members."""
    try:
        data = msgspec.json.encode(values, order="sorted")
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        data = str(values).encode("utf-8", "replace")
    return hashlib.sha256(data).hexdigest()[:20]
