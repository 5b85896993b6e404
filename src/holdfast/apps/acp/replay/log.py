"""A log as lists of events and frames, decoded only as far as a replay looks at them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import cache, cached_property, partial
from itertools import islice
from typing import Any, Literal, get_args

import msgspec

from holdfast.apps.wire.frames import member
from holdfast.model import BODIES, START, Event, has_marked_keys
from holdfast.session import read_blocks, read_range, resolve_blobs
from holdfast.storage import Documents, Log

CALLS = frozenset({"tool_call", "tool_call_update"})
CLOSING = 3  # the braces behind an update: of the params, the frame and the event's data

_NOTHING = msgspec.Raw()


# Structs without gc: there are as many as lines in a log, and the collector would visit all of them again and again.
# None of them can be part of a cycle.
class DeltaData(msgspec.Struct, gc=False):
    """A piece of streamed text."""

    content: msgspec.Raw = _NOTHING
    kind: str | None = None
    messageId: str | None = None  # noqa: N815 - the name on the wire
    agent: str | None = None
    raw: msgspec.Raw = _NOTHING

    @property
    def message(self) -> tuple[str | None, str | None] | None:
        """Return the message that the text belongs to; None if there is more than text of the session's own agent."""
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
        """Return whether it contains nothing but text of the session's own agent."""
        return self.agent is None and not self.raw and bytes(self.content).startswith(b'"')


