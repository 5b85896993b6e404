"""pi: one JSONL file for each session, its entries a tree."""

from __future__ import annotations

from typing import Any

from holdfast.formats._foreign import read_time, refusal_of
from holdfast.formats._source import Source
from holdfast.formats.readers import _values as v
from holdfast.formats.readers._book import SessionLog, SourceEntry, TreeNode, left_behind
from holdfast.formats.readers._files import Record, ToolReader, has_record, stem

_VERSION = 3
_USAGE = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cacheRead": "cache_read_tokens",
    "cacheWrite": "cache_write_tokens",
    "totalTokens": "total_tokens",
}

_BLOCKS = {
    "text": ("text", "text"),
    "thinking": ("thought", "thinking", "thinkingSignature"),
    "toolCall": ("call", "id", "name", "arguments", "thoughtSignature"),
}


def _is_mine(record: Record) -> bool:
    if record.get("type") == "session":
        return "id" in record and "cwd" in record
    is_message = record.get("type") == "message" and isinstance(record.get("message"), dict)
    return is_message and "parentId" in record


class _Session(SessionLog):
    tool = "pi"

    def __init__(self, source: Source, name: str) -> None:
        super().__init__(source, name)
        self._head = next((record for _, record in self._lines if record.get("type") == "session"), {})
        nodes = [
            TreeNode(record["id"], v.first_text(record.get("parentId")))
            for _, record in self._lines
            if isinstance(record.get("id"), str) and record.get("type") != "session"
        ]
        self._strays = left_behind(nodes, joined_roots=False)

    def _key(self, record: Record) -> str | None:
        # The id of a head is the session's, which entries may have as well.
        return None if record.get("type") == "session" else super()._key(record)

    def _about(self) -> dict[str, Any]:
        head = self._head
        return {
            "foreign_id": v.first_text(head.get("id")) or stem(self._name),
            "title": self._title,
            "cwd": v.first_text(head.get("cwd")),
            "parent": _parent(v.first_text(head.get("parentSession"), head.get("branchedFrom"))),
            "created_at": read_time(head.get("timestamp")),
            "refusal": refusal_of(self._name, self.tool, head.get("version"), _VERSION),
        }

    def _tell(self, record: Record, entry: SourceEntry) -> None:
        kind = entry.kind = v.text(record.get("type")) or None
        if kind == "message":
            _tell_message(v.mapping(record.get("message")), entry)
        elif kind == "session_info":
            self._title = v.first_text(record.get("name"))
        elif kind == "compaction":
            self._book.tell_summary(record.get("summary"), entry)


def _tell_message(message: Record, entry: SourceEntry) -> None:
    role, content, model = (message.get(name) for name in ("role", "content", "model"))
    said = content if isinstance(content, str) else v.said_blocks(content)
    entry.kind = v.text(role) or None
    if role == "user":
        entry.user(said)
    elif role == "toolResult":
        entry.result(message.get("toolCallId"), said, is_error=message.get("isError") is True)
    elif role == "assistant":
        if isinstance(content, str):
            entry.assistant(content, model)
        for block in map(v.mapping, v.items(content)):
            entry.block(block, _BLOCKS, model)
        figures = v.rename_figures(message.get("usage"), _USAGE)
        entry.usage(figures | v.rename_figures(v.member(message, "usage", "cost"), {"total": "cost"}), model)


def _parent(path: str | None) -> str | None:
    """Return the id of the session that a path leads to."""
    named = v.UUID.search(stem(path.replace("\\", "/"))) if path else None
    return named[0] if named else path


READER = ToolReader(_Session.tool, (".jsonl", has_record(_is_mine), _Session.sessions))
