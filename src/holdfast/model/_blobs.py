"""References to payloads that are kept beside the log, and the escape for data that looks like one.

A reference is ``{"$blob": name, "bytes": n, "media": type}``. User data that has a key of that form
gets one more ``$`` on the way in and loses it on the way out, so that it can never be mistaken.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

BLOB_KEY = "$blob"
_MARK = b'"$blob":'
_MARK_END = _MARK[1:]  # what an escaped key ends with as well
_NAMED = re.compile(re.escape(_MARK) + rb'"([^"]+)"')
_NAME = re.compile(r"[0-9a-f]{64}\Z", re.ASCII)
_ESCAPABLE = re.compile(r"\$+blob\Z")
_ESCAPED = re.compile(r"\$\$+blob\Z")
# Payloads may hold references to payloads: a few small ones, each naming the next many times, would
# fill any memory. So there is an end to what one event can hold, and each costs something.
_FILLED_BYTES_MAX = 1 << 29
_LOAD_BYTES_MIN = 1 << 14
_LEVELS_MAX = 4  # we write two: a long text in a long list
_DEPTH_MAX = 256  # of all levels together; as deep as an event can ever be, and Python can go


def has_blob(data: bytes) -> bool:
    """Whether recorded JSON may refer to a payload; False only if it does not."""
    # One byte is looked for far quicker than several, and is in few texts.
    return b"$" in data and _MARK in data


def has_blob_at(member: str, data: bytes) -> bool:
    """Whether a member of recorded JSON, on whatever level, may be kept as a payload."""
    return b"$" in data and b'"%b":{%b' % (member.encode(), _MARK) in data


def has_marked_keys(data: bytes) -> bool:
    """Whether recorded JSON may refer to a payload, or have keys that are escaped."""
    return b"$" in data and _MARK_END in data


def named_blobs(data: bytes) -> list[str]:
    """What recorded JSON may refer to: texts in the place of a blob's name."""
    return [name.decode("ascii", "replace") for name in _NAMED.findall(data)]


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


def restore_keys(value: Any, depth: int = 0) -> Any:
    """The reverse of :func:`escape_keys`; references stay as they are and are still told apart.

    What is nested deeper than any event of ours stays as it is.
    """
    if depth == _DEPTH_MAX:
        return value
    if isinstance(value, dict):
        restored = {_restore_key(key): restore_keys(item, depth + 1) for key, item in value.items()}
        return restored if restored.keys() == value.keys() else _UserMap(restored)
    if isinstance(value, list):
        return [restore_keys(item, depth + 1) for item in value]
    return value


def fill_references(value: Any, load: Callable[[dict[str, Any]], Any]) -> Any:
    """Recorded data with what ``load`` gives in place of each reference, and its keys restored.

    ``value`` is as decoded, not the ``data`` of an event. A blob of JSON may hold further
    references; they are filled too, as far as one event may reach. ``load`` gets the reference and
    returns what :func:`~holdfast.model.read_blob` gives for it.
    """
    left = _FILLED_BYTES_MAX
    loaded: dict[tuple[str, str], Any] = {}

    def filled(value: Any, level: int, depth: int) -> Any:
        nonlocal left
        if is_reference(value):
            size, name = value["bytes"], (value[BLOB_KEY], str(value.get("media")))
            left -= max(size, _LOAD_BYTES_MIN) if isinstance(size, int) else _LOAD_BYTES_MIN
            if left < 0 or level == _LEVELS_MAX:
                return f"[{size} bytes that are too many]"
            if name not in loaded:
                loaded[name] = load(value)
            return filled(loaded[name], level + 1, depth)
        if not isinstance(value, (dict, list)):
            return value
        if depth == _DEPTH_MAX:
            return "[what is nested too deeply]"
        if isinstance(value, dict):
            return {key: filled(item, level, depth + 1) for key, item in value.items()}
        return [filled(item, level, depth + 1) for item in value]

    return restore_keys(filled(value, 0, 0))


def _restore_key(key: str) -> str:
    return key[1:] if _ESCAPED.match(key) else key
