"""A session's events as a conversation that people can read. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from holdfast.apps.shown.words import size
from holdfast.errors import HoldfastError
from holdfast.model import Event, is_reference

__all__ = ["Entry", "folded", "readable", "transcript"]

_FOLD_LINES = 5
_FOLD_CHARS = 500
_PARAM_CHARS = 80


class Entry(NamedTuple):
    """One thing that was said, done or happened."""

    seq: int
    timestamp: int
    kind: str
    """user, assistant, system, thinking, call, result, failure or note."""
    who: str
    text: str
    foldable: bool = False


class _Stream(NamedTuple):
    """Streamed text that no final message covers yet."""

    seq: int
    timestamp: int
    who: str
    text: str


def transcript(events: Iterable[Event], first: int = 0) -> Iterator[Entry]:
    """The entries of a log, in its order. Never raises about what the events hold.

    ``first`` is the number of the first event that was asked for: those before are not missing.
    """
    streams: dict[tuple[str | None, str], _Stream] = {}
    tools: dict[str, str] = {}
    due = first
    for event in events:
        if event.seq > due:
            yield _missing(due, event)
        due = event.seq + 1
        data = _data(event)
        if event.type == "delta":
            _add_delta(streams, event, data)
            continue
        if event.type in ("assistant", "thinking"):
            streams.pop((event.run, _stream_kind(event.type)), None)
        elif event.type == "interrupted":
            yield from _unfinished(streams)
        elif event.type in ("turn_end", "agent_error"):
            # The run says no more: what it was saying was cut off here.
            yield from _unfinished(streams, [key for key in streams if key[0] == event.run])
        make = _MAKERS.get(event.type)
        if make is not None:
            yield make(event, data, tools)
    yield from _unfinished(streams)


def folded(entry: Entry) -> tuple[str, int]:
    """The entry's text cut to a few lines, and how many characters that hides."""
    if not entry.foldable:
        return entry.text, 0
    head = "\n".join(entry.text.split("\n", _FOLD_LINES)[:_FOLD_LINES])[:_FOLD_CHARS].rstrip()
    hidden = len(entry.text.rstrip()) - len(head)
    return head, max(hidden, 0)


def readable(value: Any) -> str:
    """Content, a result or any other value as text: strings as they are, blocks by their text."""
    if isinstance(value, str):
        return value.replace("\r\n", "\n")
    if is_reference(value):
        return f"[{size(value['bytes'])} of {value.get('media', 'data')}; shown with --full]"
    if isinstance(value, list):
        return "\n".join(_block(item) for item in value)
    if isinstance(value, dict) and isinstance(value.get("content"), str) and len(value) == 1:
        return readable(value["content"])
    return _json(value)


def _block(block: Any) -> str:
    if not isinstance(block, dict):
        return readable(block)
    kind = block.get("type")
    if kind == "text":
        return readable(block.get("text", ""))
    if kind in ("image", "document", "audio", "file"):
        source = block.get("source")
        media = source.get("media_type") if isinstance(source, dict) else None
        return f"[{kind} {media}]" if media else f"[{kind}]"
    return _json(block)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _data(event: Event) -> dict[str, Any]:
    try:
        return event.data
    except HoldfastError:
        return {}


def _who(name: str, data: dict[str, Any]) -> str:
    agent = data.get("agent")
    return f"{name} ({agent})" if isinstance(agent, str) and agent not in ("", "default") else name


def _stream_kind(kind: Any) -> str:
    return "thinking" if kind == "thinking" else "assistant"


def _add_delta(
    streams: dict[tuple[str | None, str], _Stream], event: Event, data: dict[str, Any]
) -> None:
    kind = _stream_kind(data.get("kind"))
    before = streams.get((event.run, kind))
    if before is None:
        before = _Stream(event.seq, event.timestamp, _who(kind, data), "")
    text = before.text + readable(data.get("content", ""))
    streams[event.run, kind] = before._replace(text=text)


