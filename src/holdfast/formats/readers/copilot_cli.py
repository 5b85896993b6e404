"""GitHub Copilot CLI: a log of events for each session."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.formats._foreign import read_time, refusal_of
from holdfast.formats._source import Source
from holdfast.formats.readers import _values as v
from holdfast.formats.readers._book import SessionLog, SourceEntry
from holdfast.formats.readers._files import Record, ToolReader, has_record, stem

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
    is_event = v.text(record.get("type")).startswith(_FAMILIES) and "seq" not in record
    return is_event and isinstance(record.get("data"), dict)


class _Log(SessionLog):
    tool = "copilot-cli"

    def __init__(self, source: Source, name: str) -> None:
        # The workspace beside it is found by its name alone.
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
        """Return the run of a sub-agent, which is named by the call that started it."""
        parent = v.first_text(v.member(record, "data", "parentToolCallId"), record.get("agentId"))
        return f"agent-{parent}" if parent else None

    def _about(self) -> dict[str, Any]:
        start, context = self._start, v.mapping(self._start.get("context"))
        named = v.UUID.search(self._source.folder) or v.UUID.search(stem(self._name))
        own = v.first_text(start.get("sessionId"), named[0] if named else None)
        return {
            "foreign_id": own or stem(self._name),
            "title": self._title or self._workspace_name(),
            "cwd": v.first_text(context.get("cwd")),
            "parent": v.first_text(start.get("forkedFromSessionId"), context.get("parentSessionId")),
            "version": v.first_text(start.get("copilotVersion")),
            "created_at": read_time(start.get("startTime")),
            "refusal": refusal_of(self._name, self.tool, start.get("version"), _VERSION),
        }

    def _workspace_name(self) -> str | None:
        with suppress(HoldfastError):
            if self._source.has(_WORKSPACE):
                return v.first_text(*_NAME.findall(self._source.read(_WORKSPACE, 64 * 1024).decode("utf-8", "replace")))
        return None

    def _tell(self, record: Record, entry: SourceEntry) -> None:
        kind, data = v.text(record.get("type")), v.mapping(record.get("data"))
        self._places[self._key(record) or ""] = len(self._book.drafts)
        entry.kind = kind or None
        if kind == "user.message":
            origin = v.text(data.get("source"))
            given = (
                v.image_block(v.member(one, "mimeType"), v.member(one, "data"))
                for one in v.items(data.get("attachments"))
            )
            if origin in {"", "user", "queued", "steering"}:
                entry.user([v.text_block(data.get("content")), *v.blocks(*given)])
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
            self._title = v.first_text(data.get("title")) or self._title
        elif kind == "session.model_change":
            self._model = v.first_text(data.get("newModel")) or self._model
        elif kind in {"session.usage_record", "assistant.usage"}:
            figures = v.mapping(data.get("usage")) or data
            entry.usage(v.rename_figures(figures, _USAGE), v.first_text(figures.get("model"), self._model))
        elif kind == "session.snapshot_rewind" and v.text(data.get("upToEventId")) in self._places:
            self._rewinds += 1
            # That event and all after it were taken back.
            self._book.set_aside(self._places[data["upToEventId"]], f"rewound-{self._rewinds}")

    def _tell_assistant(self, data: Record, entry: SourceEntry) -> None:
        self._tell_thought(data.get("reasoningText"), entry)
        entry.assistant(data.get("content"), v.first_text(data.get("model"), self._model))
        for request in map(v.mapping, v.items(data.get("toolRequests"))):
            id = v.first_text(request.get("toolCallId"), request.get("id")) or entry.key
            name = v.first_text(request.get("name"), request.get("toolName"))
            entry.call(id, name, v.as_json(request.get("arguments")))

    def _tell_thought(self, words: Any, entry: SourceEntry) -> None:
        """Add a thought; the same may come by itself and with the message."""
        # Versions differ in whether a thought is an event, a member of the message, or both.
        if words != self._thought:
            entry.thinking(v.text(words))
            self._thought = words


def _tell_tool(kind: str, data: Record, entry: SourceEntry) -> None:
    id = v.first_text(data.get("toolCallId"))
    if id is None:
        return
    if kind == "tool.execution_start":
        entry.call(id, data.get("toolName"), v.as_json(data.get("arguments")))
    elif kind == "tool.execution_complete":
        result = v.mapping(data.get("result"))
        given = v.first_text(result.get("content"), result.get("detailedContent"))
        shown = given if given is not None else v.mapping(data.get("error")).get("message", data.get("result"))
        entry.result(id, shown, is_error=data.get("success") is False)


READER = ToolReader(_Log.tool, (".jsonl", has_record(_is_mine), _Log.sessions))
