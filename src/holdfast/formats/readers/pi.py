"""pi: one JSONL file for each session, its entries a tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from holdfast.formats._foreign import Foreign, read_time, refusal_of
from holdfast.formats._source import Source
from holdfast.formats.readers._book import Book, SourceEntry
from holdfast.formats.readers._files import any_of, first_records, names_of, records, stem
from holdfast.formats.readers._shape import (
    UUID,
    first_text,
    image_block,
    items,
    mapping,
    rename_figures,
    text,
)
from holdfast.formats.readers._tree import TreeNode, left_behind

__all__ = ["READER", "Pi"]

Record = dict[str, Any]

_VERSION = 3
_USAGE = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cacheRead": "cache_read_tokens",
    "cacheWrite": "cache_write_tokens",
    "totalTokens": "total_tokens",
}


class Pi:
    """Reads ``~/.pi/agent/sessions/*/*.jsonl``."""

    tool = "pi"
    places = (".pi/agent/sessions/*/*.jsonl",)
    homes: ClassVar[dict[str, str]] = {"PI_CODING_AGENT_DIR": ".pi/agent"}

    def claims(self, source: Source) -> bool:
        """Whether a file has pi's head and entries."""
        return any_of(source, ".jsonl", _is_mine)

    def read(self, source: Source) -> Iterator[Foreign]:
        """Each file is a session."""
        for name in names_of(source, ".jsonl", _is_mine):
            yield _Session(source, name).foreign()


def _is_mine(source: Source, name: str) -> bool:
    found = first_records(source, name)
    if any(r.get("type") == "session" and "id" in r and "cwd" in r for r in found):
        return True
    return any(
        r.get("type") == "message" and "parentId" in r and isinstance(r.get("message"), dict)
        for r in found
    )


class _Session:
    """One file on its way to a session."""

    def __init__(self, source: Source, name: str) -> None:
        self._book = Book(Pi.tool)
        self._name = name
        self._lines = list(records(source, name, self._book.problems))
        head = (record for _, record in self._lines if record.get("type") == "session")
        self._head = next(head, {})
        nodes = [
            TreeNode(record["id"], first_text(record.get("parentId")))
            for _, record in self._lines
            if isinstance(record.get("id"), str) and record.get("type") != "session"
        ]
        self._strays = left_behind(nodes, joined_roots=False)
        self._title: str | None = None

    def foreign(self) -> Foreign:
        """The session."""
        for line, record in self._lines:
            is_head = record.get("type") == "session"
            key = None if is_head else first_text(record.get("id"))
            if key is not None and self._book.knows(key):
                continue
            stray = self._strays.get(key or "")
            run = f"branch-{stray}" if stray else None
            with self._book.entry(line, read_time(record.get("timestamp")), key, run) as entry:
                self._tell(record, entry)
        return self._book.foreign(
            first_text(self._head.get("id")) or stem(self._name),
            title=self._title,
            cwd=first_text(self._head.get("cwd")),
            parent=_parent(
                first_text(self._head.get("parentSession"), self._head.get("branchedFrom"))
            ),
            created_at=read_time(self._head.get("timestamp")) or self._book.first_stamp,
            refusal=refusal_of(self._name, Pi.tool, self._head.get("version"), _VERSION),
        )

    def _tell(self, record: Record, entry: SourceEntry) -> None:
        kind = entry.kind = text(record.get("type")) or None
        if kind == "message":
            _tell_message(mapping(record.get("message")), entry)
        elif kind == "session_info":
            self._title = first_text(record.get("name"))
        elif kind == "compaction":
            self._book.tell_summary(record.get("summary"), entry)


def _tell_message(message: Record, entry: SourceEntry) -> None:
    role = message.get("role")
    content = message.get("content")
    entry.kind = text(role) or None
    if role == "user":
        entry.user(content if isinstance(content, str) else _blocks(content))
    elif role == "assistant":
        _tell_assistant(message, entry)
    elif role == "toolResult":
        result = content if isinstance(content, str) else _blocks(content)
        failed = message.get("isError") is True
        entry.result(message.get("toolCallId"), result, is_error=failed)


def _tell_assistant(message: Record, entry: SourceEntry) -> None:
    model, content = message.get("model"), message.get("content")
    if isinstance(content, str):
        entry.assistant(content, model)
    for block in map(mapping, items(content)):
        kind = block.get("type")
        if kind == "text":
            entry.assistant(block.get("text"), model)
        elif kind == "thinking":
            entry.thinking(text(block.get("thinking")), block.get("thinkingSignature"))
        elif kind == "toolCall":
            signature = block.get("thoughtSignature")
            entry.call(block.get("id"), block.get("name"), block.get("arguments"), signature)
    figures = rename_figures(message.get("usage"), _USAGE)
    cost = rename_figures(mapping(message.get("usage")).get("cost"), {"total": "cost"})
    entry.usage(figures | cost, model)


def _blocks(content: Any) -> list[Record]:
    """A content's words and pictures in our form."""
    found = []
    for block in map(mapping, items(content)):
        if block.get("type") == "text":
            found.append({"type": "text", "text": text(block.get("text"))})
        elif block.get("type") == "image":
            source = mapping(block.get("source"))
            media = first_text(block.get("mimeType"), source.get("mediaType"))
            found.append(image_block(media, block.get("data", source.get("data"))) or {})
    return [block for block in found if block]


def _parent(path: str | None) -> str | None:
    """The id of the session that a path leads to."""
    named = UUID.search(stem(path.replace("\\", "/"))) if path else None
    return named[0] if named else path


READER = Pi()
