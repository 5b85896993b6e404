"""Gemini CLI: a log of messages and of changes to them; before that, one JSON document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from holdfast.formats._foreign import Foreign, read_time
from holdfast.formats._source import Source
from holdfast.formats.readers._book import Book, SourceEntry
from holdfast.formats.readers._files import any_of, first_records, names_of, records, stem
from holdfast.formats.readers._gemini_parts import (
    Pairing,
    parts_of,
    said_by_user,
    tell_model_parts,
    tell_responses,
)
from holdfast.formats.readers._shape import (
    block_text,
    first_text,
    items,
    look,
    mapping,
    open_document,
    rename_figures,
    text,
)

__all__ = ["READER", "GeminiCli"]

Record = dict[str, Any]

_CONTEXT = re.compile(
    r"\s*(?:<session_context>|<system-reminder>|This is the Gemini CLI\. We are setting up the)"
)
_CWD = re.compile(
    r"Workspace Directories:\*\*\s*\n\s*- (/[^\n]*)|working in the directory: (/[^\n]*)"
)
_MODEL_TYPES = frozenset({"gemini", "model", "qwen"})
_TYPES = _MODEL_TYPES | {"user", "info", "error", "warning"}
_FAILED = frozenset({"error", "cancelled"})
_USAGE = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cached": "cache_read_tokens",
    "total": "total_tokens",
}


class GeminiCli:
    """Reads ``~/.gemini/tmp/*/chats/session-*.jsonl`` and the ``.json`` of earlier versions."""

    tool = "gemini-cli"
    places = (".gemini/tmp/*/chats/session-*.jsonl", ".gemini/tmp/*/chats/session-*.json")

    def claims(self, source: Source) -> bool:
        """Whether a file has a head, messages or changes as Gemini CLI writes them."""
        return any_of(source, ".jsonl", _is_log) or any_of(source, ".json", _is_document)

    def read(self, source: Source) -> Iterator[Foreign]:
        """Each file is a session."""
        documents = names_of(source, ".json", _is_document)
        for name in names_of(source, ".jsonl", _is_log):
            if name in documents:
                continue
            chat = _Chat(source, name)
            lines = list(records(source, name, chat.book.problems))
            for _, record in lines:
                chat.foresee(record)
            for line, record in lines:
                chat.take(line, record)
            yield chat.foreign()
        for name in documents:
            chat = _Chat(source, name)
            chat.take_document(open_document(source, name, chat.book.problems))
            yield chat.foreign()


def _is_log(source: Source, name: str) -> bool:
    found = first_records(source, name)
    return any(_is_head(r) or isinstance(r.get("$set"), dict) for r in found) or any(
        _is_message(r) for r in found
    )


def _is_head(record: Record) -> bool:
    return "sessionId" in record and "projectHash" in record


def _is_message(record: Record) -> bool:
    """A message of a log whose head is lost; other tools' messages have other members as well."""
    mine = {"id", "timestamp", "type", "content"} <= record.keys()
    return (
        mine
        and text(record["type"]) in _TYPES
        and not {"sessionId", "message", "data"} & record.keys()
    )


def _is_document(source: Source, name: str) -> bool:
    value = mapping(look(source, name, b'"projectHash"'))
    dated = "projectHash" in value or "startTime" in value
    return isinstance(value.get("messages"), list) and "sessionId" in value and dated


class _Chat:
    """One session. Messages come again as they grow; each piece is written down where it is new."""

    def __init__(self, source: Source, name: str) -> None:
        self.book = Book(GeminiCli.tool)
        self._name = name
        self._folder = source.only(name).folder
        self._about: Record = {}
        self._cwd: str | None = None
        self._pairing = Pairing()
        self._places: dict[str, int] = {}
        self._rewinds = 0
        self._last_words: dict[str, Any] = {}

    def foresee(self, record: Record) -> None:
        """Look at a line ahead: of what a message says its last version counts."""
        messages = [record, *items(record.get("messages"))]
        messages += items(mapping(record.get("$set")).get("messages"))
        for message in map(mapping, messages):
            content, id = message.get("content"), message.get("id")
            if isinstance(id, str) and said_by_user(content):
                self._last_words[id] = content

    def take(self, line: bytes, record: Record) -> None:
        """One line of the log."""
        if isinstance(record.get("$rewindTo"), str):
            with self.book.entry(line) as entry:
                entry.kind = "rewind"
            self._rewind(record["$rewindTo"])
        elif isinstance(record.get("$set"), dict):
            self._take_changes(line, record["$set"])
        elif isinstance(record.get("id"), str) and text(record.get("type")) in _TYPES:
            self._take_message(line, record)
        else:
            self._take_changes(line, record)

    def take_document(self, value: Any) -> None:
        """The one document of earlier versions."""
        about = mapping(value)
        self._about = {name: about[name] for name in about if name != "messages"}
        for message in items(about.get("messages")):
            self._take_message(message, mapping(message))

    def foreign(self) -> Foreign:
        """The session."""
        about = self._about
        is_child = about.get("kind") == "subagent" and self._folder != "chats"
        return self.book.foreign(
            first_text(about.get("sessionId")) or stem(self._name),
            title=first_text(about.get("summary")),
            cwd=first_text(*items(about.get("directories")), self._cwd),
            parent=first_text(about.get("parentSessionId"), self._folder if is_child else None),
            created_at=read_time(about.get("startTime")) or self.book.first_stamp,
        )

    def _take_changes(self, line: bytes, changes: Record) -> None:
        start = self._about.get("startTime")  # the head may come again
        self._about |= {name: changes[name] for name in changes if name != "messages"}
        self._about["startTime"] = start or self._about.get("startTime")
        stamp = read_time(changes.get("lastUpdated") or changes.get("startTime"))
        with self.book.entry(line, stamp) as entry:
            entry.kind = "change"
        for message in items(changes.get("messages")):
            # The whole history comes again when a session is taken up.
            known = text(mapping(message).get("id")) in self._places
            self._take_message(message, mapping(message), again=known)

    def _take_message(self, raw: Any, message: Record, *, again: bool = False) -> None:
        id = text(message.get("id")) or None
        if id is not None:
            self._places.setdefault(id, len(self.book.drafts))
        if id in self._last_words and said_by_user(message.get("content")):
            message = {**message, "content": self._last_words[id]}
        stamp = read_time(message.get("timestamp"))
        with self.book.entry(raw, stamp, id, again=again) as entry:
            self._tell(message, entry)

    def _tell(self, message: Record, entry: SourceEntry) -> None:
        kind, content = text(message.get("type")), message.get("content")
        entry.kind = kind or None
        if kind == "user":
            self._tell_user(content, entry)
        elif kind in _MODEL_TYPES:
            self._tell_model(message, content, entry)

    def _tell_user(self, content: Any, entry: SourceEntry) -> None:
        said = []
        for block in said_by_user(content):
            words = text(block.get("text"))
            if _CONTEXT.match(words):
                entry.kind = "context"
                place = _CWD.search(words)
                self._cwd = self._cwd or (first_text(*place.groups()) if place else None)
            else:
                said.append(block)
        tell_responses(content, self._pairing, entry)
        entry.user(said, f"{entry.key}/said")

    def _tell_model(self, message: Record, content: Any, entry: SourceEntry) -> None:
        model = message.get("model")
        for number, thought in enumerate(items(message.get("thoughts"))):
            subject = text(mapping(thought).get("subject"))
            about = text(mapping(thought).get("description"))
            words = "\n\n".join(filter(None, [f"**{subject}**" if subject else "", about]))
            entry.thinking(words, key=f"{entry.key}/thought/{number}")
        calls = [mapping(call) for call in items(message.get("toolCalls"))]
        parts = parts_of(content)
        if calls:  # they stand in the content again once a session is taken up
            parts = [part for part in parts if "functionCall" not in part]
        if said_by_user(parts) and not self.book.claim(f"{entry.key}/content"):
            parts = [part for part in parts if "functionCall" in part]
        tell_model_parts(parts, model, self._pairing, entry)
        named = [(self._pairing.call_id(call), call) for call in calls]
        for id, call in named:
            entry.call(id, call.get("name"), call.get("args"))
        for id, call in named:
            self._tell_result(id, call, entry)
        figures = rename_figures(message.get("tokens"), _USAGE)
        entry.usage(figures, model, f"{entry.key}/usage")

    def _tell_result(self, id: str, call: Record, entry: SourceEntry) -> None:
        failed = text(call.get("status")) in _FAILED
        parts = parts_of(call.get("result"))
        responses = [mapping(part.get("functionResponse")) for part in parts]
        for response in filter(None, responses):
            own = {"functionResponse": response | {"id": id}}
            tell_responses(own, self._pairing, entry, is_error=True if failed else None)
        if parts and not any(responses):
            entry.result(id, block_text(parts) or call["result"], is_error=failed)

    def _rewind(self, id: str) -> None:
        """That message and all after it were taken back; an unknown one takes back everything."""
        self._rewinds += 1
        self.book.set_aside(self._places.get(id, 0), f"rewound-{self._rewinds}")


READER = GeminiCli()
