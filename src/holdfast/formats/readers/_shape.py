"""Taking values out of records that nobody vouches for: what is not as it should be is empty."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from holdfast.errors import HoldfastError, InvalidData
from holdfast.formats._bounds import decode_document
from holdfast.formats._source import Source

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
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


def first_text(*values: Any) -> str | None:
    """The first of the values that is a text with something in it."""
    return next((value for value in values if isinstance(value, str) and value.strip()), None)


def between(words: str, opening: str, closing: str) -> str | None:
    """What stands between two marks; None without the first, all the rest without the second."""
    _, found, rest = words.partition(opening)
    return rest.partition(closing)[0] if found else None


def json_value(value: Any) -> Any:
    """The value of a text that holds JSON; the text itself if it holds none."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def block_text(blocks: Any) -> str:
    """The text of a content: a string, or the text of its blocks one below the other."""
    if isinstance(blocks, str):
        return blocks
    parts = (part if isinstance(part, str) else mapping(part).get("text") for part in items(blocks))
    return "\n".join(part for part in parts if isinstance(part, str) and part)


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
    given = mapping(figures)
    return {
        ours: given[theirs]
        for theirs, ours in names.items()
        if _is_figure(given.get(theirs)) and given[theirs] > 0
    }


def _is_figure(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# JSON documents that were cut short: tools that rewrite whole files leave them behind.


_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\Z)|[\[\]{},]', re.DOTALL)
_CLOSING = {b"[": b"]", b"{": b"}"}
_DEPTH_KEPT = 2
"""A list of messages is at most this deep: what is cut within one of them is not whole."""


def mend(data: bytes) -> bytes | None:
    """The whole part of a document that was cut short, as a document; None if it was not cut.

    It is cut back to the last comma between members of the document or of a list in it.
    """
    open_ones: list[bytes] = []
    kept: tuple[int, list[bytes]] = (0, [])
    for token in _TOKEN.finditer(data):
        mark = token[0]
        if mark in _CLOSING:
            open_ones.append(mark)
            if len(open_ones) <= _DEPTH_KEPT:
                kept = token.end(), list(open_ones)
        elif mark in (b"]", b"}"):
            if not open_ones or _CLOSING[open_ones.pop()] != mark:
                return None
            if not open_ones:
                return None
            if len(open_ones) < _DEPTH_KEPT:
                kept = token.end(), list(open_ones)
        elif mark == b"," and len(open_ones) <= _DEPTH_KEPT:
            kept = token.start(), list(open_ones)
    end, unclosed = kept
    return data[:end] + b"".join(_CLOSING[mark] for mark in reversed(unclosed)) if end else None


def look(source: Source, name: str, mark: bytes) -> Any:
    """A document, to see whose it is; also one that was cut short, if the mark is in its head."""
    value = source.glimpse(name)
    if value is not None or mark not in source.head(name):
        return value
    return source.remember("mended", name, lambda: _mended(source, name))


def _mended(source: Source, name: str) -> Any:
    whole = mend(source.head(name, source.bounds.document_bytes_max))
    try:
        return None if whole is None else decode_document(whole, source.bounds)
    except HoldfastError:
        return None


def open_document(source: Source, name: str, problems: list[str]) -> Any:
    """A document, or what is whole of it; None if nothing is. What is missing is told."""
    try:
        return source.json(name)
    except InvalidData as error:
        value = source.remember("mended", name, lambda: _mended(source, name))
        rest = "what is whole was read" if value is not None else "nothing of it could be read"
        problems.append(f"{name}: {error}; {rest}")
        return value
    except HoldfastError as error:
        problems.append(f"{name}: {error}")
        return None
