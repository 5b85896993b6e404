"""Qwen Code: a tree of records like Claude Code's, with the parts of Gemini in them."""

from __future__ import annotations

import re
from typing import Any

from holdfast.formats._source import Source
from holdfast.formats.readers._book import SessionLog, SourceEntry, TreeNode, left_behind
from holdfast.formats.readers._files import Record, ToolReader, has_record, stem
from holdfast.formats.readers._values import first_text, mapping, member, rename_figures, text, texts
from holdfast.formats.readers.gemini_cli import (
    FAILED,
    USAGE,
    Pairing,
    parts_of,
    said_by_user,
    tell_model_parts,
    tell_responses,
)

_TYPES = frozenset({"user", "assistant", "tool_result", "system"})
# What a person typed; the tool itself speaks in the user's place under other names.
_TYPED = frozenset({"", "mid_turn_user_message", "realtime_message"})
_REMINDER = re.compile(r"\s*<system-reminder>")


def _is_record(record: Record) -> bool:
    if text(record.get("type")) not in _TYPES or "sessionId" not in record:
        return False
    return "parts" in mapping(record.get("message")) or "systemPayload" in record


class _QwenChat(SessionLog):
    tool = "qwen"
    id_member = "uuid"

    def __init__(self, source: Source, name: str) -> None:
        super().__init__(source, name)
        self._pairing = Pairing()
        self._parent: str | None = None
        nodes = [_node(r) for _, r in self._lines if isinstance(r.get("uuid"), str)]
        self._strays = left_behind(nodes, joined_roots=True)

    def _about(self) -> dict[str, Any]:
        return {
            "foreign_id": self._first("sessionId") or stem(self._name),
            "title": self._title,
            "cwd": self._first("cwd"),
            "parent": self._parent,
            "version": self._first("version"),
        }

    def _tell(self, record: Record, entry: SourceEntry) -> None:
        kind = record.get("type")
        content = member(record, "message", "parts")
        entry.kind = text(record.get("subtype")) or text(kind) or None
        if kind == "user" and text(record.get("subtype")) in _TYPED:
            blocks = said_by_user(content)
            entry.user([b for b in blocks if not _REMINDER.match(text(b.get("text")))])
        elif kind == "assistant":
            tell_model_parts(content, record.get("model"), self._pairing, entry)
            entry.usage(rename_figures(record.get("usageMetadata"), USAGE), record.get("model"))
        elif kind == "tool_result":
            outcome = mapping(record.get("toolCallResult"))
            failed = True if text(outcome.get("status")) in FAILED else None
            told = tell_responses(content, self._pairing, entry, is_error=failed)
            if not told and first_text(outcome.get("callId")):
                entry.result(outcome["callId"], outcome.get("resultDisplay"), is_error=failed is True)
        elif kind == "system":
            self._title = first_text(member(record, "systemPayload", "customTitle"), self._title)
            self._parent = first_text(member(record, "systemPayload", "parentSessionId"), self._parent)


def _node(record: Record) -> TreeNode:
    parts = parts_of(member(record, "message", "parts"))
    calls = (member(part, "functionCall", "id") for part in parts)
    answers = (member(part, "functionResponse", "id") for part in parts)
    return TreeNode(
        record["uuid"],
        first_text(record.get("parentUuid")),
        calls=texts(calls),
        answers=texts(answers),
        is_talk=record.get("type") != "system",
    )


READER = ToolReader(
    _QwenChat.tool,
    (".qwen/projects/*/chats/*.jsonl", ".qwen/tmp/*/chats/*.jsonl"),
    (".jsonl", has_record(_is_record), _QwenChat.sessions),
    homes={"QWEN_HOME": ".qwen"},
)
