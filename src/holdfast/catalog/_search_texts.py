"""The searchable text of a session's events: who said it, with which tool, and the text. Pure.

Searchable are the messages of user, assistant and system, thinking, tool calls with name and
parameters, tool results, summaries, titles and tags. Of one event the first ``TEXT_CHARS_MAX``
characters count. Streamed text counts once: in the final event, or, if no final event covers it,
as it was streamed. Retracted text no longer counts, its replacement does; a title counts until
there is another, a tag until it is removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from typing import Any

import msgspec

from holdfast.errors import HoldfastError
from holdfast.model import Event, is_reference, line_size
from holdfast.replay import Calls, blocks_of, kinds_said, mark_of

TEXT_CHARS_MAX = 1 << 20
ROLES = ("user", "assistant", "system", "thinking", "tool_call", "tool_result", "summary", "title", "tag")

_DEPTH_MAX = 20
_ENCODED_CHARS_MIN = 1024
_is_encoded = re.compile(r"[A-Za-z0-9+/_-]{1024}").match
# Members that providers add to the text: bytes and signatures, not words.
_UNREAD_KEYS = frozenset(["signature", "thought_signature", "encrypted_content", "raw"])
_UNREAD_BLOCKS = frozenset(["image", "audio", "redacted_thinking"])
_PLAIN_KEYS = frozenset(["content", "text", "thinking", "result", "output"])


class Said(msgspec.Struct, frozen=True):
    """One text of an event. ``name`` is the tool of a call or result, or the tag."""

    role: str
    text: str
    name: str | None = None


class OpenStream(msgspec.Struct):
    """Streamed text that no final event covers yet: its pieces by seq."""

    run: str | None
    role: str
    pieces: list[tuple[int, str]]
    timestamp: int
    offset: int = 0

    @property
    def text(self) -> str:
        return "".join(piece for _, piece in self.pieces)[:TEXT_CHARS_MAX]


class Heard(msgspec.Struct, frozen=True):
    """One row of the index: a text, and its event (for a stream, its events)."""

    seq: int
    said: Said
    timestamp: int
    offset: int
    last: int | None = None


class Told(msgspec.Struct, frozen=True):
    """The searchable text of a log."""

    said: list[Heard]
    streaming: list[Heard]  # not covered by a final event yet


class Listener(msgspec.Struct):
    """Processes a session's events in order; between two batches it can be kept as bytes.

    After ``hear``, ``heard`` are the new rows, ``gone`` the seqs of earlier rows that no longer
    count, and ``gone_titles`` and ``gone_tags`` the same for titles and tags.
    """

    offset: int = 0  # where in the log the next event should begin, if Holdfast wrote all lines
    streams: list[OpenStream] = []
    calls: Calls = msgspec.field(default_factory=Calls)

    def hear(self, events: Iterable[Event]) -> IndexChanges:
        """Return what these events change in the index."""
        changes = IndexChanges()
        for event in events:
            taker = _TAKERS.get(event.type)
            if taker is not None:
                try:
                    taker(self, event, event.data, changes)
                except HoldfastError:
                    pass  # a foreign log may hold anything
            self.offset += line_size(event)
        return changes

    def shown_streams(self) -> list[Heard]:
        return _heard_streams(self.streams)

    # --- one method per type of event
    def on_said(self, event: Event, data: dict[str, Any], changes: IndexChanges) -> None:
        first = data.get("covers_from")
        if isinstance(first, int):
            kinds = kinds_said(event.type, data.get("content"))  # their streamed text from there on is in this event
            for stream in list(self.streams):
                if stream.run == event.run and stream.role in kinds:
                    stream.pieces = [piece for piece in stream.pieces if piece[0] < first]
                    self.streams.remove(stream)
                    changes.heard += _heard_streams([stream])
        tools: set[str | None] = set()
        known: dict[str, bool] = {}
        for kind, block in blocks_of(data.get("content")):
            name = block.get("name")
            if kind == "tool_result":
                tools.add(self._tool_of(event, block.get("tool_use_id")))
            elif kind == "tool_use" and isinstance(name, str):
                is_known = self._is_known(event, block.get("id"), name, block.get("input"))
                known[name] = is_known and known.get(name, True)
            elif event.type == "user":
                self.calls.speak(event.run)
        tool = tools.pop() if len(tools) == 1 else None
        self._take(event, data, changes, tool, {name for name in known if known[name]})

    def on_call(self, event: Event, data: dict[str, Any], changes: IndexChanges) -> None:
        """Handle a tool call; if a message contained the same call, it is indexed there."""
        tool = data.get("tool")
        is_known = isinstance(tool, str) and self._is_known(event, data.get("id"), tool, data.get("params"), begun=True)
        if not is_known:
            self._take(event, data, changes)

    def _is_known(self, event: Event, id: Any, tool: str, params: Any, *, begun: bool = False) -> bool:
        """Return whether exactly this was recorded of the call before."""
        key = id if isinstance(id, str) else None
        mark = mark_of(tool, _call_text(tool, params).encode("utf-8", "surrogatepass"))
        return self.calls.take(event.run, key, tool, mark, 0, begun=begun) == "nothing"

    def on_result(self, event: Event, data: dict[str, Any], changes: IndexChanges) -> None:
        self._take(event, data, changes, self._tool_of(event, data.get("toolCallId")))

    def _tool_of(self, event: Event, id: Any) -> str | None:
        """Return the tool of this result: only the call names it."""
        call = self.calls.answer(event.run, id if isinstance(id, str) else None)
        return None if call is None else call.tool

    def on_delta(self, event: Event, data: dict[str, Any], _: IndexChanges) -> None:
        text = data.get("content")
        if not isinstance(text, str):
            return
        role = "thinking" if data.get("kind") == "thinking" else "assistant"
        for stream in self.streams:
            if stream.run == event.run and stream.role == role:
                stream.pieces.append((event.seq, text))
                return
        self.streams.append(OpenStream(event.run, role, [(event.seq, text)], event.timestamp, self.offset))

    def on_end(self, event: Event, _: dict[str, Any], changes: IndexChanges) -> None:
        """Handle the end of a run: its streamed text was cut off here."""
        ended = [stream for stream in self.streams if event.type == "interrupted" or stream.run == event.run]
        changes.heard += _heard_streams(ended)
        self.streams = [stream for stream in self.streams if stream not in ended]

    def on_retracted(self, event: Event, data: dict[str, Any], changes: IndexChanges) -> None:
        seqs = data.get("seqs")
        gone = {seq for seq in seqs if isinstance(seq, int)} if isinstance(seqs, list) else set()
        changes.gone |= gone
        changes.heard = [row for row in changes.heard if not gone & {row.seq, row.last}]
        for stream in self.streams:
            stream.pieces = [piece for piece in stream.pieces if piece[0] not in gone]
        self._take(event, data, changes)

    def on_title(self, event: Event, data: dict[str, Any], changes: IndexChanges) -> None:
        changes.gone_titles = True
        changes.heard = [row for row in changes.heard if row.said.role != "title"]
        self._take(event, data, changes)

    def on_tag(self, event: Event, data: dict[str, Any], changes: IndexChanges) -> None:
        """Handle a tag that is added or removed; it counts once."""
        tag = data.get("tag")
        if isinstance(tag, str):
            changes.gone_tags.add(tag)
            changes.heard = [row for row in changes.heard if (row.said.role, row.said.name) != ("tag", tag)]
            self._take(event, data, changes)

    def _take(
        self,
        event: Event,
        data: dict[str, Any],
        changes: IndexChanges,
        tool: str | None = None,
        known: Collection[str] = (),
    ) -> None:
        """Add the texts of an event; its results belong to ``tool``, calls in ``known`` were indexed before."""
        for said in said_in(event.type, data):
            if said.role == "tool_call" and said.name in known:
                continue
            named = msgspec.structs.replace(said, name=tool) if said.role == "tool_result" else said
            changes.heard.append(Heard(event.seq, named, event.timestamp, self.offset))


class IndexChanges(msgspec.Struct):
    """The changes of the index by a batch of events."""

    heard: list[Heard] = []
    gone: set[int] = set()
    gone_titles: bool = False
    gone_tags: set[str] = set()


def said_in(type: str, data: dict[str, Any]) -> list[Said]:
    """Return the texts of an event by itself: words, results, and one text for all calls of each tool."""
    make = _MAKERS.get(type)
    return [said for said in make(data) if said.text.strip()] if make is not None else []


def _spoken(role: str) -> Callable[[dict[str, Any]], list[Said]]:
    def spoken(data: dict[str, Any]) -> list[Said]:
        content = data.get("content")
        if not isinstance(content, list):
            return [Said(role, _text(content))]
        words: list[Any] = []
        results: list[Any] = []
        calls: dict[str, list[str]] = {}
        for block in content:
            kind = block.get("type") if isinstance(block, dict) else None
            if kind == "tool_use" and isinstance(block.get("name"), str):
                calls.setdefault(block["name"], []).append(_call_text(block["name"], block.get("input")))
            else:
                (results if kind == "tool_result" else words).append(block)
        said = [Said(role, _text(words)), Said("tool_result", _text(results))]
        return said + [Said("tool_call", "\n".join(texts)[:TEXT_CHARS_MAX], name) for name, texts in calls.items()]

    return spoken


def _called(data: dict[str, Any]) -> list[Said]:
    name = tool if isinstance(tool := data.get("tool"), str) else None
    return [Said("tool_call", _call_text(name or "", data.get("params")), name)]


def _call_text(tool: str, params: Any) -> str:
    return f"{tool}\n{_text(params)}"[:TEXT_CHARS_MAX]


def _told(role: str, member: str) -> Callable[[dict[str, Any]], list[Said]]:
    return lambda data: [Said(role, _text(data.get(member)))]


def _tagged(data: dict[str, Any]) -> list[Said]:
    tag = data.get("tag")
    return [Said("tag", tag[:TEXT_CHARS_MAX], tag)] if isinstance(tag, str) else []


def _replaced(data: dict[str, Any]) -> list[Said]:
    replacement = data.get("replacement")
    role = replacement.get("role") if isinstance(replacement, dict) else None
    content = replacement.get("content") if isinstance(replacement, dict) else replacement
    return [Said(role if role in ROLES else "assistant", _text(content))]


_MAKERS: dict[str, Callable[[dict[str, Any]], list[Said]]] = {
    "user": _spoken("user"),
    "assistant": _spoken("assistant"),
    "system": _spoken("system"),
    "thinking": _spoken("thinking"),
    "tool_call": _called,
    "tool_result": _told("tool_result", "result"),
    "compaction": _told("summary", "summary"),
    "retracted": _replaced,
    "title": _told("title", "title"),
    "tag": _tagged,
}
_TAKERS: dict[str, Callable[[Listener, Event, dict[str, Any], IndexChanges], None]] = {
    "user": Listener.on_said,
    "assistant": Listener.on_said,
    "system": Listener.on_said,
    "thinking": Listener.on_said,
    "tool_call": Listener.on_call,
    "tool_result": Listener.on_result,
    "compaction": Listener.on_said,
    "delta": Listener.on_delta,
    "interrupted": Listener.on_end,
    "turn_end": Listener.on_end,
    "agent_error": Listener.on_end,
    "retracted": Listener.on_retracted,
    "title": Listener.on_title,
    "tag": Listener.on_tag,
    "untag": Listener.on_tag,
}


def _heard_streams(streams: Iterable[OpenStream]) -> list[Heard]:
    return [
        Heard(one.pieces[0][0], Said(one.role, one.text), one.timestamp, one.offset, one.pieces[-1][0])
        for one in streams
        if one.text.strip()
    ]


def _text(value: Any) -> str:
    """Return content, parameters or a result as text to search."""
    if type(value) is str:
        return value[:TEXT_CHARS_MAX] if not _is_bytes(value) else ""
    lines: list[str] = []
    _collect(value, lines, _DEPTH_MAX)
    return "\n".join(lines)[:TEXT_CHARS_MAX]


def _collect(value: Any, lines: list[str], depth: int) -> None:
    if isinstance(value, str):
        if not _is_bytes(value):
            lines.append(value)
    elif isinstance(value, dict):
        kind = value.get("type")
        is_unread = isinstance(kind, str) and kind in _UNREAD_BLOCKS
        if depth and not is_reference(value) and not is_unread:
            # ``key: value``, but only the value where the key is a matter of form.
            is_block = isinstance(kind, str)
            for key, item in value.items():
                if key in _UNREAD_KEYS or (is_block and key in ("type", "id", "tool_use_id")):
                    continue
                start = len(lines)
                _collect(item, lines, depth - 1)
                if len(lines) > start and key not in _PLAIN_KEYS:
                    lines[start] = f"{key}: {lines[start]}"
    elif isinstance(value, list):
        for item in value if depth else ():
            _collect(item, lines, depth - 1)
    elif value is not None and not isinstance(value, bool):
        lines.append(str(value))


def _is_bytes(text: str) -> bool:
    """Return whether a string is bytes in base64 or the like, which nobody searches."""
    return len(text) >= _ENCODED_CHARS_MIN and _is_encoded(text) is not None
