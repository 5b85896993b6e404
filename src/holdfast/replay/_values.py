"""What a tool was given and what it gave back, as providers take it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from holdfast.model import BLOB_KEY
from holdfast.replay._media import read_document, read_image
from holdfast.replay._text import clean_json, clean_text, is_blank, plain_text

Note = Callable[[str, str, Any], None]

NO_OUTPUT = "(no output)"
"""What the model reads when a tool gave nothing back: providers refuse an empty text."""

_TEXTS = frozenset({"text", "input_text", "output_text"})
_IMAGES = frozenset({"image", "image_url", "input_image"})
_DOCUMENTS = frozenset({"document", "file", "input_file"})
_PARTS = _TEXTS | _IMAGES | _DOCUMENTS


def dump_json(value: Any) -> str:
    """Clean JSON data as text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def blob_text(reference: dict[str, Any]) -> str:
    """What stands for a payload that is kept beside the log and was not loaded."""
    media = plain_text(reference.get("media")) or "data"
    return f"({media} kept apart as {plain_text(reference[BLOB_KEY]) or 'a blob'})"


def read_input(value: Any, note: Note) -> dict[str, Any]:
    """A call's arguments as an object; anything else is put under ``value``."""
    if isinstance(value, str):
        value = _parse(value)
    if value is None:
        return {}
    cleaned = clean_json(value)
    if cleaned is not value:
        note("invalid_value", "a tool call's arguments were made plain JSON", None)
    return cleaned if isinstance(cleaned, dict) else {"value": cleaned}


def _parse(text: str) -> Any:
    """The value of a JSON text; the text itself if it is none."""
    if is_blank(text):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def read_result(value: Any, note: Note) -> tuple[str | list[dict[str, Any]], bool]:
    """What a tool gave back as text or blocks, and whether it says itself that it failed."""
    failed = False
    if isinstance(value, dict):
        failed = value.get("error") is True
        if BLOB_KEY not in value and value.keys() == {"content"}:
            value = value["content"]
    if isinstance(value, (list, tuple)) and value and all(_is_part(item) for item in value):
        blocks = [block for item in value if (block := _read_part(item, note)) is not None]
        return blocks or _nothing(note), failed
    text = _result_text(value, note)
    return (_nothing(note) if is_blank(text) else text), failed


def _nothing(note: Note) -> str:
    note("empty_result", f"an empty tool result now reads {NO_OUTPUT!r}", None)
    return NO_OUTPUT


def _result_text(value: Any, note: Note) -> str:
    if isinstance(value, str):
        text = clean_text(value)
        if text is not value:
            note("invalid_text", "broken characters in a tool result were replaced", None)
        return text
    if value is None or (isinstance(value, (list, tuple)) and not value):
        return ""
    if isinstance(value, dict) and BLOB_KEY in value:
        return blob_text(value)
    return dump_json(clean_json(value))


def _is_part(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("type"), str) and item["type"] in _PARTS


def _read_part(part: dict[str, Any], note: Note) -> dict[str, Any] | None:
    kind = part["type"]
    if kind in _IMAGES:
        return read_image(part, note)
    if kind in _DOCUMENTS:
        return read_document(part, note)
    text = plain_text(part.get("text"))
    if text is None or is_blank(text):
        note("empty_block", "an empty part of a tool result was dropped", None)
        return None
    if text is not part.get("text") or kind != "text":
        note("invalid_text", "a part of a tool result was made well-formed", None)
    return {"type": "text", "text": text}
