"""The way back from a stored variable to the Python value that it was.

Stored bytes may come from anywhere, so nothing here imports or runs code that they name: a tag
chooses one of the few kinds below, and a class is built only if the caller passed that very class.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from holdfast.errors import InvalidData
from holdfast.model._codec import TAG, Record, class_name

__all__ = ["decode_value"]

_HEX = re.compile(r"-?0x[0-9a-f]+\Z", re.ASCII)
_MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def decode_value(value: Any, classes: Iterable[type] = ()) -> Any:
    """The value that :func:`encode_value` was given.

    ``classes`` are the dataclasses and enums that may be built again. Instances of other
    dataclasses become a :class:`Record`, members of other enums their plain value. A tag that is
    unknown or malformed stays the plain map that it is. Raises InvalidData only for nesting that is
    too deep to follow.
    """
    decoder = _Decoder({class_name(kind): kind for kind in classes})
    try:
        return decoder.decode(value)
    except RecursionError as error:
        raise InvalidData("the value is nested too deep to be read") from error


class _Decoder:
    """One walk over stored data; ``classes`` are those that may be built, by name."""

    def __init__(self, classes: dict[str, type]) -> None:
        self.classes = classes

    def decode(self, value: Any) -> Any:
        kind = type(value)
        if kind is list:
            return self.items(value)
        if kind is not dict:
            return value
        tag = value.get(TAG)
        if tag is None:
            return {key: self.decode(item) for key, item in value.items()}
        read = _KINDS.get(tag) if type(tag) is str else None
        if read is None:
            return value
        try:
            return read(self, value)
        except _MALFORMED:
            return value

    def items(self, value: Any) -> list[Any]:
        return [self.decode(item) for item in _expect(list, value)]


def _expect(kind: type, value: Any) -> Any:
    """``value`` if it is of that kind: constructors take more than a codec ever wrote."""
    if type(value) is not kind:
        raise TypeError(kind)
    return value


def _text(value: dict[str, Any]) -> str:
    return str(_expect(str, value["value"]))


def _bytes(value: dict[str, Any]) -> bytes:
    return base64.b64decode(_text(value), validate=True)


def _int(value: dict[str, Any]) -> int:
    if not _HEX.match(_text(value)):
        raise ValueError
    return int(_text(value), 16)


def _float(value: dict[str, Any]) -> float:
    return {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}[_text(value)]


def _timedelta(value: dict[str, Any]) -> timedelta:
    days, seconds, microseconds = (_expect(int, part) for part in _expect(list, value["value"]))
    return timedelta(days, seconds, microseconds)


def _complex(decoder: _Decoder, value: dict[str, Any]) -> complex:
    real, imaginary = (_expect(float, part) for part in decoder.items(value["value"]))
    return complex(real, imaginary)


def _dict(decoder: _Decoder, value: dict[str, Any]) -> dict[Any, Any]:
    pairs = [_expect(list, pair) for pair in _expect(list, value["items"])]
    return {decoder.decode(key): decoder.decode(item) for key, item in pairs}


def _enum(decoder: _Decoder, value: dict[str, Any]) -> Any:
    plain = decoder.decode(value["value"])
    kind = decoder.classes.get(_expect(str, value["class"]))
    if kind is None or not issubclass(kind, Enum):
        return plain
    try:
        return kind(plain)
    except (ValueError, TypeError):  # the class has changed since
        return plain


def _object(decoder: _Decoder, value: dict[str, Any]) -> Any:
    name = _expect(str, value["class"])
    found = _expect(dict, decoder.decode(value["fields"]))
    kind = decoder.classes.get(name)
    if kind is None or not hasattr(kind, "__dataclass_fields__"):
        return Record(name, found)
    try:
        return _build(kind, found)
    except Exception:  # noqa: BLE001 - the class has changed since: its fields are still there
        return Record(name, found)


def _build(kind: type, found: dict[str, Any]) -> Any:
    """An instance made by its own constructor, so that fields added since get their defaults."""
    import dataclasses

    fields = {field.name: field for field in dataclasses.fields(kind)}
    given = {name: item for name, item in found.items() if name in fields and fields[name].init}
    built = kind(**given)
    for name in found.keys() & (fields.keys() - given.keys()):
        object.__setattr__(built, name, found[name])
    return built


def _path(decoder: _Decoder, value: dict[str, Any]) -> Any:
    from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

    text = _expect(str, decoder.decode(value["value"]))
    kind: type[PurePath] = {"posix": PurePosixPath, "windows": PureWindowsPath}[value["flavour"]]
    # A path of the other system cannot be used here, but it can still be looked at.
    usable = value[TAG] == "path" and isinstance(Path(), kind)
    return Path(text) if usable else kind(text)


_Read = Callable[[_Decoder, dict[str, Any]], Any]


def _simple(read: Callable[[dict[str, Any]], Any]) -> _Read:
    return lambda _decoder, value: read(value)


_KINDS: dict[str, _Read] = {
    "str": _simple(lambda value: _bytes(value).decode("utf-8", "surrogatepass")),
    "int": _simple(_int),
    "float": _simple(_float),
    "complex": _complex,
    "bytes": _simple(_bytes),
    "bytearray": _simple(lambda value: bytearray(_bytes(value))),
    "decimal": _simple(lambda value: Decimal(_text(value))),
    "uuid": _simple(lambda value: UUID(_text(value))),
    "datetime": _simple(lambda value: datetime.fromisoformat(_text(value))),
    "date": _simple(lambda value: date.fromisoformat(_text(value))),
    "time": _simple(lambda value: time.fromisoformat(_text(value))),
    "timedelta": _simple(_timedelta),
    "tuple": lambda decoder, value: tuple(decoder.items(value["items"])),
    "set": lambda decoder, value: set(decoder.items(value["items"])),
    "frozenset": lambda decoder, value: frozenset(decoder.items(value["items"])),
    "dict": _dict,
    "enum": _enum,
    "object": _object,
    "path": _path,
    "purepath": _path,
}
