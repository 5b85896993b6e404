"""References to payloads that are kept beside the log, and the escape for data that looks like one.

A reference is ``{"$blob": name, "bytes": n, "media": type}``. User data that has a key of that form
gets one more ``$`` on the way in and loses it on the way out, so that it can never be mistaken.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

__all__ = [
    "BLOB_KEY",
    "blob_name",
    "blob_reference",
    "escape_keys",
    "is_blob_name",
    "is_reference",
    "restore_keys",
]

BLOB_KEY = "$blob"
_NAME = re.compile(r"[0-9a-f]{64}\Z", re.ASCII)
_ESCAPABLE = re.compile(r"\$+blob\Z")
_ESCAPED = re.compile(r"\$\$+blob\Z")


def blob_name(payload: bytes) -> str:
    """A blob is named by its content: the same payload is kept once, and damage is noticed."""
    return hashlib.sha256(payload).hexdigest()


def is_blob_name(name: object) -> bool:
    """Whether ``name`` can be the name of a blob at all."""
    return isinstance(name, str) and _NAME.match(name) is not None


def blob_reference(payload: bytes, media: str) -> dict[str, Any]:
    """What stands in the line instead of the payload."""
    return {BLOB_KEY: blob_name(payload), "bytes": len(payload), "media": media}


def is_reference(value: object) -> bool:
    """Whether a decoded value is a reference to a blob."""
    return isinstance(value, dict) and is_blob_name(value.get(BLOB_KEY)) and "bytes" in value


def escape_keys(value: Any) -> Any:
    """``value`` with every key that looks like ``$blob`` given one more ``$``."""
    return _rename(value, _ESCAPABLE, lambda key: "$" + key)


def restore_keys(value: Any) -> Any:
    """The reverse of :func:`escape_keys`; references stay as they are."""
    return _rename(value, _ESCAPED, lambda key: key[1:])


def _rename(value: Any, pattern: re.Pattern[str], change: Any) -> Any:
    if isinstance(value, dict):
        return {
            change(key) if pattern.match(key) else key: _rename(item, pattern, change)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_rename(item, pattern, change) for item in value]
    return value
