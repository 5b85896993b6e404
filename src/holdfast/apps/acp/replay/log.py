"""A log as lists of events and frames, decoded only as far as a replay looks at them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import islice
from typing import Any, Literal

import msgspec

from holdfast.model import BODIES, START, Event, has_marked_keys
from holdfast.session import read_blocks, read_range, resolve_blobs
from holdfast.storage import Documents, Log

CALLS = frozenset({"tool_call", "tool_call_update"})
CLOSING = 3
"""The braces behind an update: of the params, the frame and the event's data."""

_NOTHING = msgspec.Raw()


# Structs without gc: there are as many as lines in a log, and the collector would visit all of them
# again and again. None of them can be part of a cycle.
class DeltaData(msgspec.Struct, gc=False):
    """A piece of streamed text."""

    content: msgspec.Raw = _NOTHING
    kind: str | None = None
    messageId: str | None = None  # noqa: N815 - the name on the wire
    agent: str | None = None
    raw: msgspec.Raw = _NOTHING

    @property
    def message(self) -> tuple[str | None, str | None] | None:
        """What its text belongs to; None if there is more than text of the session's own agent."""
        return None if self.raw or self.agent is not None else (self.kind, self.messageId)


class FinalData(msgspec.Struct, gc=False):
    """A whole message, after its pieces."""

    covers_from: int | None = None
    content: msgspec.Raw = _NOTHING
    agent: str | None = None
    raw: msgspec.Raw = _NOTHING
    messageId: str | None = None  # noqa: N815 - the name on the wire

    @property
    def is_bare_text(self) -> bool:
        """Whether there is nothing in it but text of the session's own agent."""
        return self.agent is None and not self.raw and bytes(self.content).startswith(b'"')


