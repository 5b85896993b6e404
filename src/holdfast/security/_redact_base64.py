"""Texts that are wrapped in base64: found, unwrapped, and given back with where they were."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

__all__ = ["wrapped_texts"]

_PIECE = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_BLOCK = re.compile(
    r"(?:[A-Za-z0-9+/]{60,}(?:\r?\n|\\r\\n|\\n)[ \t]{0,32})+[A-Za-z0-9+/]{1,}={0,2}"
)
_BREAK = re.compile(r"\\[rn]|\s")
_LINE_MIN = 60
_PROBE_CHARS = 32
_TEXT_MAX = 4 << 20
_PRINTABLE = frozenset(b"\t\n\r" + bytes(range(0x20, 0x7F)))


def wrapped_texts(text: str, runs: list[tuple[int, int]]) -> Iterator[tuple[int, int, str]]:
    """(start, stop, inner text) of every run that is base64 of ASCII text, broken lines too."""
    done = 0
    for low, high in runs:
        if low < done:
            continue
        block = _BLOCK.match(text, low) if high - low >= _LINE_MIN else None
        if block is not None:
            done = block.end()
            inner = _unwrapped(_BREAK.sub("", block.group()))
            if inner:
                yield low, done, inner
                continue
        for piece in _PIECE.finditer(text, low, high):
            inner = _unwrapped(piece.group())
            if inner:
                yield *piece.span(), inner


def _unwrapped(coded: str) -> str:
    """The text, or nothing if it is none."""
    if coded == coded.lower():
        return ""  # two dozen letters of a text always give a capital
    coded = coded.rstrip("=").replace("-", "+").replace("_", "/")[:_TEXT_MAX]
    if not _is_text(_decoded(coded[:_PROBE_CHARS])):
        return ""
    inner = _decoded(coded)
    return inner.decode("ascii") if _is_text(inner) else ""


def _decoded(coded: str) -> bytes:
    whole = len(coded) - (len(coded) % 4 == 1)
    try:
        return base64.b64decode(coded[:whole] + "=" * (-whole % 4))
    except (binascii.Error, ValueError):
        return b""


def _is_text(data: bytes) -> bool:
    return bool(data) and _PRINTABLE.issuperset(data)