# A frame with more members than these is not told from its bytes, so that it keeps them.
class CallParams(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """The envelope of an update, and nothing more."""

    update: msgspec.Raw
    sessionId: msgspec.Raw = _NOTHING  # noqa: N815 - the name on the wire


class CallFrame(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A notification, and nothing more."""

    method: Literal["session/update"]
    params: CallParams
    jsonrpc: Literal["2.0"] = "2.0"


class About(msgspec.Struct, gc=False, rename={"kind": "sessionUpdate", "call": "toolCallId"}):
    """The members of an update that a replay needs."""

    kind: str
    call: str | None = None
    status: str | None = None
    content: msgspec.Raw = _NOTHING


class CallAbout(About, gc=False, rename={"kind": "sessionUpdate", "call": "toolCallId"}):
    """The members of an update about a tool call that a replay needs."""

    kind: Literal["tool_call", "tool_call_update"]
    call: str
    status: str | None = None
    content: msgspec.Raw = _NOTHING


Told = tuple[bytes, About, dict[str, Any] | None]
"""A recorded update: its bytes, what it is about, and its params if they hold more than usual."""


class _Recorded(msgspec.Struct):
    direction: Any = None
    frame: msgspec.Raw = _NOTHING
    raw: msgspec.Raw = _NOTHING


_decode_texts = msgspec.json.Decoder(str).decode_lines
_decode_recorded = msgspec.json.Decoder(_Recorded).decode
_decode_notification = msgspec.json.Decoder(CallFrame).decode
_decode_about = msgspec.json.Decoder(About).decode
decode_calls = msgspec.json.Decoder(CallAbout).decode_lines
_encode = msgspec.json.Encoder().encode
_CALL = b'{"sessionUpdate":"tool_call'


def plain(event: Event) -> dict[str, Any]:
    """Return an event's data without keeping it with the event: a long log is replayed with little memory."""
    if "data" not in event.__dict__:
        event = Event(event.type, event.seq, raw=event.raw)
    return event.data


def decode_texts(pieces: list[DeltaData]) -> list[str]:
    """Return the words of some pieces; nothing if they are not all text."""
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
        """The start of the data of events that contain a frame about a tool call."""
        self.begin = 0  # where in them the update does; 0 if that is not known yet

    def learn(self, data: bytes) -> None:
        """Take it from the data of an event that holds a frame, if they are as usual."""
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            self._learn(_decode_notification(_decode_recorded(data).frame))

    def _learn(self, frame: CallFrame) -> None:
        start = (
            b'{"direction":"agent","frame":{"jsonrpc":"2.0","method":"session/update",'
            b'"params":{"sessionId":%b,"update":' % frame.params.sessionId
        )
        self.start_of_calls, self.begin = start + _CALL, len(start)

    def find(self, event: Event) -> Told | None:
        """Return the update that a frame of the agent holds, or that another event came with; None if there is none."""
        data = bytes(event.raw)
        found = _decode_recorded(_encode(plain(event)) if has_marked_keys(data) else data)
        rpc = found.raw
        if event.type == "frame":
            rpc = found.frame if found.direction == "agent" else _NOTHING
        if not rpc:
            return None
        try:
            frame = _decode_notification(rpc)
            update = bytes(frame.params.update)
            about = _decode_about(update)
        except msgspec.ValidationError:
            return _decode_odd(rpc)
        self._learn(frame)
        return update, about, None


def _decode_odd(rpc: msgspec.Raw) -> Told | None:
    frame = msgspec.json.decode(rpc)
    update = member(frame, "params", "update")
    kind, call, status = (member(update, name) for name in ("sessionUpdate", "toolCallId", "status"))
    if member(frame, "method") != "session/update" or not isinstance(kind, str):
        return None
    about = About(
        kind,
        call if isinstance(call, str) else None,
        status if isinstance(status, str) else None,
        msgspec.Raw(_encode(update.get("content"))),
    )
    return _encode(update), about, frame["params"]


_AT_ONCE = 512
# The work for a block costs as much as many lines; a block is held twice, as bytes and lines.
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

    @cached_property
    def events(self) -> list[Event]:
        """All of them."""
        return self._load()

    def event(self, seq: int) -> Event:
        """Return one of them."""
        return self.events[seq - self.first]


def read_some(
    log: Log, first: int, stop: int, documents: Documents, *, block_bytes: int = _BLOCK_BYTES
) -> Iterator[Some]:
    """Yield the events with ``first <= seq < stop``, with their payloads, some at a time.

    Each block of the log is verified and decoded with one call, and a batch is not waited for:
    below ``stop`` everything has to be whole. From the first block on that is not of the usual
    form, because of damage or because it is sealed, the events are read one by one.
    """
    after = START
    for block, end in read_blocks(log, block_bytes):
        seq, size = after.seq, end.seq - after.seq
        lines, load = _usual(block), partial(_load, block, documents, 0, size)
        try:
            numbers = [line.seq for line in (lines or load())]
        except (ValueError, RecursionError):  # it may be sealed
            break
        if numbers != list(range(seq, end.seq)):
            break
        begin, stop_at = max(0, first - seq), max(0, min(size, stop - seq))
        if begin < stop_at:
            chosen = None if lines is None else lines[begin:stop_at]
            yield Some(seq + begin, stop_at - begin, partial(_load, block, documents, begin, stop_at), chosen)
        if end.seq >= stop:
            return
        after = end
    rest = read_range(log, start=max(first, after.seq), stop=stop, after=after)
    yield from in_some(resolve_blobs(rest, documents))


def in_some(events: Iterator[Event]) -> Iterator[Some]:
    """Yield events that have their payloads, some at a time."""
    while found := list(islice(events, _AT_ONCE)):
        size = found[-1].seq - found[0].seq + 1  # some in between may be lost
        yield Some(found[0].seq, size, partial(list, found))


def _usual(block: bytes) -> list[EventLine] | None:
    """Return the lines of a block; None if one is of another form or type."""
    if has_marked_keys(block):
        return None
    try:
        found: list[EventLine] = _decoder().decode_lines(block)
        return found
    except (ValueError, RecursionError):
        return None


def _load(block: bytes, documents: Documents, begin: int, end: int) -> list[Event]:
    return list(resolve_blobs(_decode(block), documents))[begin:end]


# The lines of a log, decoded with one call as far as a replay looks at them.
class EventLine(msgspec.Struct, gc=False, kw_only=True, tag_field="type"):
    """Any event, if it is not of a child run."""

    seq: int
    # An event of a run does not decode, and its block is replayed event by event: that handles runs.
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
        """Return the event of it, without its time."""
        return Event(str(self.__struct_config__.tag), self.seq, raw=self.data)


class FrameLine(OtherLine, tag="frame", gc=False, kw_only=True):
    """A frame that is no conversation."""


@cache
def _decoder() -> msgspec.json.Decoder[Any]:
    union: Any = CallLine | ResultLine | FrameLine | DeltaLine | FinalLine
    known = {str(line.__struct_config__.tag) for line in get_args(union)}
    # A type that is unknown here is not in the union: such a block is replayed event by event, too.
    for name in BODIES:
        if name not in known:
            union |= msgspec.defstruct(name, [], bases=(OtherLine,), tag=name, gc=False)
    return msgspec.json.Decoder(union)
