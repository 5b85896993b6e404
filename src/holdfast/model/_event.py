"""The event: one immutable record of a session's log.

Its envelope is decoded with the line; its data stays raw until someone looks at it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import InvalidData
from holdfast.model._blobs import restore_keys
from holdfast.model._data import decode_json, encode_data
from holdfast.model._limits import Limits
from holdfast.model._line import type_bytes

__all__ = ["Event"]

# The decoder must see Raw alone: next to bytes it would expect base64 text and refuse every line.
if TYPE_CHECKING:
    _RawBytes = bytes
else:
    _RawBytes = msgspec.Raw

_LIMITS = Limits()
_decode = msgspec.json.Decoder().decode
_EMPTY = b"{}"
_BLOB_MARK = b'$blob":'
_ID_NAMES = {"tool_call": b"id", "tool_result": b"toolCallId"}
_match_id = re.compile(rb'\{"(\w+)":"([ !#-\[\]-~]*)"[,}]').match


class Event(msgspec.Struct, frozen=True, dict=True, eq=False, rename={"raw": "data"}):
    """One record: what happened (``type``, ``data``), when, in which order, in which run.

    ``data`` is decoded from the recorded bytes on first access and kept; treat it as read-only.
    ``body`` is the same as a typed value. ``raw`` are the bytes as recorded, so that an event can
    be moved without being encoded again.
    """

    type: str
    seq: int = -1
    timestamp: int = 0
    raw: _RawBytes = _EMPTY
    run: str | None = None
    key: str | None = None
    more: bool = False

    @classmethod
    def make(
        cls,
        type: str,
        data: dict[str, Any] | None = None,
        *,
        seq: int = -1,
        timestamp: int = 0,
        run: str | None = None,
        key: str | None = None,
    ) -> Event:
        """An event that is in no log yet. Raises InvalidData as an append would."""
        type_bytes(type)
        return cls(
            type, seq, timestamp, encode_data({} if data is None else data, _LIMITS), run, key
        )

    @property
    def data(self) -> dict[str, Any]:
        """The event's members. Raises InvalidData if a foreign log holds something else here."""
        cache = self.__dict__
        found: dict[str, Any] | None = cache.get("data")
        if found is None:
            raw = bytes(self.raw)
            try:
                value = _decode(raw)
            except (ValueError, RecursionError):
                value = decode_json(raw)  # raises, and says what is wrong
            # One byte is looked for far quicker than several, and is in few texts.
            if b"$" in raw and _BLOB_MARK in raw:
                value = restore_keys(value)
            if not isinstance(value, dict):
                raise InvalidData(f"the data of event {self.seq} is not an object")
            found = cache["data"] = value
        return found

    @property
    def body(self) -> Any:
        """``data`` as the typed value of this event's type; the plain dict for an unknown type."""
        cache = self.__dict__
        if "body" not in cache:
            cache["body"] = self._decode_body()
        return cache["body"]

    @property
    def id(self) -> str | None:
        """The id of a tool call, or of the call that a tool result answers; else None."""
        name = _ID_NAMES.get(self.type)
        if name is None:
            return None
        # Nearly always the first member and without escapes: the rest need not be decoded for it.
        found = None if "data" in self.__dict__ else _match_id(self.raw)
        if found is not None and found[1] == name:
            return found[2].decode()
        value = self.data.get(name.decode())
        return value if isinstance(value, str) else None

    def _decode_body(self) -> Any:
        from holdfast.model._bodies import BODIES

        kind = BODIES.get(self.type)
        if kind is None:
            return self.data
        try:
            return msgspec.convert(self.data, kind)
        except msgspec.ValidationError as error:
            raise InvalidData(
                f"event {self.seq} is not a well-formed {self.type}: {error}"
            ) from error

    def _identity(self) -> tuple[Any, ...]:
        return self.seq, self.type, self.timestamp, self.run, self.key, self.more, bytes(self.raw)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((self.seq, self.type, self.timestamp))

    def __reduce__(self) -> tuple[Any, ...]:
        raw = bytes(self.raw)
        return Event, (self.type, self.seq, self.timestamp, raw, self.run, self.key, self.more)

    def __repr__(self) -> str:
        return f"Event(seq={self.seq}, type={self.type!r}, data={bytes(self.raw)[:80]!r})"
