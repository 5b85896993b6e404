"""Values of a graph's channels as JSON, each message told once and then only named.

Plain data stays readable. A message of the conversation is ``{"~m": reference}``, where the
reference of one that others recorded is an id that names its events; one that is not part of it is
``{"~v": item}``. A tuple is ``{"~t": […]}``, a snapshot of a channel of changes ``{"~s": value}``,
a number that JSON readers would round ``{"~i": "…"}``, and anything else ``{"~x": [type, base64]}``
as the graph's own serialiser gives it. A map with keys that JSON lacks, or that look like these, is
told as pairs: ``{"~d": [[key, value]]}``. Early logs have ``$`` for ``~``.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from langchain_core.messages import BaseMessage, RemoveMessage
from langgraph.checkpoint.serde import types as langgraph_types

from holdfast.integrations._langchain_messages import (
    Known,
    Model,
    as_item,
    from_item,
    plain,
    reference,
    seqs_of,
    told_by_others,
)
from holdfast.integrations._units import Unit, fresh, voices
from holdfast.model import Event

Items = dict[str, dict[str, Any]]
"""Messages as plain data, by reference."""

_INT_MAX = 2**63
_SURROGATE = re.compile("[\ud800-\udfff]")
_MARKS = frozenset(sign + kind for sign in "~$" for kind in "mvstxdi")
# An experiment of the framework: not all of its versions have it.
_Snapshot: Any = getattr(langgraph_types, "_DeltaSnapshot", None)
_SNAPSHOTS = () if _Snapshot is None else (_Snapshot,)


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
        """The messages on record, also those that were taken back."""
        self.standing: dict[str, tuple[int, ...]] = {}
        """Those that are in the conversation, and the events that tell them."""
        self.told: dict[int, Event] = {}
        """What others told, by seq."""
        self.known = Known()
        self._models: dict[str, Model] = {}

    def encode(self, value: Any, serde: Typed, new: Items | None = None) -> Any:
        """A value as JSON. With ``new``, messages that are not in the conversation go there."""
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
                return self._decode_marked(mark[1], inner, serde)
        return {key: self.decode(item, serde) for key, item in value.items()}

    def told_by_others(self, id: str | None) -> dict[str, Any] | None:
        """The message whose id names events of others; None for any other id."""
        seqs = seqs_of(id)
        if not seqs or not all(seq in self.told for seq in seqs):
            return None
        units = [Unit((seq,), own=False, item=self.told[seq]) for seq in seqs]
        made = [message for unit in voices(units) for message in told_by_others(unit)]
        return as_item(made[0]) if len(made) == 1 else None

    def _decode_marked(self, kind: str, inner: Any, serde: Typed) -> Any:
        if kind == "m":
            return self._message(inner)
        if kind == "v":
            return from_item(fresh(inner))
        if kind == "x":
            return serde.loads_typed((inner[0], base64.b64decode(inner[1])))
        if kind == "i":
            return int(inner)
        parts = self.decode(inner, serde)
        if kind == "s":
            return _Snapshot(parts)
        return tuple(parts) if kind == "t" else dict(parts)

    def _message(self, name: str) -> BaseMessage:
        """A message on record, as an object of the caller's own."""
        model = self._models.get(name)
        if model is None:
            item = self.items.get(name) or self.told_by_others(name) or {}
            model = self._models[name] = Model(from_item(item))
        message = model.twin()
        self.known.add(message, model, name)
        return message


class _Encoder:
    """Encodes what belongs to one event."""

    def __init__(self, values: Values, serde: Typed, new: Items | None) -> None:
        self._values = values
        self._serde = serde
        self._new = new

    def encode(self, value: Any) -> Any:
        """A value as JSON. Only of exactly the plain types: a subclass is more than its value."""
        own = self._own.get(type(value))
        if own is not None:
            return own(self, value)
        return self._message(value) if isinstance(value, BaseMessage) else self._foreign(value)

    def _same(self, value: Any) -> Any:
        return value

    def _text(self, value: str) -> Any:
        return value if _is_clean(value) else self._foreign(value)

    def _int(self, value: int) -> Any:
        return value if -_INT_MAX <= value < _INT_MAX else {"~i": str(value)}

    def _float(self, value: float) -> Any:
        return value if math.isfinite(value) else self._foreign(value)

    def _list(self, value: list[Any]) -> Any:
        return [self.encode(item) for item in value]

    def _tuple(self, value: tuple[Any, ...]) -> Any:
        return {"~t": [self.encode(item) for item in value]}

    def _map(self, value: dict[Any, Any]) -> Any:
        for key in value:
            if type(key) is not str or key in _MARKS or not _is_clean(key):
                break
        else:
            return {key: self.encode(item) for key, item in value.items()}
        return {"~d": [[self.encode(key), self.encode(item)] for key, item in value.items()]}

    def _message(self, message: BaseMessage) -> Any:
        values, new = self._values, self._new
        name = values.known.reference(message)
        item = values.items.get(name or "")
        if name is None or item is None:
            made = plain(message)
            if made is None:
                return self._foreign(message)
            item, model = made
            name = self._named(message, item)
            values.known.add(message, model, name)
        if new is None or isinstance(message, RemoveMessage):
            return {"~m": name} if name in values.items else {"~v": item}
        if name not in values.standing:
            new[name] = item
        return {"~m": name}

    def _named(self, message: BaseMessage, item: dict[str, Any]) -> str:
        values = self._values
        if item != values.told_by_others(message.id):
            return reference(item)
        name = str(message.id)
        values.items[name] = item
        values.standing[name] = seqs_of(name)
        return name

    def _snapshot(self, value: Any) -> Any:
        return {"~s": self.encode(value.value)}

    def _foreign(self, value: Any) -> Any:
        type, data = self._serde.dumps_typed(value)
        return {"~x": [type, base64.b64encode(data).decode()]}

    _own: ClassVar[dict[type, Callable[[_Encoder, Any], Any]]] = {
        type(None): _same,
        bool: _same,
        str: _text,
        int: _int,
        float: _float,
        list: _list,
        tuple: _tuple,
        dict: _map,
        _Snapshot: _snapshot,
    }


def is_listed(value: Any) -> bool:
    """Whether a channel's value is a list, or a snapshot of one: a conversation may be in it."""
    return isinstance(value.value if isinstance(value, _SNAPSHOTS) else value, list)


def _is_clean(text: str) -> bool:
    """Whether a line of the log can carry it as it is."""
    return "\0" not in text and (text.isascii() or not _SURROGATE.search(text))
