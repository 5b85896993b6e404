"""GitHub Copilot CLI: a log of events for each session."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.formats._foreign import read_time, refusal_of
from holdfast.formats._source import Source
from holdfast.formats.readers._book import SessionLog, SourceEntry
from holdfast.formats.readers._files import Record, ToolReader, has_record, stem
from holdfast.formats.readers._values import (
    UUID,
    as_json,
    blocks,
    first_text,
    image_block,
    items,
    mapping,
    member,
    rename_figures,
    text,
    text_block,
)

_FAMILIES = ("session.", "user.", "assistant.", "tool.", "subagent.", "system.", "permission.")
_VERSION = 1
_USAGE = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadTokens": "cache_read_tokens",
    "cacheWriteTokens": "cache_write_tokens",
    "cost": "cost",
}
_WORKSPACE = "workspace.yaml"
_NAME = re.compile(r"^(?:name|title|summary):[ \t]*[\"']?([^\n]*?)[\"']?[ \t]*$", re.MULTILINE)


def _is_mine(record: Record) -> bool:
    is_event = text(record.get("type")).startswith(_FAMILIES) and "seq" not in record
    return is_event and isinstance(record.get("data"), dict)


class _Log(SessionLog):
    tool = "copilot-cli"

    def __init__(self, source: Source, name: str) -> None:
        # What lies beside it, the workspace, is found by its name alone.
        source = source.only(name)
        super().__init__(source, source.name)
        self._places: dict[str, int] = {}
        self._start: Record = {}
        self._model: str | None = None
        self._thought: Any = None
        self._rewinds = 0

    def _stamp(self, record: Record) -> int | None:
        return read_time(record.get("timestamp", record.get("ts")))

    def _run(self, record: Record) -> str | None:
        """The run of a sub-agent: it is named by the call that started it."""
        parent = first_text(member(record, "data", "parentToolCallId"), record.get("agentId"))
        return f"agent-{parent}" if parent else None

    def _about(self) -> dict[str, Any]:
        start, context = self._start, mapping(self._start.get("context"))
        named = UUID.search(self._source.folder) or UUID.search(stem(self._name))
        own = first_text(start.get("sessionId"), named[0] if named else None)
        return {
            "foreign_id": own or stem(self._name),
            "title": self._title or self._workspace_name(),
            "cwd": first_text(context.get("cwd")),
            "parent": first_text(start.get("forkedFromSessionId"), context.get("parentSessionId")),
            "version": first_text(start.get("copilotVersion")),
            "created_at": read_time(start.get("startTime")),
            "refusal": refusal_of(self._name, self.tool, start.get("version"), _VERSION),
        }

    def _workspace_name(self) -> str | None:
        with suppress(HoldfastError):
            if self._source.has(_WORKSPACE):
                return first_text(*_NAME.findall(self._source.read(_WORKSPACE, 64 * 1024).decode("utf-8", "replace")))
        return None

    def _tell(self, record: Record, entry: SourceEntry) -> None:
        kind, data = text(record.get("type")), mapping(record.get("data"))
        self._places[self._key(record) or ""] = len(self._book.drafts)
        entry.kind = kind or None
        if kind == "user.message":
            origin = text(data.get("source"))
            given = (
                image_block(member(one, "mimeType"), member(one, "data")) for one in items(data.get("attachments"))
            )
            if origin in {"", "user", "queued", "steering"}:
                entry.user([text_block(data.get("content")), *blocks(*given)])
            else:
                entry.kind = origin
        elif kind == "assistant.message":
            self._tell_assistant(data, entry)
        elif kind in {"assistant.reasoning", "assistant.thinking"}:
            self._tell_thought(data.get("content"), entry)
        elif kind.startswith("tool."):
            _tell_tool(kind, data, entry)
        else:
            self._note(kind, data, entry)

    def _note(self, kind: str, data: Record, entry: SourceEntry) -> None:
        if kind == "session.start" and not self._start:
            self._start = data
        elif kind == "session.title_changed":
            self._title = first_text(data.get("title")) or self._title
        elif kind == "session.model_change":
            self._model = first_text(data.get("newModel")) or self._model
        elif kind in {"session.usage_record", "assistant.usage"}:
            figures = mapping(data.get("usage")) or data
            entry.usage(rename_figures(figures, _USAGE), first_text(figures.get("model"), self._model))
        elif kind == "session.snapshot_rewind" and text(data.get("upToEventId")) in self._places:
            self._rewinds += 1
            # That event and all after it were taken back.
            self._book.set_aside(self._places[data["upToEventId"]], f"rewound-{self._rewinds}")

    def _tell_assistant(self, data: Record, entry: SourceEntry) -> None:
        self._tell_thought(data.get("reasoningText"), entry)
        entry.assistant(data.get("content"), first_text(data.get("model"), self._model))
        for request in map(mapping, items(data.get("toolRequests"))):
            id = first_text(request.get("toolCallId"), request.get("id")) or entry.key
            name = first_text(request.get("name"), request.get("toolName"))
            entry.call(id, name, as_json(request.get("arguments")))

    def _tell_thought(self, words: Any, entry: SourceEntry) -> None:
        """A thought; the same may come by itself and with the message."""
        # Versions differ in whether a thought is an event, a member of the message, or both.
        if words != self._thought:
            entry.thinking(text(words))
            self._thought = words


def _tell_tool(kind: str, data: Record, entry: SourceEntry) -> None:
    id = first_text(data.get("toolCallId"))
    if id is None:
        return
    if kind == "tool.execution_start":
        entry.call(id, data.get("toolName"), as_json(data.get("arguments")))
    elif kind == "tool.execution_complete":
        result = mapping(data.get("result"))
        given = first_text(result.get("content"), result.get("detailedContent"))
        shown = given if given is not None else mapping(data.get("error")).get("message", data.get("result"))
        entry.result(id, shown, is_error=data.get("success") is False)


READER = ToolReader(
    _Log.tool,
    (".copilot/session-state/*/events.jsonl", ".copilot/session-state/*.jsonl"),
    (".jsonl", has_record(_is_mine), _Log.sessions),
    homes={"COPILOT_HOME": ".copilot"},
)
