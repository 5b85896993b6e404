"""A session's events as the messages that people read, in the order of the log. Pure.

Unlike a recovered conversation this holds everything that was recorded, of every run: what was said
by whom and when, calls with the words they came with, and notes on what happened in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from holdfast.errors import HoldfastError
from holdfast.model import Event, is_reference

__all__ = ["Part", "Saying", "as_json", "sayings"]

_MEDIA = ("image", "document", "audio", "video", "file")


class Part(msgspec.Struct, frozen=True):
    """One piece of a message: text, thinking, a call, a result or media."""

    kind: str
    text: str = ""
    name: str = ""
    id: str | None = None
    value: Any = None
    """A call's arguments, or where a picture's bytes are."""
    failed: bool = False


class Saying(msgspec.Struct):
    """One message of a role (user, assistant, system, tool), or a note on what happened."""

    seq: int
    timestamp: int
    role: str
    parts: list[Part]
    agent: str | None = None
    run: str | None = None
    cut_off: bool = False


def sayings(events: Iterable[Event]) -> Iterator[Saying]:
    """The messages of a log. Never raises about what the events hold."""
    reader = _Reader()
    for event in events:
        yield from reader.take(event)
    yield from reader.finish()


def as_json(value: Any, indent: int = 0) -> str:
    """A value as JSON text."""
    try:
        document = msgspec.json.encode(value)
        return (msgspec.json.format(document, indent=indent) if indent else document).decode()
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        import json

        return json.dumps(value, default=str, ensure_ascii=True, indent=indent or None)


class _Reader:
    """What is known while the log is read: the answer in the making, and streams not yet ended."""

    def __init__(self) -> None:
        self._answer: Saying | None = None
        self._streams: dict[tuple[str | None, str], Saying] = {}
        self._tools: dict[str, str] = {}
        self._due = 0

    def take(self, event: Event) -> Iterator[Saying]:
        """One more event; the messages that are whole now."""
        if event.seq > self._due:
            yield from self._flush()
            yield _missing(self._due, event)
        self._due = event.seq + 1
        data = _data(event)
        if event.type == "delta":
            self._add_delta(event, data)
        elif event.type in ("assistant", "thinking", "tool_call"):
            yield from self._speak(event, data)
        elif event.type == "tool_result":
            yield from self._flush()
            yield self._result(event, data)
        elif event.type in ("user", "system"):
            yield from self._flush()
            yield _saying(event, data, event.type, _content(data.get("content", "")))
        elif event.type in ("turn_end", "interrupted", *_NOTES):
            yield from self._pass(event, data)

    def finish(self) -> Iterator[Saying]:
        """The log has ended; what is left."""
        yield from self._flush()
        yield from self._cut_off(list(self._streams))

    def _flush(self) -> Iterator[Saying]:
        if self._answer is not None:
            answer, self._answer = self._answer, None
            yield answer

    def _speak(self, event: Event, data: dict[str, Any]) -> Iterator[Saying]:
        """Thinking, words and calls of one answer are one message."""
        if event.type != "tool_call":
            self._streams.pop((event.run, event.type), None)
        parts = self._spoken(event, data)
        answer = self._answer
        if answer is None or answer.run != event.run or not _continues(answer, event.type):
            yield from self._flush()
            answer = self._answer = _saying(event, data, "assistant", [])
        answer.parts += parts

    def _spoken(self, event: Event, data: dict[str, Any]) -> list[Part]:
        if event.type == "tool_call":
            tool, id = str(data.get("tool", "?")), _text_or_none(data.get("id"))
            if id is not None:
                self._tools[id] = tool
            return [Part("call", name=tool, id=id, value=data.get("params"))]
        parts = _content(data.get("content", ""))
        if event.type == "thinking":
            return [Part("thinking", part.text) if part.kind == "text" else part for part in parts]
        return parts

    def _result(self, event: Event, data: dict[str, Any]) -> Saying:
        id = _text_or_none(data.get("toolCallId"))
        name = self._tools.get(id or "", "")
        text = _readable(data.get("result", ""))
        part = Part("result", text, name, id, failed=bool(data.get("is_error")))
        pictures = [part for part in _content(data.get("result")) if part.kind == "media"]
        return _saying(event, data, "tool", [part, *pictures])

    def _add_delta(self, event: Event, data: dict[str, Any]) -> None:
        kind = "thinking" if data.get("kind") == "thinking" else "assistant"
        stream = self._streams.get((event.run, kind))
        if stream is None:
            stream = _saying(event, data, "assistant", [])
            stream.cut_off = True
            self._streams[event.run, kind] = stream
        stream.parts.append(Part("text", _readable(data.get("content", ""))))

    def _pass(self, event: Event, data: dict[str, Any]) -> Iterator[Saying]:
        """The end of a turn, or something to note: what was being said was cut off here."""
        yield from self._flush()
        if event.type in ("turn_end", "agent_error"):
            yield from self._cut_off([key for key in self._streams if key[0] == event.run])
        elif event.type == "interrupted":
            yield from self._cut_off(list(self._streams))
        if event.type in _NOTES:
            text = _NOTES[event.type](data)
            yield Saying(event.seq, event.timestamp, "note", [Part("text", text)])

    def _cut_off(self, keys: list[tuple[str | None, str]]) -> Iterator[Saying]:
        for key in keys:
            stream = self._streams.pop(key)
            kind = "thinking" if key[1] == "thinking" else "text"
            stream.parts = [Part(kind, "".join(part.text for part in stream.parts))]
            yield stream


def _continues(answer: Saying, type: str) -> bool:
    """Whether an event of this type still belongs to the answer."""
    kinds = {part.kind for part in answer.parts}
    return type == "tool_call" or kinds <= {"thinking"}


def _saying(event: Event, data: dict[str, Any], role: str, parts: list[Part]) -> Saying:
    agent = data.get("agent")
    named = agent if isinstance(agent, str) and agent not in ("", "default") else None
    return Saying(event.seq, event.timestamp, role, parts, named, event.run)


def _missing(first: int, after: Event) -> Saying:
    last = after.seq - 1
    names = f"event {first}" if first == last else f"events {first} to {last}"
    return Saying(first, after.timestamp, "note", [Part("text", f"{names} cannot be read")])


def _data(event: Event) -> dict[str, Any]:
    try:
        return event.data
    except HoldfastError:
        return {}


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _content(content: Any) -> list[Part]:
    """The parts of a message's content: a string, blocks, or whatever a foreign log holds."""
    if isinstance(content, list):
        return [part for block in content for part in _block(block)]
    return _block(content)


