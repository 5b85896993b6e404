"""The event: one immutable record of a session's log.

Its envelope is decoded with the line; its data stays raw until it is accessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar, get_args, overload

import msgspec

from holdfast.errors import HoldfastError, InvalidData
from holdfast.model._data import decode_json, encode_data, restore_keys
from holdfast.model._limits import Limits
from holdfast.model._line import type_bytes
from holdfast.model._readable import brief

T = TypeVar("T")

# The decoder must see Raw alone: next to bytes it would expect base64 text and refuse every line.
if TYPE_CHECKING:
    _RawBytes = bytes
else:
    _RawBytes = msgspec.Raw

_LIMITS = Limits()
_decode = msgspec.json.Decoder().decode
_decode_lines = msgspec.json.Decoder().decode_lines
_EMPTY = b"{}"
_TOGETHER_MAX = 4096
_BLOB_MARK = b'$blob":'
_ID_NAMES = {"tool_call": b"id", "tool_result": b"toolCallId"}
_match_id = re.compile(rb'\{"(\w+)":"([ !#-\[\]-~]*)"[,}]').match


class _Kept(Generic[T]):
    """An attribute that is computed at first access, and found without a call after that."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Self | T:
        if instance is None:
            return self  # accessed on the class, by a person or a documentation tool
        found = instance.__dict__[self._name] = self._make(instance)
        return found


class Event(msgspec.Struct, frozen=True, dict=True, eq=False, rename={"raw": "data"}):
    """One record: what happened (``type``, ``data``), when, in which order, in which run.

    ``data`` is decoded from the recorded bytes on first access and kept; treat it as read-only. ``body`` is the same
    as a typed value. ``raw`` are the bytes as recorded, so that an event can be moved without being encoded again.
    """

    type: str
    seq: int = -1
    timestamp: int = 0
    raw: _RawBytes = _EMPTY
    run: str | None = None
    key: str | None = None
    more: bool = False

    is_whole: ClassVar[bool] = False
    """True if no part of the data is stored beside the log as a blob; False if unknown."""

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
        """Return an event that is in no log yet. Raises InvalidData as an append would."""
        type_bytes(type)
        return cls(type, seq, timestamp, encode_data({} if data is None else data, _LIMITS), run, key)

    @_Kept
    def data(self) -> dict[str, Any]:
        """The event's members. Raises InvalidData if a foreign log holds something else here."""
        raw = bytes(self.raw)
        try:
            value = _decode(raw)
        except (ValueError, RecursionError):
            value = decode_json(raw)  # raises the reason
        # Searching one byte is much faster than several, and it is in few texts.
        if b"$" in raw and _BLOB_MARK in raw:
            value = restore_keys(value)
        if not isinstance(value, dict):
            raise InvalidData(f"the data of event {self.seq} is not an object")
        return value

    @_Kept
    def body(self) -> Any:
        """``data`` as the typed value of this event's type; the plain dict for an unknown type."""
        from holdfast.model._bodies import BODIES

        kind = BODIES.get(self.type)
        if kind is None:
            return self.data
        try:
            return msgspec.convert(self.data, kind)
        except msgspec.ValidationError as error:
            raise InvalidData(f"event {self.seq} is not a well-formed {self.type}: {error}") from error

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

    def _identity(self) -> tuple[Any, ...]:
        return self.seq, self.type, self.timestamp, self.run, self.key, self.more, bytes(self.raw)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and self._identity() == other._identity()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.seq, self.type, self.timestamp))

    def __reduce__(self) -> tuple[Any, ...]:
        raw = bytes(self.raw)
        return Event, (self.type, self.seq, self.timestamp, raw, self.run, self.key, self.more)

    def __repr__(self) -> str:
        try:
            data = brief(self.data)
        except HoldfastError:  # another program recorded it, and it is not JSON
            data = brief(bytes(self.raw))
        return f"Event(seq={self.seq}, type={self.type!r}, data={data})"


def one_by_one(batches: Iterable[Sequence[Event]]) -> Iterator[Event]:
    """Yield the events of all batches one by one.

    Once the data of events of one batch is accessed, that of the next is decoded together, which takes half as long.
    """
    is_looked_at = False
    for events in batches:
        if is_looked_at and len(events) <= _TOGETHER_MAX:
            _decode_together(events)
        yield from events
        is_looked_at = bool(events) and all("data" in events[at].__dict__ for at in (0, len(events) // 2, -1))


def _decode_together(events: Sequence[Event]) -> None:
    """Decode the data of these events together; unusual data is left until it is accessed."""
    joined = b"\n".join([event.raw for event in events])
    if b"$" in joined and _BLOB_MARK in joined:
        return
    try:
        values = _decode_lines(joined)
    except (ValueError, RecursionError):
        return
    if len(values) == len(events):
        for event, value in zip(events, values, strict=True):
            if type(value) is dict:
                event.__dict__.update(data=value, is_whole=True)


class Notice(msgspec.Struct, frozen=True):
    """Something that happened to a session and is not part of its log."""

    kind: str
    """``snapshot_created``, ``snapshot_failed``, ``session_restored``, ``torn_tail``, and others:
    docs/reference/observability.md lists them all, with what ``detail`` has."""
    session_id: str
    detail: dict[str, Any] = {}


# The metadata of a session, known without reading its conversation.
Status = Literal["idle", "running", "waiting", "interrupted", "failed", "suspended"]
"""The status of a session, by its events and by whether the process that recorded them still runs."""

STATUSES: tuple[Status, ...] = get_args(Status)


class SessionMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a list of sessions. Times are Unix milliseconds."""

    session_id: str
    title: str | None = None
    tags: tuple[str, ...] = ()
    """The tags that people gave it."""
    auto_tags: tuple[str, ...] = ()
    """The tags that the catalogue derives from its content; never recorded."""
    created_at: int = 0
    updated_at: int = 0
    message_count: int = 0
    total_tokens: int = 0
    tokens_estimated: bool = False
    """True if ``total_tokens`` is an estimate, because no token counts were reported."""
    event_count: int = 0
    size_bytes: int = 0
    agent_id: str | None = None
    model: str | None = None
    """The model that answered last."""
    cost: float | None = None
    """In US dollars; None if the price of a model is unknown."""
    parent: str | None = None
    cwd: str | None = None
    """The working directory of its agent, if that was recorded."""
    pinned: bool = False
    held: bool = False
    """Under legal hold: neither a policy nor a person can delete it."""
    archived: bool = False
    open: bool = False
    """True if a living writer has the session open."""
    status: str = "idle"
    """idle, running, waiting, interrupted or failed: derived from events, never stored."""
    state: str = "ok"
    """ok, damaged, sealed, too_new or unreadable: whether the log could be read."""
