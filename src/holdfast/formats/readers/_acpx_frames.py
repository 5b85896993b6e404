"""Frames of the Agent Client Protocol, read as a conversation."""

from __future__ import annotations

from typing import Any

from holdfast.formats._foreign import read_time
from holdfast.formats.readers._book import Book, Entry
from holdfast.formats.readers._shape import (
    block_text,
    first_text,
    image_block,
    items,
    mapping,
    text,
)

__all__ = ["Frames"]

Record = dict[str, Any]

_CHUNKS = {"agent_message_chunk": "assistant", "agent_thought_chunk": "thinking"}
_ENDED = frozenset({"completed", "failed"})


class Frames:
    """Takes frames one after the other. Streamed text is told once it is whole."""

    def __init__(self, book: Book) -> None:
        self.cwd: str | None = None
        self._book = book
        self._kind = ""
        self._words = ""

    def take(self, line: bytes, frame: Record) -> None:
        """One frame, or a marker of the journal."""
        inner = mapping(frame.get("frame")) or mapping(frame.get("message")) or frame
        params = mapping(inner.get("params"))
        stamp = read_time(frame.get("timestamp", frame.get("at", frame.get("ts"))))
        update = mapping(params.get("update"))
        kind = text(update.get("sessionUpdate"))
        self.cwd = self.cwd or first_text(params.get("cwd"))
        if _CHUNKS.get(kind, "") != self._kind:
            self.finish()
        with self._book.entry(line, stamp) as entry:
            entry.kind = kind or text(inner.get("method")) or None
            if inner.get("method") == "session/prompt":
                entry.user(_blocks(params.get("prompt")))
            elif kind in _CHUNKS:
                self._kind = _CHUNKS[kind]
                self._words += text(mapping(update.get("content")).get("text"))
            elif kind in {"tool_call", "tool_call_update"}:
                _tell_tool(update, entry)

    def finish(self) -> None:
        """The streamed text so far is whole."""
        kind, words = self._kind, self._words
        self._kind = self._words = ""
        if words.strip():
            with self._book.entry({"streamed": words}) as entry:
                if kind == "assistant":
                    entry.assistant(words)
                else:
                    entry.thinking(words)


def _blocks(prompt: Any) -> list[Record]:
    found: list[Record | None] = []
    for block in map(mapping, items(prompt)):
        if block.get("type") == "text":
            found.append({"type": "text", "text": text(block.get("text"))})
        elif block.get("type") == "image":
            found.append(image_block(block.get("mimeType"), block.get("data")))
        elif block.get("type") == "resource":
            words = text(mapping(block.get("resource")).get("text"))
            found.append({"type": "text", "text": words})
    return [block for block in found if block]


def _tell_tool(update: Record, entry: Entry) -> None:
    id = first_text(update.get("toolCallId"))
    if id is None:
        return
    if update.get("sessionUpdate") == "tool_call":
        name = first_text(update.get("kind"), update.get("title"))
        entry.call(id, name, update.get("rawInput"))
    if text(update.get("status")) in _ENDED:
        contents = (mapping(mapping(part).get("content")) for part in items(update.get("content")))
        words = block_text([content for content in contents if content])
        shown = words or update.get("rawOutput")
        entry.result(id, shown, is_error=update.get("status") == "failed")