def _missing(first: int, after: Event) -> Entry:
    """The note in the place of events that the reader could not give."""
    last = after.seq - 1
    names = f"event {first}" if first == last else f"events {first} to {last}"
    return Entry(first, after.timestamp, "note", f"{names} cannot be read", "")


def _unfinished(
    streams: dict[tuple[str | None, str], _Stream],
    keys: list[tuple[str | None, str]] | None = None,
) -> Iterator[Entry]:
    for key in list(streams) if keys is None else keys:
        found = streams.pop(key)
        who = f"{found.who}, cut off"
        yield Entry(found.seq, found.timestamp, key[1], who, found.text)


_Maker = Callable[[Event, dict[str, Any], dict[str, str]], Entry]


def _said(event: Event, data: dict[str, Any], _: dict[str, str]) -> Entry:
    text = readable(data.get("content", ""))
    who = _who(event.type, data)
    return Entry(event.seq, event.timestamp, event.type, who, text, event.type == "thinking")


def _called(event: Event, data: dict[str, Any], tools: dict[str, str]) -> Entry:
    tool = str(data.get("tool", "?"))
    if isinstance(data.get("id"), str):
        tools[data["id"]] = tool
    text = _params(data.get("params"))
    return Entry(event.seq, event.timestamp, "call", _who(tool, data), text, foldable=True)


def _params(params: Any) -> str:
    """``path="a.txt" limit=5`` where that is short enough to read, JSON otherwise."""
    if not isinstance(params, dict):
        return "" if params is None else _json(params)
    pairs = [f"{name}={_json(value)}" for name, value in params.items()]
    separator = "\n" if any(len(pair) > _PARAM_CHARS for pair in pairs) else "  "
    return separator.join(pairs)


def _answered(event: Event, data: dict[str, Any], tools: dict[str, str]) -> Entry:
    tool = tools.pop(str(data.get("toolCallId")), "a call that is not in the log")
    kind = "failure" if data.get("is_error") else "result"
    text = readable(data.get("result", ""))
    return Entry(event.seq, event.timestamp, kind, tool, text, foldable=True)


def _noted(event: Event, data: dict[str, Any], _: dict[str, str]) -> Entry:
    who, text = _NOTES[event.type](data)
    return Entry(event.seq, event.timestamp, "note", who, text, foldable=True)


def _list(values: Any) -> str:
    return ", ".join(str(value) for value in values) if isinstance(values, list) else str(values)


def _lost(data: dict[str, Any]) -> tuple[str, str]:
    if "lost" in data:
        return f"event {data['lost']} was lost to damage", ""
    return "the log was repaired", ""


_NOTES: dict[str, Callable[[dict[str, Any]], tuple[str, str]]] = {
    "compaction": lambda data: (
        f"events {_list(data.get('covers', []))} summarised",
        readable(data.get("summary", "")),
    ),
    "retracted": lambda data: (
        f"retracted: events {_list(data.get('seqs', []))}",
        readable(data["replacement"]) if data.get("replacement") else "",
    ),
    "interrupted": lambda data: ("interrupted", str(data.get("reason") or "")),
    "suspended": lambda data: ("suspended", str(data.get("reason") or "")),
    "resumed": lambda _: ("resumed", ""),
    "agent_error": lambda data: (_who("error", data), readable(data.get("error", ""))),
    "delegation": lambda data: (
        f"{data.get('parent', '?')} asks {data.get('child', '?')}",
        readable(data.get("task") or ""),
    ),
    "delegation_complete": lambda data: (f"{data.get('child', '?')} is done", ""),
    "repaired": _lost,
    "redacted": lambda _: ("parts were redacted", ""),
}
_MAKERS: dict[str, _Maker] = {
    "user": _said,
    "assistant": _said,
    "system": _said,
    "thinking": _said,
    "tool_call": _called,
    "tool_result": _answered,
} | dict.fromkeys(_NOTES, _noted)
