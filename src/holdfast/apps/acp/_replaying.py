"""A recorded session told again to an editor, as ``session/update`` notifications.

What came over the wire is told as it came; what was recorded in another way (by our own agent, by
an import) is put into the protocol's words. Pure: events in, lines out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from holdfast.apps.acp._replaying_runs import Cast
from holdfast.apps.acp._replaying_shapes import Finder, Told, decode_delta, decode_final, plain
from holdfast.apps.acp._replaying_words import (
    call_update,
    content_updates,
    is_echo,
    plan_update,
    prompt_of,
    result_update,
)
from holdfast.model import Event

__all__ = ["INTERRUPTED", "replay"]

INTERRUPTED = "interrupted, outcome unknown"

_CHUNK_BYTES_MAX = 64 * 1024
_PIECE_CHARS = _CHUNK_BYTES_MAX // 4  # whatever its characters, it is not longer than a chunk
_LINES_AT_ONCE = 64
_ENDS = frozenset({"completed", "failed"})
# Only the newest of these says anything; it is told at the end.
_STANDING = (
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "usage_update",
    "session_info_update",
)
_CALLS = frozenset({"tool_call", "tool_call_update"})
_STANDING_KINDS = frozenset(_STANDING)

_EMPTY = (b"[]", b"null")
_encode = msgspec.json.Encoder().encode
_TEXT_HEAD = b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":'
_THOUGHT_HEAD = b'{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":'


def replay(
    events: Iterable[Event], session_id: str, *, close_open: bool = True, marks: bool = False
) -> Iterator[bytes]:
    """The lines, each with its line feed, that tell an editor of these events, in order.

    The events' payloads have to be with them (``resolve_blobs``). ``close_open`` ends tool calls
    that never ended as failed, where their turn broke off. With ``marks`` each line says in
    ``params._meta.holdfast.seq`` up to which event all has been told once it is read; commands,
    modes, options, usage and title come last, as they are at the end. What child runs did is left
    out. Nothing that a log holds raises.
    """
    teller = _Teller(session_id, close_open=close_open, marks=marks)
    lines = teller.lines
    for event in events:
        teller.take(event)
        if len(lines) >= _LINES_AT_ONCE:
            yield from lines
            lines.clear()
    teller.finish()
    yield from lines


class _Teller:
    """Keeps what has to be known of the events before, and gathers lines."""

    def __init__(self, session_id: str, *, close_open: bool, marks: bool) -> None:
        self.lines: list[bytes] = []
        given = _encode(session_id)
        self._head = (
            b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%b,"update":' % given
        )
        self._session_id = session_id
        self._close_open = close_open
        self._marks = marks
        self._cast = Cast()
        self._find = Finder()
        self._seq = -1
        self._begin = 0
        self._texts: list[str] = []
        self._size = 0
        self._kind: str | None = None
        self._message_id: str | None = None
        self._text_seq = -1
        self._streamed = {"text": -1, "thinking": -1}
        self._open: dict[str, None] = {}
        self._known: set[str] = set()
        self._ended: set[str] = set()
        self._shaped: set[str] = set()
        self._standing: dict[str, bytes] = {}
        self._title: str | None = None
        self._asked: list[dict[str, Any]] = []

    def take(self, event: Event) -> None:
        """Tell of one event, if it is one to tell of."""
        if self._seq < 0:
            self._begin = event.seq
        self._seq = event.seq
        taker = _TAKERS.get(event.type)
        if taker is None:
            self._cast.note(event)
        elif event.run is None or event.run not in self._cast.children:
            try:
                taker(self, event)
            except Exception:  # noqa: BLE001, S110 - whatever a foreign log holds, the rest is told
                pass

    def finish(self) -> None:
        """Tell what stands at the end."""
        self._end_open(self._seq)
        self._flush()
        if self._title:
            self._stand("session_info_update", _encode({"title": self._title}))
        for kind in _STANDING:
            if kind in self._standing:
                self._tell(self._standing[kind], self._seq)

    # -- writing ---------------------------------------------------------------------------------

    def _tell(self, update: bytes, seq: int) -> None:
        if self._texts:
            self._flush()
        tail = b',"_meta":{"holdfast":{"seq":%d}}}}\n' % seq if self._marks else b"}}\n"
        self.lines.append(self._head + update + tail)

    def _tell_all(self, updates: list[dict[str, Any]], seq: int) -> None:
        """Several lines of one event: only with the last has all of it been told."""
        for update in updates[:-1]:
            self._tell(_encode(update), seq - 1)
        for update in updates[-1:]:
            self._tell(_encode(update), seq)

    def _say(self, text: str, kind: str, message_id: str | None, seq: int) -> None:
        """Words, told together with those before if they are of the same message."""
        size = len(text) if text.isascii() else len(text.encode())
        if self._texts and (
            kind != self._kind
            or message_id != self._message_id
            or self._size + size > _CHUNK_BYTES_MAX
        ):
            self._flush()
        self._kind, self._message_id = kind, message_id
        self._texts.append(text)
        self._size += size
        self._text_seq = seq

    def _flush(self) -> None:
        if not self._texts:
            return
        text, seq = "".join(self._texts), self._text_seq
        head = _THOUGHT_HEAD if self._kind == "thinking" else _TEXT_HEAD
        tail = b"}}"
        if self._message_id is not None:
            tail = b'},"messageId":%b}' % _encode(self._message_id)
        too_long = self._size > _CHUNK_BYTES_MAX
        self._texts, self._size = [], 0
        while too_long and len(text) > _PIECE_CHARS:
            self._tell(head + _encode(text[:_PIECE_CHARS]) + tail, seq - 1)
            text = text[_PIECE_CHARS:]
        self._tell(head + _encode(text) + tail, seq)

    # -- frames as they came ---------------------------------------------------------------------

    def _tell_frame(self, told: Told | None, seq: int) -> bool:
        """Tell of a recorded frame. False if it is no update of a session."""
        if told is None:
            return False
        update, about, extra = told
        kind = about.kind
        if kind in _CALLS:
            if about.call is not None:
                self._track(about.call, about.status)
                if about.content and bytes(about.content) not in _EMPTY:
                    self._shaped.add(about.call)
        elif kind in _STANDING_KINDS:
            self._stand(kind, update)
            return True
        elif kind == "user_message_chunk" and is_echo(update, self._asked):
            return True
        if extra is not None:
            self._tell_odd(extra, seq)
        elif self._marks or self._texts:
            self._tell(update, seq)
        else:  # the same, without the call: most frames come this way
            self.lines.append(self._head + update + b"}}\n")
        return True

    def _stand(self, kind: str, update: bytes) -> None:
        if kind == "session_info_update":  # what one leaves out stays as it was
            told = json.loads(self._standing.get(kind, b"{}"))
            update = _encode({"sessionUpdate": kind, **told, **json.loads(update)})
        self._standing[kind] = update

    def _tell_odd(self, params: dict[str, Any], seq: int) -> None:
        """A frame with more members than usual keeps them."""
        self._flush()
        params = {**params, "sessionId": self._session_id}
        if self._marks:
            meta = params.get("_meta")
            own = {"holdfast": {"seq": seq}}
            params["_meta"] = {**meta, **own} if isinstance(meta, dict) else own
        frame = {"jsonrpc": "2.0", "method": "session/update", "params": params}
        self.lines.append(_encode(frame) + b"\n")

    def _track(self, call: str, status: Any) -> None:
        """Keep in mind which calls an editor knows, and which of them are under way."""
        self._known.add(call)
        if status in _ENDS:
            self._open.pop(call, None)
            self._ended.add(call)
        elif status is not None or call not in self._ended:
            self._open[call] = None
            self._ended.discard(call)

    def _end_open(self, seq: int) -> None:
        if self._close_open:
            for call in self._open:
                self._tell(_encode(result_update(call, INTERRUPTED, failed=True)), seq)
                self._ended.add(call)
        self._open.clear()

    # -- one method per type of event ------------------------------------------------------------

    def _on_delta(self, event: Event) -> None:
        data = decode_delta(event)
        if data.agent is not None and self._cast.is_child(data.agent):
            return
        seq = event.seq
        kind = "thinking" if data.kind == "thinking" else "text"
        if data.raw and self._tell_frame(self._find.decode(data.raw), seq):
            pass
        elif data.content:
            self._say(data.content, kind, data.messageId, seq)
        self._streamed[kind] = seq

    def _on_frame(self, event: Event) -> None:
        self._tell_frame(self._find.in_frame(event), event.seq)

    def _on_user(self, event: Event) -> None:
        data = plain(event)
        if self._cast.is_childs_task(data):
            return
        self._flush()
        prompt = prompt_of(data.get("raw"))
        if prompt is not None:
            updates = [{"sessionUpdate": "user_message_chunk", "content": one} for one in prompt]
        else:
            updates = content_updates(data.get("content"), "user_message_chunk")
        results = [one for one in updates if "toolCallId" in one]
        said = [one for one in updates if "toolCallId" not in one]
        self._tell_updates(results, event.seq - 1 if said else event.seq)
        if said:  # else only what tools gave, in the form of other programs
            self._end_open(event.seq - 1)
            self._asked = said
            self._tell_updates(said, event.seq)

    def _on_assistant(self, event: Event) -> None:
        if self._is_told_by_its_pieces(event):
            return
        data = plain(event)
        self._flush()
        if self._cast.is_child(data.get("agent")) or self._told_raw(event):
            return
        updates = content_updates(data.get("content"), "agent_message_chunk")
        if self._was_streamed(data, "text"):
            updates = [one for one in updates if not _is_text(one, "agent_message_chunk")]
        message_id = data.get("messageId")
        if isinstance(message_id, str):
            for update in updates:
                if update["sessionUpdate"] == "agent_message_chunk":
                    update["messageId"] = message_id
        self._tell_updates(updates, event.seq)

    def _is_told_by_its_pieces(self, event: Event) -> bool:
        """Text that was streamed before, as nearly all of it is: seen without reading the text."""
        try:
            final = decode_final(event.raw)
        except msgspec.DecodeError:
            return False
        first = final.covers_from
        if first is None or self._streamed["text"] < first or not final.is_bare_text:
            return False
        self._flush()
        return True

    def _on_thinking(self, event: Event) -> None:
        data = plain(event)
        self._flush()
        if self._cast.is_child(data.get("agent")) or self._was_streamed(data, "thinking"):
            return
        self._tell_updates(content_updates(data.get("content"), "agent_thought_chunk"), event.seq)

    def _tell_updates(self, updates: list[dict[str, Any]], seq: int) -> None:
        for update in updates:
            call = update.get("toolCallId")
            if isinstance(call, str):
                self._track(call, update.get("status"))
        self._tell_all(updates, seq)

    def _was_streamed(self, data: dict[str, Any], kind: str) -> bool:
        """Whether what a final event covers was told piece by piece, here or before the start."""
        first = data.get("covers_from")
        if not isinstance(first, int):
            return False
        return self._streamed[kind] >= first or 0 <= first < self._begin

    def _told_raw(self, event: Event) -> bool:
        return self._tell_frame(self._find.in_raw(event), event.seq)

    def _on_call(self, event: Event) -> None:
        if self._told_raw(event):
            return
        data = plain(event)
        if self._cast.is_child(data.get("agent")):
            self._cast.left_out.add(str(data.get("id")))
            return
        self._tell_updates([call_update(data, f"event-{event.seq}")], event.seq)

    def _on_result(self, event: Event) -> None:
        if self._told_raw(event):
            return
        data = plain(event)
        call = data.get("toolCallId")
        if not isinstance(call, str) or call in self._ended or call in self._cast.left_out:
            return
        failed = data.get("is_error") is True
        update = result_update(call, data.get("result"), failed=failed)
        if call in self._shaped and not failed:
            del update["content"]  # it would take the place of what a frame showed, such as a diff
        if call not in self._known and self._begin <= 0:  # an editor knows no such call
            update = {"sessionUpdate": "tool_call", "title": "tool", **update}
            update["sessionUpdate"] = "tool_call"
        self._tell_updates([update], event.seq)

    def _on_todos(self, event: Event) -> None:
        if not self._told_raw(event):
            self._tell_updates([plan_update(plain(event))], event.seq)

    def _on_title(self, event: Event) -> None:
        if self._told_raw(event):
            return
        data = plain(event)
        title = data.get("title")
        if data.get("auto") is not True:  # the user's own title, which wins
            self._title = title if isinstance(title, str) else None
        elif isinstance(title, str):
            self._stand("session_info_update", _encode({"title": title}))


def _is_text(update: dict[str, Any], kind: str) -> bool:
    return bool(update["sessionUpdate"] == kind and update["content"].get("type") == "text")


_TAKERS: dict[str, Callable[[_Teller, Event], None]] = {
    "delta": _Teller._on_delta,  # noqa: SLF001 - its own methods
    "frame": _Teller._on_frame,  # noqa: SLF001
    "user": _Teller._on_user,  # noqa: SLF001
    "assistant": _Teller._on_assistant,  # noqa: SLF001
    "thinking": _Teller._on_thinking,  # noqa: SLF001
    "tool_call": _Teller._on_call,  # noqa: SLF001
    "tool_result": _Teller._on_result,  # noqa: SLF001
    "todo_update": _Teller._on_todos,  # noqa: SLF001
    "title": _Teller._on_title,  # noqa: SLF001
}
