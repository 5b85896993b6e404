"""Qwen Code: a tree of records like Claude Code's, with the parts of Gemini in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar

from holdfast.formats._foreign import Foreign, read_time
from holdfast.formats._source import Source
from holdfast.formats.readers._book import Book, SourceEntry
from holdfast.formats.readers._files import any_of, first_records, names_of, records, stem
from holdfast.formats.readers._gemini_parts import (
    USAGE,
    Pairing,
    parts_of,
    said_by_user,
    tell_model_parts,
    tell_responses,
)
from holdfast.formats.readers._shape import first_text, mapping, rename_figures, text
from holdfast.formats.readers._tree import TreeNode, left_behind

__all__ = ["READER", "Qwen"]

Record = dict[str, Any]

_TYPES = frozenset({"user", "assistant", "tool_result", "system"})
# What a person typed; the tool itself speaks in the user's place under other names.
_TYPED = frozenset({"", "mid_turn_user_message", "realtime_message"})
_REMINDER = re.compile(r"\s*<system-reminder>")
_FAILED = frozenset({"error", "cancelled"})


class Qwen:
    """Reads ``~/.qwen/projects/*/chats/*.jsonl``."""

    tool = "qwen"
    places = (".qwen/projects/*/chats/*.jsonl", ".qwen/tmp/*/chats/*.jsonl")
    homes: ClassVar[dict[str, str]] = {"QWEN_HOME": ".qwen"}

    def claims(self, source: Source) -> bool:
        """Whether a file holds records as Qwen Code writes them."""
        return any_of(source, ".jsonl", _is_mine)

    def read(self, source: Source) -> Iterator[Foreign]:
        """Each file is a session."""
        for name in names_of(source, ".jsonl", _is_mine):
            yield _Chat(source, name).foreign()


def _is_mine(source: Source, name: str) -> bool:
    return any(_is_record(record) for record in first_records(source, name))


def _is_record(record: Record) -> bool:
    if text(record.get("type")) not in _TYPES or "sessionId" not in record:
        return False
    return "parts" in mapping(record.get("message")) or "systemPayload" in record


class _Chat:
    """One file on its way to a session."""

    def __init__(self, source: Source, name: str) -> None:
        self._book = Book(Qwen.tool)
        self._name = name
        self._pairing = Pairing()
        self._lines = list(records(source, name, self._book.problems))
        nodes = [_node(r) for _, r in self._lines if isinstance(r.get("uuid"), str)]
        self._strays = left_behind(nodes, joined_roots=True)
        self._title: str | None = None
        self._parent: str | None = None

    def foreign(self) -> Foreign:
        """The session."""
        for line, record in self._lines:
            key = first_text(record.get("uuid"))
            if key is not None and self._book.knows(key):
                continue
            stray = self._strays.get(key or "")
            run = f"branch-{stray}" if stray else None
            with self._book.entry(line, read_time(record.get("timestamp")), key, run) as entry:
                self._tell(record, entry)
        return self._book.foreign(
            first_text(*(record.get("sessionId") for _, record in self._lines)) or stem(self._name),
            title=self._title,
            cwd=first_text(*(record.get("cwd") for _, record in self._lines)),
            parent=self._parent,
            version=first_text(*(record.get("version") for _, record in self._lines)),
        )

    def _tell(self, record: Record, entry: SourceEntry) -> None:
        kind = record.get("type")
        content = mapping(record.get("message")).get("parts")
        entry.kind = text(record.get("subtype")) or text(kind) or None
        if kind == "user" and text(record.get("subtype")) in _TYPED:
            blocks = said_by_user(content)
            entry.user([b for b in blocks if not _REMINDER.match(text(b.get("text")))])
        elif kind == "assistant":
            tell_model_parts(content, record.get("model"), self._pairing, entry)
            figures = rename_figures(record.get("usageMetadata"), USAGE)
            entry.usage(figures, record.get("model"))
        elif kind == "tool_result":
            self._tell_result(record, content, entry)
        elif kind == "system":
            self._note(mapping(record.get("systemPayload")))

    def _tell_result(self, record: Record, content: Any, entry: SourceEntry) -> None:
        outcome = mapping(record.get("toolCallResult"))
        failed = True if text(outcome.get("status")) in _FAILED else None
        if not tell_responses(content, self._pairing, entry, is_error=failed):
            id = first_text(outcome.get("callId"))
            if id is not None:
                result = outcome.get("resultDisplay")
                entry.result(id, result, is_error=failed is True)

    def _note(self, payload: Record) -> None:
        self._title = first_text(payload.get("customTitle"), self._title)
        self._parent = first_text(payload.get("parentSessionId"), self._parent)


def _node(record: Record) -> TreeNode:
    parts = parts_of(mapping(record.get("message")).get("parts"))
    calls = (mapping(part.get("functionCall")).get("id") for part in parts)
    answers = (mapping(part.get("functionResponse")).get("id") for part in parts)
    parent = first_text(record.get("parentUuid"))
    is_talk = record.get("type") != "system"
    return TreeNode(record["uuid"], parent, None, _texts(calls), _texts(answers), is_talk)


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(value for value in values if isinstance(value, str))


READER = Qwen()
