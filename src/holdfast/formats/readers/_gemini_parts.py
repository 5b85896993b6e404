"""The parts of Gemini's messages, which two tools keep."""

from __future__ import annotations

from collections import deque
from typing import Any

from holdfast.formats.readers._book import SourceEntry
from holdfast.formats.readers._shape import first_text, image_block, items, mapping, text

Part = dict[str, Any]

USAGE = {
    "promptTokenCount": "input_tokens",
    "candidatesTokenCount": "output_tokens",
    "cachedContentTokenCount": "cache_read_tokens",
    "totalTokenCount": "total_tokens",
}


class Pairing:
    """Gives calls without an id one, and each response the id of its call."""

    def __init__(self) -> None:
        self._open: dict[str, deque[str]] = {}
        self._count = 0

    def call_id(self, call: Part) -> str:
        """The id of a call."""
        named = first_text(call.get("id"))
        if named is None:
            self._count += 1
            named = f"{text(call.get('name')) or 'call'}-{self._count}"
            self._open.setdefault(text(call.get("name")), deque()).append(named)
        return named

    def response_id(self, response: Part) -> str:
        """The id of the call that a response answers: the oldest open one of that tool."""
        waiting = self._open.get(text(response.get("name")))
        return first_text(response.get("id")) or (waiting.popleft() if waiting else "unknown")


def parts_of(content: Any) -> list[Part]:
    """A content as parts: it may be a text, one part or several."""
    found = [content] if isinstance(content, (str, dict)) else items(content)
    return [{"text": part} if isinstance(part, str) else mapping(part) for part in found]


def said_by_user(content: Any) -> list[Part]:
    """The blocks of a user's message: words and pictures."""
    blocks = []
    for part in parts_of(content):
        inline = mapping(part.get("inlineData"))
        if isinstance(part.get("text"), str) and part.get("thought") is not True:
            blocks.append({"type": "text", "text": part["text"]})
        elif inline:
            blocks.append(image_block(inline.get("mimeType"), inline.get("data")) or {})
    return [block for block in blocks if block]


def tell_model_parts(content: Any, model: Any, pairing: Pairing, entry: SourceEntry) -> None:
    """What a model's message says: thoughts, words and calls."""
    words = ""
    for part in parts_of(content):
        call = mapping(part.get("functionCall"))
        if isinstance(part.get("text"), str) and part.get("thought") is not True:
            words += part["text"]
            continue
        entry.assistant(words, model)
        words = ""
        if isinstance(part.get("text"), str):
            entry.thinking(part["text"])
        elif call:
            signature = part.get("thoughtSignature")
            entry.call(pairing.call_id(call), call.get("name"), call.get("args"), signature)
    entry.assistant(words, model)


def tell_responses(
    content: Any, pairing: Pairing, entry: SourceEntry, *, is_error: bool | None = None
) -> bool:
    """The tools' results in a message; whether there are any."""
    found = [mapping(part.get("functionResponse")) for part in parts_of(content)]
    for response in filter(None, found):
        result, failed = response_of(response.get("response"))
        id = pairing.response_id(response)
        entry.result(id, result, is_error=failed if is_error is None else is_error)
    return any(found)


def response_of(response: Any) -> tuple[Any, bool]:
    """What a tool gave back, and whether it failed."""
    given = mapping(response)
    if given.keys() == {"output"}:
        return given["output"], False
    if given.keys() == {"error"}:
        return given["error"], True
    return response, bool(given.get("error"))
