"""The lines of a replay for an editor."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from holdfast.apps.acp.replay.log import (
    CLOSING,
    CallAbout,
    CallLine,
    DeltaLine,
    EventLine,
    FinalLine,
    Finder,
    FrameLine,
    ResultLine,
    decode_calls,
)
from holdfast.apps.wire.frames import notification, object_in

Update = bytes | msgspec.Raw  # the JSON of what a ``session/update`` tells

_CHUNK_BYTES_MAX = 64 * 1024
PIECE_CHARS = _CHUNK_BYTES_MAX // 4  # a text of this many characters is never longer than a chunk
_TEXT_HEAD = b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":'
_THOUGHT_HEAD = b'{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":'
_END = b"}}\n"
_encode = msgspec.json.Encoder().encode


def whole_update(piece: DeltaLine, final: FinalLine) -> bytes:
    """Return the update for a message of text that one piece holds all of; nothing if it is not so.

    Nothing has to be decided about such a message: it covers that piece and no other. The bytes are
    those of the log: nothing is decoded.
    """
    whole, part = final.data, piece.data
    content = bytes(part.content)
    if part.message != (None, whole.messageId) or not whole.is_bare_text or whole.covers_from != piece.seq:
        return b""
    if content != bytes(whole.content) or not 2 < len(content) <= PIECE_CHARS:  # quotes with something in them
        return b""
    if whole.messageId is None:
        return b"%b%b}}" % (_TEXT_HEAD, content)
    return b'%b%b},"messageId":%b}' % (_TEXT_HEAD, content, _encode(whole.messageId))


class Output:
    """Gathers updates of a session; with ``marks`` each says up to which event it tells all.

    ``updates`` are those that are not lines yet, ``texts`` the words that are no update yet.
    """

    def __init__(self, session_id: str, *, marks: bool) -> None:
        self.updates: list[Update] = []
        self.texts: list[str] = []
        self.marks = marks
        self._session_id = session_id
        head = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%b,"update":'
        self._head = head % _encode(session_id)
        self._lines: list[bytes] = []
        self._size = 0
        self._kind = ""
        self._message_id: str | None = None
        self._seq = -1

    def collect(self) -> bytes:
        """Return the lines that were gathered since the last time."""
        self._end_lines()
        found = b"".join(self._lines)
        self._lines.clear()
        return found

    def tell(self, update: Update, seq: int) -> None:
        """Add an update, with which everything up to an event is sent."""
        if self.texts:
            self.flush()
        self.updates.append(update)
        if self.marks:
            self._end_lines(b',"_meta":{"holdfast":{"seq":%d}}' % seq)

    def tell_all(self, updates: list[dict[str, Any]], seq: int) -> None:
        """Add several updates of one event, which is complete with the last of them."""
        for left, update in enumerate(updates, 1 - len(updates)):
            self.tell(_encode(update), seq - 1 if left else seq)

    def tell_odd(self, params: dict[str, Any], seq: int) -> None:
        """Add a frame with unusual members, which are kept."""
        self.flush()
        params = {**params, "sessionId": self._session_id}
        if self.marks:
            params["_meta"] = {**object_in(params, "_meta"), "holdfast": {"seq": seq}}
        self._end_lines()
        self._lines.append(_encode(notification("session/update", params)) + b"\n")

    def say(self, text: str, kind: str, message_id: str | None, seq: int) -> None:
        """Add text, joined with the text before it if it belongs to the same message."""
        size = len(text) if text.isascii() else len(text.encode())
        if self.texts and (
            kind != self._kind or message_id != self._message_id or self._size + size > _CHUNK_BYTES_MAX
        ):
            self.flush()
        self._kind, self._message_id = kind, message_id
        self.texts.append(text)
        self._size += size
        self._seq = seq

    def flush(self) -> None:
        """Tell the words that were kept."""
        if not self.texts:
            return
        text, seq = "".join(self.texts), self._seq
        head = _THOUGHT_HEAD if self._kind == "thinking" else _TEXT_HEAD
        tail = b"}}"
        if self._message_id is not None:
            tail = b'},"messageId":%b}' % _encode(self._message_id)
        too_long = self._size > _CHUNK_BYTES_MAX
        self.texts.clear()
        self._size = 0
        while too_long and len(text) > PIECE_CHARS:
            # Not told whole before the last piece: a mark must not say more than the editor has.
            self.tell(head + _encode(text[:PIECE_CHARS]) + tail, seq - 1)
            text = text[PIECE_CHARS:]
        self.tell(head + _encode(text) + tail, seq)

    def _end_lines(self, meta: bytes = b"") -> None:
        """Make lines of the updates; one alone may have more in its params."""
        updates = self.updates
        if updates:
            # Nearly all of a line is the same for each update: one join makes all of them.
            updates[0] = self._head + updates[0]
            updates[-1] = b"".join((updates[-1], meta, _END))
            self._lines.append((_END + self._head).join(updates))
            updates.clear()


# The editor knows what it sent itself, and what we noted is not part of the conversation.
_FROM_OTHERS = (b'{"direction":"client",', b'{"direction":"holdfast",')


class Other(NamedTuple):
    """A line from which something else may have to be told, or nothing."""

    line: EventLine
    before: int  # how many updates come before it
    calls: int  # how many of them are about tool calls
    whole: int  # the event that the last whole message among them came with


class Sorted(NamedTuple):
    """Some lines of a log."""

    updates: list[Update]  # of tool calls, as they came, and of messages that one piece holds all of; in order
    calls: list[CallAbout]  # what those of tool calls are about
    others: list[Other]  # all that is not told by them, in order
    whole: int  # the event that the last whole message came with; less than 0 if there is none


def sort_out(lines: list[Any], find: Finder, *, silent: bool) -> Sorted | None:
    """Tool calls, messages and the rest; None if what looks like an update of a call is none.

    ``silent`` is whether no words wait for more of their message. It takes a few steps for each
    line: a function that is called for each would double what a load costs.
    """
    updates: list[Update] = []
    calls: list[Update] = []
    others: list[Other] = []
    start, begin = _start(lines, find)
    piece: DeltaLine | None = None
    whole = -1
    for line in lines:
        kind = type(line)
        # A piece waits for the line after it: if that is its whole message, the bytes of the log are sent unchanged,
        # without decoding.
        if piece is not None:
            if kind is FinalLine and (update := whole_update(piece, line)):
                updates.append(update)
                whole, piece = piece.seq, None
                continue
            others.append(Other(piece, len(updates), len(calls), whole))
            piece, silent = None, False
        if kind is FrameLine:
            data = bytes(line.data)
            if data.startswith(start):
                update = data[begin:-CLOSING]
                updates.append(update)
                calls.append(update)
                silent = True
                continue
            if data.startswith(_FROM_OTHERS):
                continue
        elif kind is CallLine or kind is ResultLine:
            raw = line.data.raw
            if raw is not None:
                update = raw.params.update
                updates.append(update)
                calls.append(update)
                silent = True
                continue
        elif silent and kind is DeltaLine:
            piece = line
            continue
        others.append(Other(line, len(updates), len(calls), whole))
        silent = False
    if piece is not None:
        others.append(Other(piece, len(updates), len(calls), whole))
    try:
        abouts = decode_calls(b"\n".join(calls))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return Sorted(updates, abouts, others, whole) if len(abouts) == len(calls) else None


def _start(lines: list[Any], find: Finder) -> tuple[bytes, int]:
    """Return how frames about tool calls begin, and where in them the update does."""
    if not find.begin:
        frames = (bytes(line.data) for line in lines if type(line) is FrameLine)
        find.learn(next((one for one in frames if not one.startswith(_FROM_OTHERS)), b""))
    return find.start_of_calls, find.begin
