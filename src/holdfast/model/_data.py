"""The data of events: plain JSON that reads back as it was written.

Encoders are lenient where a log must not be: they turn NaN into null, integer keys into strings and pass NUL on to
readers that stop at it. The walk here refuses such values before anything is written.

Payloads that are too big for a line are kept beside the log. A reference to one is ``{"$blob": name, "bytes": n,
"media": type}``. User data that has a key of that form gets one more ``$`` when it is written and loses it when it is
read, so that it can never be mistaken.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from holdfast.errors import InvalidData, TooLarge
from holdfast.model._limits import Limits

BLOB_KEY = "$blob"
_MARK = b'"$blob":'
_MARK_END = _MARK[1:]  # the end of an escaped key as well
_NAMED = re.compile(re.escape(_MARK) + rb'"([^"]+)"')
_NAME = re.compile(r"[0-9a-f]{64}\Z", re.ASCII)
_ESCAPABLE = re.compile(r"\$+blob\Z")
_ESCAPED = re.compile(r"\$\$+blob\Z")
# Payloads may hold references to payloads: a few small ones, each naming the next many times, would fill any memory. So
# an event has a total limit, and each reference counts towards it.
_FILLED_BYTES_MAX = 1 << 29
_LOAD_BYTES_MIN = 1 << 14
_LEVELS_MAX = 4  # we write two: a long text in a long list
_DEPTH_MAX = 256  # of all levels together; the deepest possible event, and within Python's recursion


def has_blob(data: bytes) -> bool:
    """Return whether recorded JSON may refer to a payload; False only if it does not."""
    # Searching one byte is much faster than several, and it is in few texts.
    return b"$" in data and _MARK in data


def has_blob_at(member: str, data: bytes) -> bool:
    """Return whether a member of recorded JSON, on whatever level, may be kept as a payload."""
    return b"$" in data and b'"%b":{%b' % (member.encode(), _MARK) in data


def has_marked_keys(data: bytes) -> bool:
    """Return whether recorded JSON may refer to a payload, or have escaped keys."""
    return b"$" in data and _MARK_END in data


def named_blobs(data: bytes) -> list[str]:
    """Return the texts in recorded JSON that stand where a blob's name may be."""
    return [name.decode("ascii", "replace") for name in _NAMED.findall(data)]


def blob_name(payload: bytes) -> str:
    """Return the name of a blob, derived from its content: equal payloads are kept once, and damage is noticed."""
    import hashlib

    return hashlib.sha256(payload).hexdigest()


def is_blob_name(name: object) -> bool:
    """Return whether ``name`` can be the name of a blob."""
    return isinstance(name, str) and _NAME.match(name) is not None


def is_reference(value: object) -> bool:
    """Return whether a value of recorded data is a reference to a blob."""
    return (
        isinstance(value, dict)
        and not isinstance(value, _UserMap)
        and is_blob_name(value.get(BLOB_KEY))
        and "bytes" in value
    )


class _UserMap(dict[str, Any]):
    """A map of the user that has a key like that of a reference, but is none."""