# A frame with more members than these is not told from its bytes, so that it keeps them.
class CallParams(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """What an update comes in, and nothing more."""

    update: msgspec.Raw
    sessionId: msgspec.Raw = _NOTHING  # noqa: N815 - the name on the wire


class CallFrame(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A notification, and nothing more."""

    method: Literal["session/update"]
    params: CallParams
    jsonrpc: Literal["2.0"] = "2.0"


class About(msgspec.Struct, gc=False, rename={"kind": "sessionUpdate", "call": "toolCallId"}):
    """What has to be known of an update."""

    kind: str
    call: str | None = None
    status: str | None = None
    content: msgspec.Raw = _NOTHING


class CallAbout(msgspec.Struct, gc=False, rename={"kind": "sessionUpdate", "call": "toolCallId"}):
    """What has to be known of an update about a tool call."""

    kind: Literal["tool_call", "tool_call_update"]
    call: str
    status: str | None = None
    content: msgspec.Raw = _NOTHING


Told = tuple[bytes, About, dict[str, Any] | None]
"""A recorded update: its bytes, what it is about, and its params if they hold more than usual."""


class _FrameData(msgspec.Struct):
    direction: str = ""
    frame: msgspec.Raw = _NOTHING


class _RawData(msgspec.Struct):
    raw: msgspec.Raw = _NOTHING


_decode_texts = msgspec.json.Decoder(str).decode_lines
_decode_frame = msgspec.json.Decoder(_FrameData).decode
_decode_raw = msgspec.json.Decoder(_RawData).decode
_decode_notification = msgspec.json.Decoder(CallFrame).decode
_decode_about = msgspec.json.Decoder(About).decode
decode_calls = msgspec.json.Decoder(CallAbout).decode_lines
_encode = msgspec.json.Encoder().encode
_CALL = b'{"sessionUpdate":"tool_call'


def plain(event: Event) -> dict[str, Any]:
    """All of an event's data, not kept with the event: a long log is told with little memory."""
    if "data" not in event.__dict__:
        event = Event(event.type, event.seq, raw=event.raw)
    return event.data


def decode_texts(pieces: list[DeltaData]) -> list[str]:
    """The words of some pieces; nothing if they are not all text."""
    try:
        texts = _decode_texts(b"\n".join([piece.content for piece in pieces]))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
    return texts if len(texts) == len(pieces) else []


class Finder:
    """Finds the updates in recorded events.

    Nearly all frames of a session begin with the same bytes, up to the update itself. Where those
    are found and one value stands between them and the end, nothing else has to be decoded.
    """

    def __init__(self) -> None:
        self.start_of_calls = b"\n"  # as no data begin
        """How the data of events begin that hold a frame about a tool call."""
        self.begin = 0
        """Where in them the update does; 0 if that is not known yet."""

    def learn(self, data: bytes) -> None:
        """Take it from the data of an event that holds a frame, if they are as usual."""
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            self._learn(_decode_notification(_decode_frame(data).frame))

    def _learn(self, frame: CallFrame) -> None:
        start = (
            b'{"direction":"agent","frame":{"jsonrpc":"2.0","method":"session/update",'
            b'"params":{"sessionId":%b,"update":' % frame.params.sessionId
        )
        self.start_of_calls, self.begin = start + _CALL, len(start)

    def in_frame(self, event: Event) -> Told | None:
        """The update in a frame of the agent; None if there is none."""
        data = bytes(event.raw)
        frame = _decode_frame(_unescaped(event, data))
        return self._decode(frame.frame) if frame.direction == "agent" else None

    def in_raw(self, event: Event) -> Told | None:
        """The update that an event came with; None if it came in another way."""
        return self.decode(_decode_raw(_unescaped(event, bytes(event.raw))).raw)

    def decode(self, rpc: msgspec.Raw) -> Told | None:
        """The update of a frame; None for any other value."""
        return self._decode(rpc) if rpc else None

    def _decode(self, rpc: msgspec.Raw) -> Told | None:
        try:
            frame = _decode_notification(rpc)
            update = bytes(frame.params.update)
            about = _decode_about(update)
        except msgspec.ValidationError:
            return _decode_odd(rpc)
        self._learn(frame)
        return update, about, None


def _unescaped(event: Event, data: bytes) -> bytes:
    return _encode(plain(event)) if has_marked_keys(data) else data


def _decode_odd(rpc: msgspec.Raw) -> Told | None:
    frame = msgspec.json.decode(rpc)
    if not isinstance(frame, dict) or frame.get("method") != "session/update":
        return None
    params = frame.get("params")
    update = params.get("update") if isinstance(params, dict) else None
    if not isinstance(update, dict) or not isinstance(update.get("sessionUpdate"), str):
        return None
    call, status = update.get("toolCallId"), update.get("status")
    about = About(
        update["sessionUpdate"],
        call if isinstance(call, str) else None,
        status if isinstance(status, str) else None,
        msgspec.Raw(_encode(update.get("content"))),
    )
    return _encode(update), about, params


# A log as lists of events, read as quickly as it can be verified.


_AT_ONCE = 512
# What is done for a block costs as much as many lines; a block is held twice, as bytes and lines.
_BLOCK_BYTES = 192 * 1024
_decode = msgspec.json.Decoder(Event).decode_lines

Load = Callable[[], list[Event]]


class Some:
    """Some events, at least one, in order.

    ``lines`` are the same, decoded only as far as a replay looks at them, if they are all of the
    usual form: their data then hold neither escaped keys nor references to payloads.
    """

    def __init__(self, first: int, size: int, load: Load, lines: list[Any] | None = None) -> None:
        self.first = first
        self.last = first + size - 1
        self.lines = lines
        self._load = load
        self._events: list[Event] | None = None

    @property
    def events(self) -> list[Event]:
        """All of them."""
        if self._events is None:
            self._events = self._load()
        return self._events

    def event(self, seq: int) -> Event:
        """One of them."""
        return self.events[seq - self.first]


def read_some(
    log: Log, first: int, stop: int, documents: Documents, *, block_bytes: int = _BLOCK_BYTES
) -> Iterator[Some]:
    """The events with ``first <= seq < stop``, with their payloads, some at a time.

    Each block of the log is verified and decoded with one call, and a batch is not waited for:
    below ``stop`` everything has to be whole. From the first block on that is not of the usual
    form, because of damage or because it is sealed, the events are read one by one.
    """
    after = START
    for block, end in read_blocks(log, block_bytes):
        seq, size = after.seq, end.seq - after.seq
        lines, load = _usual(block), partial(_load, block, documents)
        try:
            numbers = [line.seq for line in (lines or load())]
        except (ValueError, RecursionError):  # it may be sealed
            break
        if numbers != list(range(seq, end.seq)):
            break
        begin, stop_at = max(0, first - seq), max(0, min(size, stop - seq))
        if begin < stop_at:
            chosen = None if lines is None else lines[begin:stop_at]
            yield Some(seq + begin, stop_at - begin, partial(_part, load, begin, stop_at), chosen)
        if end.seq >= stop:
            return
        after = end
    rest = read_range(log, start=max(first, after.seq), stop=stop, after=after)
    yield from in_some(resolve_blobs(rest, documents))


def in_some(events: Iterator[Event]) -> Iterator[Some]:
    """Events that have their payloads, some at a time."""
    while found := list(islice(events, _AT_ONCE)):
        size = found[-1].seq - found[0].seq + 1  # some in between may be lost
        yield Some(found[0].seq, size, partial(list, found))


def _usual(block: bytes) -> list[EventLine] | None:
    if has_marked_keys(block):
        return None
    try:
        return decode_lines(block)
    except (ValueError, RecursionError):
        return None


def _load(block: bytes, documents: Documents) -> list[Event]:
    return list(resolve_blobs(_decode(block), documents))


def _part(load: Load, begin: int, end: int) -> list[Event]:
    return load()[begin:end]


# The lines of a log, decoded with one call as far as a replay looks at them.


class EventLine(msgspec.Struct, gc=False, kw_only=True, tag_field="type"):
    """Any event, if it is not of a child run."""

    seq: int
    # An event of a run does not decode, and its block is told event by event: that knows of runs.
    run: None = None


class _CallData(msgspec.Struct, gc=False):
    raw: CallFrame | None = None


class CallLine(EventLine, tag="tool_call", gc=False, kw_only=True):
    """A tool call, and the frame that it came with."""

    data: _CallData


class ResultLine(EventLine, tag="tool_result", gc=False, kw_only=True):
    """The end of a tool call, and the frame that it came with."""

    data: _CallData


class FinalLine(EventLine, tag="assistant", gc=False, kw_only=True):
    """A whole message."""

    data: FinalData


class DeltaLine(EventLine, tag="delta", gc=False, kw_only=True):
    """A piece of a message."""

    data: DeltaData


class OtherLine(EventLine, gc=False, kw_only=True):
    """Whatever else there is, by its name."""

    data: msgspec.Raw = _NOTHING

    def event(self) -> Event:
        """The event of it, without its time."""
        return Event(str(self.__struct_config__.tag), self.seq, raw=self.data)


class FrameLine(OtherLine, tag="frame", gc=False, kw_only=True):
    """A frame that is no conversation."""


_LINES = (CallLine, ResultLine, FrameLine, DeltaLine, FinalLine)


def decode_lines(block: bytes) -> list[EventLine]:
    """The lines of a block. Raises msgspec.ValidationError if one is of another form or type."""
    found: list[EventLine] = _decoder().decode_lines(block)
    return found


@cache
def _decoder() -> msgspec.json.Decoder[Any]:
    known = {str(line.__struct_config__.tag) for line in _LINES}
    union: Any = CallLine | ResultLine | FrameLine | DeltaLine | FinalLine
    # A type that is not known here is not in the union: such a block is told event by event, too.
    for name in BODIES:
        if name not in known:
            union |= msgspec.defstruct(name, [], bases=(OtherLine,), tag=name, gc=False)
    return msgspec.json.Decoder(union)