def _block(block: Any) -> list[Part]:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(block, dict) or not isinstance(kind, str):
        text = _readable(block)
        return [Part("text", text)] if text else []
    if kind == "tool_use":
        id = _text_or_none(block.get("id"))
        return [Part("call", name=str(block.get("name", "?")), id=id, value=block.get("input"))]
    if kind == "tool_result":
        text, id = _readable(block.get("content", "")), _text_or_none(block.get("tool_use_id"))
        return [Part("result", text, id=id, failed=bool(block.get("is_error")))]
    if kind in _MEDIA:
        given = block.get("source")
        source = given if isinstance(given, dict) else {}
        return [Part("media", str(source.get("media_type") or ""), kind, value=source)]
    if kind == "thinking":
        return [Part("thinking", _readable(block.get("thinking", "")))]
    return [Part("text", _readable(block.get("text", "") if kind == "text" else block))]


def _readable(value: Any) -> str:
    """Any value as text: strings as they are, blocks by their text, the rest as JSON."""
    if isinstance(value, str):
        return value.replace("\r\n", "\n")
    if value is None:
        return ""
    if is_reference(value):
        return f"[{value['bytes']:,} bytes of {value.get('media', 'data')}]"
    if isinstance(value, list) and value and all(_is_block(item) for item in value):
        return "\n".join(_block_text(item) for item in value)
    if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("content"), str):
        return _readable(value["content"])
    return as_json(value)


def _is_block(value: Any) -> bool:
    return isinstance(value, str) or (
        isinstance(value, dict) and isinstance(value.get("type"), str)
    )


def _block_text(block: Any) -> str:
    if isinstance(block, dict) and block["type"] == "text":
        return _readable(block.get("text", ""))
    if isinstance(block, dict) and block["type"] in _MEDIA:
        return f"[{block['type']}]"
    return _readable(block)


def _list(values: Any) -> str:
    return ", ".join(str(value) for value in values) if isinstance(values, list) else str(values)


def _sentence(head: str, text: Any) -> str:
    words = _readable(text) if text else ""
    return f"{head}: {words}" if words else head


def _repaired(data: dict[str, Any]) -> str:
    return f"event {data['lost']} was lost to damage" if "lost" in data else "the log was repaired"


_NOTES: dict[str, Callable[[dict[str, Any]], str]] = {
    "compaction": lambda data: _sentence(
        f"events {_list(data.get('covers', []))} summarised", data.get("summary")
    ),
    "retracted": lambda data: _sentence(
        f"retracted: events {_list(data.get('seqs', []))}", data.get("replacement")
    ),
    "interrupted": lambda data: _sentence("interrupted", data.get("reason")),
    "suspended": lambda data: _sentence("suspended", data.get("reason")),
    "resumed": lambda _: "resumed",
    "agent_error": lambda data: _sentence("error", data.get("error")),
    "delegation": lambda data: _sentence(
        f"{data.get('parent', '?')} asks {data.get('child', '?')}", data.get("task")
    ),
    "delegation_complete": lambda data: f"{data.get('child', '?')} is done",
    "forked": lambda data: f"forked from {data.get('parent', '?')}",
    "merged": lambda _: "merged with another session",
    "imported": lambda data: f"imported from {data.get('tool', '?')}",
    "repaired": _repaired,
    "redacted": lambda _: "parts were redacted",
}
