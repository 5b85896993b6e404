"""References to payloads that are kept beside the log, and the escape for data that looks like one.

A reference is ``{"$blob": name, "bytes": n, "media": type}``. User data that has a key of that form
gets one more ``$`` on the way in and loses it on the way out, so that it can never be mistaken.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

__all__ = [
    "BLOB_KEY",
    "blob_name",
    "blob_reference",
    "escape_keys",
    "fill_references",
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
    import hashlib

    return hashlib.sha256(payload).hexdigest()


def is_blob_name(name: object) -> bool:
    """Whether ``name`` can be the name of a blob at all."""
    return isinstance(name, str) and _NAME.match(name) is not None


def blob_reference(payload: bytes, media: str) -> dict[str, Any]:
    """What stands in the line instead of the payload."""
    return {BLOB_KEY: blob_name(payload), "bytes": len(payload), "media": media}


def is_reference(value: object) -> bool:
    """Whether a value of recorded data is a reference to a blob."""
    return (
        isinstance(value, dict)
        and not isinstance(value, _UserMap)
        and is_blob_name(value.get(BLOB_KEY))
        and "bytes" in value
    )


class _UserMap(dict[str, Any]):
    """A map of the user's own that has a key like that of a reference, and is none."""


def escape_keys(value: Any) -> Any:
    """``value`` with every key that looks like ``$blob`` given one more ``$``."""
    if isinstance(value, dict):
        return {
            "$" + key if _ESCAPABLE.match(key) else key: escape_keys(item)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [escape_keys(item) for item in value]
    return value


def restore_keys(value: Any) -> Any:
    """The reverse of :func:`escape_keys`; references stay as they are and are still told apart."""
    if isinstance(value, dict):
        restored = {_restore_key(key): restore_keys(item) for key, item in value.items()}
        return restored if restored.keys() == value.keys() else _UserMap(restored)
    if isinstance(value, list):
        return [restore_keys(item) for item in value]
    return value


def fill_references(value: Any, load: Callable[[dict[str, Any]], Any]) -> Any:
    """Recorded data with what ``load`` gives in place of each reference, and its keys restored.

    ``value`` is as decoded, not the ``data`` of an event. A blob of JSON may hold further
    references; they are filled too. ``load`` gets the reference and returns what
    :func:`~holdfast.model.read_blob` gives for it.
    """
    if is_reference(value):
        return fill_references(load(value), load)
    if isinstance(value, dict):
        return {_restore_key(key): fill_references(item, load) for key, item in value.items()}
    if isinstance(value, list):
        return [fill_references(item, load) for item in value]
    return value


def _restore_key(key: str) -> str:
    return key[1:] if _ESCAPED.match(key) else key
