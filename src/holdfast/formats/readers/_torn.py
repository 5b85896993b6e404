"""JSON documents that were cut short: tools that rewrite whole files leave them behind."""

from __future__ import annotations

import re
from typing import Any

from holdfast.errors import HoldfastError, InvalidData
from holdfast.formats._bounds import decode_document
from holdfast.formats._source import Source

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
