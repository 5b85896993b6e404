"""Python values as JSON and back: the codec of a session's variables.

JSON has no form for dates, bytes, sets, paths and many more. Each such value becomes a map with a ``$type`` tag and
reads back equal; plain JSON stays as it is, so that a log remains readable. Values that cannot be stored are reported.
``decode_value`` is the way back.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec

from holdfast.errors import InvalidData
from holdfast.model._limits import Limits

TAG = "$type"
_INT64 = 1 << 63
# The event's own map is one level; a few are left for anything that wraps a value.
_DEPTH_MAX = Limits().depth_max - 4
_LEAF_LEVELS = 3
_to_json = msgspec.json.Encoder().encode


class Record:
    """An instance of a class that was not given for decoding: its fields as attributes, its name for storing it."""

    __slots__ = ("__dict__", "_class_name")
    _class_name: str

    def __init__(self, name: str, fields: dict[str, Any]) -> None:
        self.__dict__.update(fields)
        self._class_name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self.__reduce__() == other.__reduce__()

    __hash__ = None  # type: ignore[assignment]  # as Python wants it told

    def __reduce__(self) -> tuple[type[Record], tuple[str, dict[str, Any]]]:
        return Record, (self._class_name, dict(self.__dict__))

    def __repr__(self) -> str:
        return f"Record({self._class_name!r}, {self.__dict__!r})"


def encode_value(value: Any, *, depth_max: int = _DEPTH_MAX) -> tuple[Any, list[str]]:
    """Return ``value`` as plain JSON data, and the paths of the parts that could not be stored.

    A part without a stored form (an open file, a lock, a function, a cycle, nesting beyond ``depth_max``) is left out
    of its map or set and is None in its list; ``$`` is the path of the value itself. Never raises, and an append
    accepts whatever it returns. Instances of subclasses of the builtins are stored as the builtin; time zones with
    rules become their offset at that moment.
    """
    encoder = _Encoder()
    found = encoder.encode(value, depth_max)
    return (None if found is _LOST else found), encoder.lost


def class_name(kind: type) -> str:
    """Return the name by which instances of a class are stored."""
    return f"{kind.__module__}.{kind.__qualname__}"


_LOST: Any = object()


class _Encoder:
    """One walk over a value, with the current path and the parts left out."""

    def __init__(self) -> None:
        self.lost: list[str] = []
        self._path: list[str] = ["$"]
        self._above: set[int] = set()

    def encode(self, value: Any, levels: int) -> Any:
        """Return the stored form, at most ``levels`` deep; _LOST, with its path noted, if it has none."""
        if value is None or value is True or value is False:
            return value
        form = _FORMS.get(type(value)) or _form_for(type(value))
        if form is None or id(value) in self._above:
            return self._lose()
        here = len(self._path)
        self._above.add(id(value))
        try:
            found = form(self, value, levels)
        except Exception:  # noqa: BLE001 - a value whose own methods fail has no stored form
            del self._path[here:]
            found = _LOST
        self._above.discard(id(value))
        return self._lose() if found is _LOST else found

    def inside(self, step: str, value: Any, levels: int) -> Any:
        """Return the stored form of a part one step below the current value."""
        self._path.append(step)
        found = self.encode(value, levels)
        self._path.pop()
        return found

    def _lose(self) -> Any:
        path = "".join(self._path)
        if path not in self.lost[-1:]:
            self.lost.append(path)
        return _LOST


_Form = Callable[[_Encoder, Any, int], Any]


def _leaf(encode: Callable[[Any], Any]) -> _Form:
    """Return the form of a value without parts: plain, or tagged if there is room for the tag."""

    def form(_encoder: _Encoder, value: Any, levels: int) -> Any:
        found = encode(value)
        return _LOST if type(found) is dict and levels < _LEAF_LEVELS else found

    return form


def _tagged(name: str, value: Any) -> dict[str, Any]:
    return {TAG: name, "value": value}


def _str(text: str) -> Any:
    if _is_clean(text):
        return str.__str__(text)
    return _tagged("str", base64.b64encode(text.encode("utf-8", "surrogatepass")).decode())


def _is_clean(text: str) -> bool:
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _int(number: int) -> Any:
    number = int.__int__(number)
    # Hexadecimal has no limit of digits and is read in linear time.
    return number if -_INT64 <= number < _INT64 else _tagged("int", hex(number))


def _float(number: float) -> Any:
    number = float.__float__(number)
    return number if math.isfinite(number) else _tagged("float", repr(number))


def _list(encoder: _Encoder, value: list[Any] | tuple[Any, ...], levels: int) -> Any:
    if levels < 1:
        return _LOST
    found = [encoder.inside(f"[{at}]", item, levels - 1) for at, item in enumerate(value)]
    return [None if item is _LOST else item for item in found]


def _tuple(encoder: _Encoder, value: tuple[Any, ...], levels: int) -> Any:
    found = _list(encoder, value, levels - 1)
    return _LOST if found is _LOST else {TAG: "tuple", "items": found}


def _set(encoder: _Encoder, value: set[Any] | frozenset[Any], levels: int) -> Any:
    if levels < 2:
        return _LOST
    found = [encoder.inside("{}", item, levels - 2) for item in value]
    # The order of a set differs from process to process; the log should not.
    items = sorted((item for item in found if item is not _LOST), key=_to_json)
    return {TAG: "set" if isinstance(value, set) else "frozenset", "items": items}


def _dict(encoder: _Encoder, value: dict[Any, Any], levels: int) -> Any:
    items = list(dict.items(value))
    # A key that begins with ``$`` could be mistaken for a tag or for a reference to a blob.
    if not all(type(key) is str and not key.startswith("$") and _is_clean(key) for key, _ in items):
        if levels < 3:
            return _LOST
        pairs = []
        for key, item in items:
            # Values other than text and numbers may have no short form, or none at all.
            is_short = type(key) is str or (type(key) is int and -_INT64 <= key < _INT64)
            step = f"[{ascii(key)[:40] if is_short else type(key).__name__}]"
            name = encoder.inside(step, key, levels - 3)
            found = _LOST if name is _LOST else encoder.inside(step, item, levels - 3)
            if found is not _LOST:
                pairs.append([name, found])
        return {TAG: "dict", "items": pairs}
    if levels < 1:
        return _LOST
    found = {key: encoder.inside(f".{key}", item, levels - 1) for key, item in items}
    return {key: item for key, item in found.items() if item is not _LOST}


def _enum(encoder: _Encoder, value: Enum, levels: int) -> Any:
    found = _LOST if levels < 1 else encoder.encode(value.value, levels - 1)
    if found is _LOST:
        return _LOST
    return {TAG: "enum", "class": class_name(type(value)), "name": value.name, "value": found}


def _object(encoder: _Encoder, value: Any, levels: int) -> Any:
    if isinstance(value, Record):
        name, fields = value.__reduce__()[1]
    else:
        import dataclasses

        name = class_name(type(value))
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    found = _dict(encoder, fields, levels - 1)
    return _LOST if found is _LOST else {TAG: "object", "class": name, "fields": found}


def _path(value: Any) -> Any:
    from pathlib import Path, PureWindowsPath

    flavour = "windows" if isinstance(value, PureWindowsPath) else "posix"
    name = "path" if isinstance(value, Path) else "purepath"
    return {TAG: name, "value": _str(str(value)), "flavour": flavour}


_FORMS: dict[type, _Form] = {
    str: _leaf(_str),
    int: _leaf(_int),
    float: _leaf(_float),
    list: _list,
    dict: _dict,
    tuple: _tuple,
    set: _set,
    frozenset: _set,
    bytes: _leaf(lambda data: _tagged("bytes", base64.b64encode(data).decode())),
    bytearray: _leaf(lambda data: _tagged("bytearray", base64.b64encode(data).decode())),
    datetime: _leaf(lambda moment: _tagged("datetime", moment.isoformat())),
    date: _leaf(lambda day: _tagged("date", day.isoformat())),
    time: _leaf(lambda clock: _tagged("time", clock.isoformat())),
    timedelta: _leaf(lambda s: _tagged("timedelta", [s.days, s.seconds, s.microseconds])),
    Decimal: _leaf(lambda number: _tagged("decimal", str(number))),
    UUID: _leaf(lambda uuid: _tagged("uuid", str(uuid))),
    complex: _leaf(lambda number: _tagged("complex", [_float(number.real), _float(number.imag)])),
    Record: _object,
}


def _form_for(kind: type) -> _Form | None:
    """Return how instances of a type without a form of its own are stored, if at all."""
    if issubclass(kind, Enum):
        return _enum
    if hasattr(kind, "__dataclass_fields__"):
        return _object
    if hasattr(kind, "__fspath__"):
        from pathlib import PurePath

        if issubclass(kind, PurePath):
            return _leaf(_path)
    return next((_FORMS[base] for base in kind.__mro__ if base in _FORMS), None)


# From a stored variable back to the Python value.
# Stored bytes may come from anywhere, so nothing here imports or runs code that they name: a tag selects one of the few
# kinds below, and a class is built only if the caller passed that very class.
_NOT_FINITE = {name: float(name) for name in ("nan", "inf", "-inf")}
_HEX = re.compile(r"-?0x[0-9a-f]+\Z", re.ASCII)
_MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def decode_value(value: Any, classes: Iterable[type] = ()) -> Any:
    """Return the value that :func:`encode_value` was given.

    ``classes`` are the dataclasses and enums that may be built again. Instances of other dataclasses become a
    :class:`Record`, members of other enums their plain value. A map with an unknown or malformed tag stays a plain
    map. Raises InvalidData only for nesting that is too deep to follow.
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
    """Return ``value`` if it is of that kind: constructors accept more than the codec ever wrote."""
    if type(value) is not kind:
        raise TypeError(kind)
    return value


