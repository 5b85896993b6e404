"""Values of a graph's channels as JSON, each message told once and then only named.

Plain data stays readable. A message of the conversation is ``{"$m": reference}``, where the
reference of one that others recorded is an id that names its events; one that is not part of it
yet, such as what a task wrote, is ``{"$v": item}``, for only the graph knows whether it will be,
and in which order. A tuple is ``{"$t": […]}``, a number that JSON readers would round
``{"$i": "…"}``, and anything else ``{"$x": [type, base64]}`` as the graph's own serialiser gives
it. A map with keys that JSON lacks, or that look like these, is told as pairs:
``{"$d": [[key, value]]}``.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from typing import Any, Protocol

from langchain_core.messages import BaseMessage

from holdfast.integrations._langchain_messages import (
    Known,
    as_item,
    from_item,
    reference,
    seqs_of,
    told_by_others,
)
from holdfast.integrations._units import Unit, fresh, voices
from holdfast.model import Event

__all__ = ["Items", "Typed", "Values"]

Items = dict[str, dict[str, Any]]
"""Messages as plain data, by reference."""

_INT_MAX = 2**63
_SURROGATE = re.compile("[\ud800-\udfff]")
_MARKS = frozenset({"$m", "$v", "$t", "$x", "$d", "$i"})


class Typed(Protocol):
    """The serialiser of the framework."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """A value as a type and bytes."""
        ...

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value again; of types that are not allowed, no object is made."""
        ...


class Values:
    """Encodes and decodes, and remembers which messages are on record."""

    def __init__(self) -> None:
        self.items: Items = {}
        """The messages on record."""
        self.told: dict[int, Event] = {}
        """What others told, by seq."""
        self.known = Known()

    def encode(self, value: Any, serde: Typed, new: Items | None = None) -> Any:
        """A value as JSON. With ``new``, messages that are not on record yet are put there."""
        return _Encoder(self, serde, new).encode(value)

    def decode(self, value: Any, serde: Typed) -> Any:
        """The value again."""
        if isinstance(value, list):
            return [self.decode(item, serde) for item in value]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            mark, inner = next(iter(value.items()))
            if mark in _MARKS:
                return self._decode_marked(mark, inner, serde)
        return {key: self.decode(item, serde) for key, item in value.items()}

    def told_by_others(self, id: str | None) -> dict[str, Any] | None:
        """The message whose id names events of others; None for any other id."""
        seqs = seqs_of(id)
        if not seqs or not all(seq in self.told for seq in seqs):
            return None
        units = [Unit((seq,), own=False, item=self.told[seq]) for seq in seqs]
        made = [message for unit in voices(units) for message in told_by_others(unit)]
        return as_item(made[0]) if len(made) == 1 else None

    def _decode_marked(self, mark: str, inner: Any, serde: Typed) -> Any:
        if mark == "$m":
            item = self.items.get(inner) or self.told_by_others(inner) or {}
            message = from_item(fresh(item))
            self.known.add(message, inner)
            return message
        if mark == "$v":
            return from_item(fresh(inner))
        if mark == "$x":
            return serde.loads_typed((inner[0], base64.b64decode(inner[1])))
        if mark == "$i":
            return int(inner)
        parts = self.decode(inner, serde)
        return tuple(parts) if mark == "$t" else dict(parts)


class _Encoder:
    """Encodes what belongs to one event."""

    def __init__(self, values: Values, serde: Typed, new: Items | None) -> None:
        self._values = values
        self._serde = serde
        self._new = new
        self._own: dict[type, Callable[[Any], Any]] = {
            type(None): self._same,
            bool: self._same,
            str: self._text,
            int: self._int,
            float: self._float,
            list: self._list,
            tuple: self._tuple,
            dict: self._map,
        }

    def encode(self, value: Any) -> Any:
        """A value as JSON. Only of exactly the plain types: a subclass is more than its value."""
        own = self._own.get(type(value))
        if own is not None:
            return own(value)
        return self._message(value) if isinstance(value, BaseMessage) else self._foreign(value)

    def _same(self, value: Any) -> Any:
        return value

    def _text(self, value: str) -> Any:
        return value if _is_clean(value) else self._foreign(value)

    def _int(self, value: int) -> Any:
        return value if -_INT_MAX <= value < _INT_MAX else {"$i": str(value)}

    def _float(self, value: float) -> Any:
        return value if math.isfinite(value) else self._foreign(value)

    def _list(self, value: list[Any]) -> Any:
        return [self.encode(item) for item in value]

    def _tuple(self, value: tuple[Any, ...]) -> Any:
        return {"$t": [self.encode(item) for item in value]}

    def _map(self, value: dict[Any, Any]) -> Any:
        if all(type(key) is str and key not in _MARKS and _is_clean(key) for key in value):
            return {key: self.encode(item) for key, item in value.items()}
        return {"$d": [[self.encode(key), self.encode(item)] for key, item in value.items()]}

    def _message(self, message: BaseMessage) -> Any:
        values = self._values
        known = values.known.reference(message)
        if known is not None and (known in values.items or known in (self._new or ())):
            return {"$m": known}
        item = as_item(message)
        if item is None:
            return self._foreign(message)
        if item == values.told_by_others(message.id):
            known = str(message.id)
            values.known.add(message, known)
            values.items[known] = item
            return {"$m": known}
        known = reference(item)
        if known not in values.items:
            if self._new is None:
                return {"$v": item}
            self._new[known] = item
        values.known.add(message, known)
        return {"$m": known}

    def _foreign(self, value: Any) -> Any:
        type, data = self._serde.dumps_typed(value)
        return {"$x": [type, base64.b64encode(data).decode()]}


def _is_clean(text: str) -> bool:
    """Whether a line of the log can carry it as it is."""
    return "\0" not in text and not _SURROGATE.search(text)
