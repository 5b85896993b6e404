"""Images and documents: from the shapes of several providers to the neutral one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.replay._text import is_base64, is_blank, plain_text

Block = dict[str, Any]
Note = Callable[[str, str, Any], None]

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_PDF = "application/pdf"


def describe(block: Block) -> str:
    """An image or document in words, for a provider that cannot take it."""
    source = block["source"]
    what = block.get("title") or source.get("media_type") or block["type"]
    where = source.get("url") or source.get("file_id")
    return f"({what} at {where})" if where else f"({what}, not shown here)"


def read_image(part: Block, note: Note) -> Block | None:
    """An ``image``, ``image_url`` or ``input_image`` part as a neutral image, or None."""
    source = _image_source(part)
    if source is None:
        note("invalid_block", "an image without usable data was dropped", None)
        return None
    if source["type"] == "base64" and source["media_type"] not in IMAGE_TYPES:
        note("invalid_block", f"an image of type {source['media_type']} was replaced by text", None)
        return {"type": "text", "text": f"({source['media_type']}, not shown here)"}
    return {"type": "image", "source": source}


def _image_source(part: Block) -> Block | None:
    given = part.get("source")
    if isinstance(given, dict):
        return _source(given)
    url = part.get("image_url")
    if isinstance(url, dict):
        url = url.get("url")
    return _url_source(url) or _pick(part, "file", "file_id")


def _source(given: Block) -> Block | None:
    """A neutral source out of a neutral source: known members only, each of them a text."""
    kind = given.get("type")
    if kind == "base64":
        return _data_source(given.get("media_type"), given.get("data"))
    if kind == "url":
        return _pick(given, "url", "url")
    return _pick(given, "file", "file_id") if kind == "file" else None


def _pick(given: Block, kind: str, member: str) -> Block | None:
    value = plain_text(given.get(member))
    return {"type": kind, member: value} if value else None


def _data_source(media: Any, data: Any) -> Block | None:
    media_type = plain_text(media)
    text = "".join(data.split()) if isinstance(data, str) else ""
    if not media_type or not is_base64(text):
        return None
    return {"type": "base64", "media_type": media_type, "data": text}


def _url_source(value: Any) -> Block | None:
    """A source for a URL; a ``data:`` URL carries the bytes itself."""
    url = plain_text(value)
    if not url:
        return None
    if not url.startswith("data:"):
        return {"type": "url", "url": url}
    head, _, data = url[5:].partition(",")
    return _data_source(head.partition(";")[0], data)


def read_document(part: Block, note: Note) -> Block | None:
    """A ``document``, ``file`` or ``input_file`` part as a neutral document, or None."""
    source = _document_source(part)
    if source is None:
        note("invalid_block", "a document without usable data was dropped", None)
        return None
    block: Block = {"type": "document", "source": source}
    for member in ("title", "context"):
        text = plain_text(part.get(member))
        if text:
            block[member] = text
    name = _file_of(part).get("filename")
    if isinstance(name, str) and name:
        block["title"] = plain_text(name)
    return block


def _file_of(part: Block) -> Block:
    """The member that holds an OpenAI file: the part itself in the Responses API."""
    inner = part.get("file")
    return inner if isinstance(inner, dict) else part


def _document_text(source: Block) -> str | None:
    """The text of a document that is given as text, or as texts and images."""
    content = source.get("data" if source["type"] == "text" else "content")
    if not isinstance(content, list) or source["type"] == "text":
        return plain_text(content)
    texts = (plain_text(one.get("text")) for one in content if isinstance(one, dict))
    return "\n".join(text for text in texts if text)


def _document_source(part: Block) -> Block | None:
    given = part.get("source")
    if isinstance(given, dict):
        if given.get("type") in {"text", "content"}:
            text = _document_text(given)
            blank = text is None or is_blank(text)
            return None if blank else {"type": "text", "media_type": "text/plain", "data": text}
        source = _source(given)
    else:
        file = _file_of(part)
        url = file.get("file_data") or file.get("file_url")
        source = _url_source(url) or _pick(file, "file", "file_id")
    if source is not None and source.get("media_type", _PDF) != _PDF:
        return None
    return source
