"""What a tool gave, as data that can be recorded and shown to a model."""

from __future__ import annotations

import math
from typing import Any

import msgspec

_DEPTH_MAX = 48
_BINARY_SHOWN_BYTES = 1024
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def plain_result(value: Any) -> Any:
    """A result as JSON data; what JSON has no form for becomes text. Never raises."""
    try:
        return _plain(value, 0)
    except Exception as error:  # noqa: BLE001 - a result of any kind must not end the run
        return f"[a result of type {type(value).__name__} that cannot be shown: {error}]"


def _plain(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool | int):
        return value if isinstance(value, bool) or value is None else _plain_int(value)
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _plain_bytes(bytes(value))
    if depth >= _DEPTH_MAX:
        return plain_text(str(value)[:_BINARY_SHOWN_BYTES])
    if isinstance(value, dict):
        return {plain_text(str(key)): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth + 1) for item in value]
    return _plain_object(value, depth)


def _plain_int(value: int) -> int | str:
    return int(value) if abs(value) < 1 << 63 else str(value)


def plain_text(text: str) -> str:
    """The text without NUL and lone surrogates, which no log and no provider takes."""
    return text.replace("\0", _REPLACEMENT).encode("utf-8", "replace").decode()


def _plain_bytes(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        shown = data[:_BINARY_SHOWN_BYTES].hex(" ")
        more = "…" if len(data) > _BINARY_SHOWN_BYTES else ""
        return f"[binary, {len(data)} bytes] {shown}{more}"
    return plain_text(text)


def _plain_object(value: Any, depth: int) -> Any:
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return _plain(dump(mode="json"), depth + 1)
    try:
        return _plain(msgspec.to_builtins(value, enc_hook=str), depth + 1)
    except (TypeError, ValueError, RecursionError):
        return plain_text(str(value))
