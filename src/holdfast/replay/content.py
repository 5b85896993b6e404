"""Content, results and other values as words, for people to read. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.model import is_reference

_TEXTS = frozenset({"text", "input_text", "output_text", "summary_text", "reasoning_text"})
_WORDS = _TEXTS | {"refusal"}
_MEDIA = {
    **dict.fromkeys(("image", "image_url", "input_image"), "image"),
    **dict.fromkeys(("file", "input_file"), "file"),
    **dict.fromkeys(("audio", "input_audio"), "audio"),
    "document": "document",
    "video": "video",
}
_NAMES = ("title", "name", "filename", "caption", "alt", "description", "context", "text")
_PLACES = ("url", "uri", "file_id", "file_data")
# Deeper than that no reference to a payload is searched.
_DEPTH_MAX = 20


class Media(msgspec.Struct, frozen=True):
    """An image, a file, or a payload kept beside the log, among words."""

    kind: str
    media_type: str = ""
    name: str = ""
    """Its name or address."""
    source: dict[str, Any] = {}
    size: int | None = None
    """The size of a payload that is kept beside the log and was not loaded; None for everything else."""

    def __str__(self) -> str:
        if self.size is not None:
            size = f"{self.size:,} bytes of {self.media_type}"
            return f"[{size}, kept beside the log: holdfast show --full has them]"
        return f"[{' '.join(filter(None, (self.kind, self.media_type, self.name)))}]"


Piece = str | Media

_TODO_MARKS = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]"}


def todo_line(todo: dict[str, Any]) -> str:
    """Return a todo as a line: ``[x] call Bob``."""
    return f"{_TODO_MARKS.get(str(todo.get('status')), '[?]')} {todo.get('content')}"


def as_json(value: Any, indent: int = 0) -> str:
    """Return a value as JSON text."""
    try:
        document = msgspec.json.encode(value)
        return (msgspec.json.format(document, indent=indent) if indent else document).decode()
    # The standard library writes what the fast encoder refuses: huge integers, foreign objects.
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        import json

        return json.dumps(value, default=str, ensure_ascii=True, indent=indent or None)


def as_text(value: Any) -> str:
    """Return any value as text: strings as they are, blocks by their words, the rest as JSON."""
    return "null" if value is None else joined(as_pieces(value))


def joined(pieces: Sequence[Piece]) -> str:
    """Return the words line by line; media among them are named."""
    return "\n".join([str(piece) for piece in pieces])


def as_pieces(value: Any) -> tuple[Piece, ...]:
    """Return content, a result or any other value as words and media."""
    if isinstance(value, str):
        # A line end of one system would move the cursor on others.
        return (value.replace("\r\n", "\n") if "\r" in value else value,)
    if value is None:
        return ()
    if is_reference(value):
        return (_kept(value),)
    if isinstance(value, list) and value and all(_is_block(item) for item in value):
        return tuple(piece for item in value for piece in _block_pieces(item))
    if isinstance(value, dict):
        # The wrapper of results in several frameworks.
        if len(value) == 1 and isinstance(value.get("content"), str):
            return as_pieces(value["content"])
        if _is_block(value):
            return _block_pieces(value)
    return (as_json(without_references(value)),)


def kinds_said(type: str, content: Any) -> frozenset[str]:
    """Return the kinds of words in a final message: "assistant", "thinking", both or neither.

    It replaces streamed text of these kinds only. Blocks that are neither text nor thinking do not count:
    showing text twice is better than never.
    """
    blocks = content if isinstance(content, list) else [content]
    return frozenset(kind for block in blocks if (kind := _kind_said(type, block)))


def words_said(content: Any) -> dict[str, str]:
    """Return the words of an assistant's message for each kind that ``kinds_said`` gives."""
    said: dict[str, list[Piece]] = {}
    for block in content if isinstance(content, list) else [content]:
        if kind := _kind_said("assistant", block):
            pieces = thoughts(block) if kind == "thinking" else as_pieces(block)
            said.setdefault(kind, []).extend(pieces)
    return {kind: joined(pieces) for kind, pieces in said.items()}


def thoughts(block: dict[str, Any]) -> tuple[Piece, ...]:
    """Return the text of a thinking or reasoning block."""
    if block.get("type") == "thinking":
        return as_pieces(block.get("thinking"))
    said = [*as_pieces(block.get("summary") or None), *as_pieces(block.get("content") or None)]
    return tuple(said) or ("[thinking that only its provider can read]",)


def _kind_said(type: str, block: Any) -> str:
    if isinstance(block, str) or is_reference(block):
        return type if block else ""
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "thinking":
        return kind if block.get("thinking") else ""
    if kind == "reasoning":
        return "thinking" if block.get("summary") or block.get("content") else ""
    said = block.get("refusal" if kind == "refusal" else "text") if kind in _WORDS else None
    return type if said else ""


def _kept(reference: dict[str, Any]) -> Media:
    size = reference["bytes"]
    media = reference.get("media")
    return Media("data", media if isinstance(media, str) else "data", size=size if isinstance(size, int) else 0)


def without_references(value: Any, depth: int = _DEPTH_MAX) -> Any:
    """Return the value with a description in place of payloads kept beside the log."""
    if is_reference(value):
        return str(_kept(value))
    if depth and isinstance(value, dict):
        return {name: without_references(item, depth - 1) for name, item in value.items()}
    if depth and isinstance(value, list):
        return [without_references(item, depth - 1) for item in value]
    return value


def _is_block(value: Any) -> bool:
    if isinstance(value, str):
        return True
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def _block_pieces(block: Any) -> tuple[Piece, ...]:
    """Return the words of one block; an unknown one as JSON."""
    if isinstance(block, str):
        return as_pieces(block)
    kind = block["type"]
    if kind in _TEXTS and "text" in block:
        return as_pieces(block["text"])
    if kind == "refusal" and "refusal" in block:
        return as_pieces(block["refusal"])
    if kind == "redacted_thinking":
        return ("[thinking that only its provider can read]",)
    if kind in _MEDIA:
        # An image or a file by its name; the text of a document in full.
        source: dict[str, Any] = block if isinstance(block.get("file_id"), str) else {}
        for given in map(block.get, ("source", "image_url", "file", "input_audio")):
            if isinstance(given, (str, dict)):
                source = {"type": "url", "url": given} if isinstance(given, str) else given
                break
        named = (one.get(name) for one in (block, source) for name in _NAMES)
        name = " ".join(dict.fromkeys(text for text in named if isinstance(text, str)))
        said = source.get("data") if source.get("type") == "text" else source.get("content")
        if said is not None:
            return (*([name] if name else []), *as_pieces(said))
        where = next((source[one] for one in _PLACES if isinstance(source.get(one), str)), "")
        # The address is the image itself, far too long to be shown.
        if where.startswith("data:"):
            head, _, data = where[5:].partition(",")
            source = {"type": "base64", "media_type": head.partition(";")[0], "data": data}
            where = ""
        given = source.get("media_type")
        return (
            Media(_MEDIA[kind], given if isinstance(given, str) else "", " ".join(filter(None, (name, where))), source),
        )
    return (as_json(without_references(block)),)