def _text(value: dict[str, Any]) -> str:
    return str(_expect(str, value["value"]))


def _bytes(value: dict[str, Any]) -> bytes:
    return base64.b64decode(_text(value), validate=True)


def _read_int(_decoder: _Decoder, value: dict[str, Any]) -> int:
    if not _HEX.match(_text(value)):
        raise ValueError
    return int(_text(value), 16)


def _read_timedelta(_decoder: _Decoder, value: dict[str, Any]) -> timedelta:
    days, seconds, microseconds = (_expect(int, part) for part in _expect(list, value["value"]))
    return timedelta(days, seconds, microseconds)


def _read_complex(decoder: _Decoder, value: dict[str, Any]) -> complex:
    real, imaginary = (_expect(float, part) for part in decoder.items(value["value"]))
    return complex(real, imaginary)


def _read_dict(decoder: _Decoder, value: dict[str, Any]) -> dict[Any, Any]:
    pairs = [_expect(list, pair) for pair in _expect(list, value["items"])]
    return {decoder.decode(key): decoder.decode(item) for key, item in pairs}


def _read_enum(decoder: _Decoder, value: dict[str, Any]) -> Any:
    plain = decoder.decode(value["value"])
    kind = decoder.classes.get(_expect(str, value["class"]))
    if kind is None or not issubclass(kind, Enum):
        return plain
    try:
        return kind(plain)
    except (ValueError, TypeError):  # the class has changed since
        return plain


