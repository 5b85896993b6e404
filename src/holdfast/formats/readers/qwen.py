"""Qwen Code: a tree of records like Claude Code's, with the parts of Gemini in them."""

from __future__ import annotations

import re
from typing import Any

from holdfast.formats._source import Source
from holdfast.formats.readers import _values as v
from holdfast.formats.readers import gemini_cli
from holdfast.formats.readers._book import SessionLog, SourceEntry, TreeNode, left_behind
from holdfast.formats.readers._files import Record, ToolReader, has_record, stem

_TYPES = frozenset({"user", "assistant", "tool_result", "system"})
# What a person typed; the tool itself speaks in the user's place under other names.
_TYPED = frozenset({"", "mid_turn_user_message", "realtime_message"})
_REMINDER = re.compile(r"\s*<system-reminder>")


def _is_record(record: Record) -> bool:
    if v.text(record.get("type")) not in _TYPES or "sessionId" not in record:
        return False
    return "parts" in v.mapping(record.get("message")) or "systemPayload" in record


class _QwenChat(SessionLog):
    tool = "qwen"
    id_member = "uuid"

    def __init__(self, source: Source, name: str) -> None:
        super().__init__(source, name)
        self._pairing = gemini_cli.Pairing()
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
        content = v.member(record, "message", "parts")
        entry.kind = v.text(record.get("subtype")) or v.text(kind) or None
        if kind == "user" and v.text(record.get("subtype")) in _TYPED:
            blocks = gemini_cli.said_by_user(content)
            entry.user([b for b in blocks if not _REMINDER.match(v.text(b.get("text")))])
        elif kind == "assistant":
            gemini_cli.tell_model_parts(content, record.get("model"), self._pairing, entry)
            entry.usage(v.rename_figures(record.get("usageMetadata"), gemini_cli.USAGE), record.get("model"))
        elif kind == "tool_result":
            outcome = v.mapping(record.get("toolCallResult"))
            failed = True if v.text(outcome.get("status")) in gemini_cli.FAILED else None
            told = gemini_cli.tell_responses(content, self._pairing, entry, is_error=failed)
            if not told and v.first_text(outcome.get("callId")):
                entry.result(outcome["callId"], outcome.get("resultDisplay"), is_error=failed is True)
        elif kind == "system":
            self._title = v.first_text(v.member(record, "systemPayload", "customTitle"), self._title)
            self._parent = v.first_text(v.member(record, "systemPayload", "parentSessionId"), self._parent)


def _node(record: Record) -> TreeNode:
    parts = gemini_cli.parts_of(v.member(record, "message", "parts"))
    calls = (v.member(part, "functionCall", "id") for part in parts)
    answers = (v.member(part, "functionResponse", "id") for part in parts)
    return TreeNode(
        record["uuid"],
        v.first_text(record.get("parentUuid")),
        calls=v.texts(calls),
        answers=v.texts(answers),
        is_talk=record.get("type") != "system",
    )


READER = ToolReader(_QwenChat.tool, (".jsonl", has_record(_is_record), _QwenChat.sessions))