def escape_keys(value: Any) -> Any:
    """Return ``value`` with one more ``$`` for every key that looks like ``$blob``."""
    if isinstance(value, dict):
        return {"$" + key if _ESCAPABLE.match(key) else key: escape_keys(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [escape_keys(item) for item in value]
    return value


def restore_keys(value: Any, depth: int = 0) -> Any:
    """Reverse :func:`escape_keys`, as deep as events go; references stay and remain distinguishable."""
    if depth == _DEPTH_MAX:
        return value
    if isinstance(value, dict):
        items = ((key[1:] if _ESCAPED.match(key) else key, item) for key, item in value.items())
        restored = {key: restore_keys(item, depth + 1) for key, item in items}
        return restored if restored.keys() == value.keys() else _UserMap(restored)
    if isinstance(value, list):
        return [restore_keys(item, depth + 1) for item in value]
    return value


def fill_references(value: Any, load: Callable[[dict[str, Any]], Any]) -> Any:
    """Return recorded data with each reference replaced by ``load``, and its keys restored.

    ``value`` is as decoded, not the ``data`` of an event. A blob of JSON may hold further references; they are filled
    too, within the limit of one event. ``load`` gets the reference and returns what
    :func:`~holdfast.model.read_blob` gives for it.
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


T = TypeVar("T")


class LazyDecoder(Generic[T]):
    """A decoder that is made when it is first used: a short command never meets most types, and each takes time."""

    decode: Callable[[bytes | memoryview | msgspec.Raw | str], T]
    decode_lines: Callable[[bytes | memoryview | str], list[T]]

    def __init__(self, kind: type[T], form: Any = msgspec.json) -> None:
        self._kind = kind
        self._form = form

    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = getattr(self._form.Decoder(self._kind), name)
        return value


_decode = msgspec.json.Decoder().decode
_INT64 = 1 << 63
# Keys that are known to be harmless. Bounded, because of hostile imports.
_plain_keys: set[str] = set()
_KEYS_KEPT_MAX = 1_000
_KEPT_KEY_CHARS_MAX = 40
_CONTAINERS = (dict, list, tuple)
_LEAVES = (str, int, float, bool, type(None))


def _plain_leaf(value: Any) -> Any:
    """Return a string or number of a subclass as the builtin."""
    if isinstance(value, str):
        return str.__str__(value)
    return int.__int__(value) if isinstance(value, int) else float.__float__(value)


_encode = msgspec.json.Encoder(enc_hook=_plain_leaf).encode
encode_plain = _encode
"""Like :func:`encode_data`, for data that is known to be plain: only a lone surrogate is still possible,
which raises UnicodeEncodeError.
"""


def encode_data(data: dict[str, Any], limits: Limits) -> bytes:
    """Return ``data`` as compact JSON bytes.

    Raises InvalidData, naming the place, for NaN and infinity, NUL, lone surrogates, too deep nesting, too long
    integers, keys that are not strings, and types that JSON has no form for.
    """
    try:
        if not is_plain(data, limits.depth_max):
            _check_data(data, limits)
            data = escape_keys(data)
        return _encode(data)
    except (UnicodeEncodeError, TypeError, RecursionError) as error:
        raise _refusal(error, limits) from error


def encode_with_blobs(data: dict[str, Any], limits: Limits) -> tuple[bytes, dict[str, bytes]]:
    """Return ``data`` as JSON bytes with its big parts removed, and those parts by blob name.

    A string above the limit becomes a blob of text; if many small parts make a member too big, the whole member
    becomes a blob of JSON. Raises as :func:`encode_data` does, and TooLarge.
    """
    try:
        _check_data(data, limits)
        blobs: dict[str, bytes] = {}
        slim = {key: _slim(value, limits, blobs) for key, value in escape_keys(data).items()}
        for key, value in slim.items():
            payload = _encode(value)
            if len(payload) > limits.blob_bytes_min:
                slim[key] = _blob(payload, "application/json", limits, blobs)
        return _encode(slim), blobs
    except (UnicodeEncodeError, TypeError, RecursionError) as error:
        raise _refusal(error, limits) from error


def _slim(value: Any, limits: Limits, blobs: dict[str, bytes]) -> Any:
    """Return ``value`` with every long string replaced by a reference."""
    if isinstance(value, str) and len(value) > limits.blob_bytes_min:
        return _blob(value.encode(), "text/plain", limits, blobs)
    if isinstance(value, dict):
        return {key: _slim(item, limits, blobs) for key, item in value.items()}
    if isinstance(value, list):
        return [_slim(item, limits, blobs) for item in value]
    return value


def _blob(payload: bytes, media: str, limits: Limits, blobs: dict[str, bytes]) -> dict[str, Any]:
    if len(payload) > limits.blob_bytes_max:
        raise TooLarge(
            f"one part has {len(payload):,} bytes, at most {limits.blob_bytes_max:,} are allowed",
            limit="blob_bytes_max",
            needed_bytes=len(payload),
        )
    name = blob_name(payload)
    blobs[name] = payload
    return {BLOB_KEY: name, "bytes": len(payload), "media": media}


def read_blob(payload: bytes, media: str) -> Any:
    """Return the value of a blob's bytes; one of JSON as it was recorded, keys escaped.

    Raises InvalidData for bytes that do not match the kind, and for an unknown kind.
    """
    if media == "application/json":
        return decode_json(payload)
    if media != "text/plain":
        raise InvalidData(f"a blob of the kind {media!r} cannot be read by this version")
    try:
        return payload.decode()
    except UnicodeDecodeError as error:
        raise InvalidData(f"the text of a blob is not UTF-8: {error}") from error


def decode_json(raw: bytes | memoryview | msgspec.Raw) -> Any:
    """Return the value of recorded JSON bytes. Raises InvalidData for anything that is not strict JSON."""
    try:
        return _decode(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidData(f"not valid JSON: {error}") from error


def _refusal(error: Exception, limits: Limits) -> InvalidData:
    """Return the typed error for an encoder's error."""
    if isinstance(error, UnicodeEncodeError):
        return InvalidData(
            "the text holds a lone surrogate, which is not valid Unicode",
            remedy="Decode the bytes with errors='replace' first.",
        )
    if isinstance(error, RecursionError):
        return _too_deep("data", limits)
    return InvalidData(f"the data has no form in JSON: {error}")


def _too_deep(where: str, limits: Limits) -> InvalidData:
    return InvalidData(f"{where} is nested more than {limits.depth_max} levels deep")


def is_plain(data: Any, depth: int) -> bool:
    """Return whether a map is at most that deep and everything in it harmless; other data may still be recorded."""
    if type(data) is not dict or depth <= 0:
        return False
    for key, value in data.items():
        if key not in _plain_keys and not _is_plain_key(key):
            return False
        kind = type(value)  # nearly all members are texts or maps, so these two cost no call
        if kind is str:
            if "\0" in value:
                return False
        elif kind is dict:
            if not is_plain(value, depth - 1):
                return False
        elif not _is_plain_value(value, depth):
            return False
    return True


def _is_plain_key(key: Any) -> bool:
    """Return whether a key is a text that needs no escape; results are cached."""
    if type(key) is not str or "$" in key or "\0" in key:
        return False
    if len(_plain_keys) < _KEYS_KEPT_MAX and len(key) <= _KEPT_KEY_CHARS_MAX:
        _plain_keys.add(key)
    return True


def _is_plain_value(value: Any, depth: int) -> bool:
    kind = type(value)
    if kind is str:
        return "\0" not in value
    if kind is dict:
        return is_plain(value, depth - 1)
    if kind is list:
        return depth > 1 and all(_is_plain_value(item, depth - 1) for item in value)
    if kind is int:
        return bool(-_INT64 <= value < _INT64)
    return value is None or kind is bool or (kind is float and math.isfinite(value))


def _check_data(data: Any, limits: Limits) -> None:
    if not isinstance(data, dict):
        raise InvalidData(f"the data of an event is a map, not a {type(data).__name__}")
    _explain(data, limits, "data", limits.depth_max)


def _explain(value: Any, limits: Limits, where: str, depth: int) -> None:
    """Raise InvalidData for the first value that cannot be recorded; return if all can be."""
    if isinstance(value, _CONTAINERS):
        if depth <= 0:
            raise _too_deep(where, limits)
        _explain_items(value, limits, where, depth - 1)
    elif not isinstance(value, _LEAVES):
        raise InvalidData(f"{where} is a {type(value).__name__}, which JSON has no form for")
    elif isinstance(value, str):
        if "\0" in value:
            raise InvalidData(f"{where} holds a NUL character")
    elif isinstance(value, float) and not math.isfinite(value):
        raise InvalidData(f"{where} is {value!r}, which JSON has no form for")
    elif isinstance(value, int) and abs(value) >= 10**limits.integer_digits_max:
        raise InvalidData(f"{where} is an integer of more than {limits.integer_digits_max} digits")


def _explain_items(value: Any, limits: Limits, where: str, depth: int) -> None:
    if not isinstance(value, dict):
        for index, item in enumerate(value):
            _explain(item, limits, f"{where}[{index}]", depth)
        return
    for key, item in value.items():
        if not isinstance(key, str):
            raise InvalidData(f"{where} has a {type(key).__name__} as key: keys must be strings")
        if "\0" in key:
            raise InvalidData(f"{where} has a key with a NUL character")
        _explain(item, limits, f"{where}.{key[:40]}", depth)