def _read_object(decoder: _Decoder, value: dict[str, Any]) -> Any:
    name = _expect(str, value["class"])
    found = _expect(dict, decoder.decode(value["fields"]))
    kind = decoder.classes.get(name)
    if kind is None or not hasattr(kind, "__dataclass_fields__"):
        return Record(name, found)
    import dataclasses

    try:
        # Made by its own constructor, so that fields added since get their defaults.
        fields = {field.name: field for field in dataclasses.fields(kind)}
        given = {member: item for member, item in found.items() if member in fields and fields[member].init}
        built = kind(**given)
        for member in found.keys() & (fields.keys() - given.keys()):
            object.__setattr__(built, member, found[member])
    except Exception:  # noqa: BLE001 - the class has changed since: its fields are still there
        return Record(name, found)
    return built


def _read_path(decoder: _Decoder, value: dict[str, Any]) -> Any:
    from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

    text = _expect(str, decoder.decode(value["value"]))
    kind: type[PurePath] = {"posix": PurePosixPath, "windows": PureWindowsPath}[value["flavour"]]
    # A path of the other system cannot be used here, but it can still be inspected.
    usable = value[TAG] == "path" and isinstance(Path(), kind)
    return Path(text) if usable else kind(text)


_KINDS: dict[str, Callable[[_Decoder, dict[str, Any]], Any]] = {
    "str": lambda _, value: _bytes(value).decode("utf-8", "surrogatepass"),
    "int": _read_int,
    "float": lambda _, value: _NOT_FINITE[_text(value)],
    "complex": _read_complex,
    "bytes": lambda _, value: _bytes(value),
    "bytearray": lambda _, value: bytearray(_bytes(value)),
    "decimal": lambda _, value: Decimal(_text(value)),
    "uuid": lambda _, value: UUID(_text(value)),
    "datetime": lambda _, value: datetime.fromisoformat(_text(value)),
    "date": lambda _, value: date.fromisoformat(_text(value)),
    "time": lambda _, value: time.fromisoformat(_text(value)),
    "timedelta": _read_timedelta,
    "tuple": lambda decoder, value: tuple(decoder.items(value["items"])),
    "set": lambda decoder, value: set(decoder.items(value["items"])),
    "frozenset": lambda decoder, value: frozenset(decoder.items(value["items"])),
    "dict": _read_dict,
    "enum": _read_enum,
    "object": _read_object,
    "path": _read_path,
    "purepath": _read_path,
}
