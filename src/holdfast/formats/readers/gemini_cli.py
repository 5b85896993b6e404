"""Gemini CLI: a log of messages and of changes to them; before that, one JSON document."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Any

from holdfast.formats._foreign import Foreign, read_time
from holdfast.formats._source import Source
from holdfast.formats.readers import _files as files
from holdfast.formats.readers import _values as v
from holdfast.formats.readers._book import Book, SourceEntry

_TOOL = "gemini-cli"
_CONTEXT = re.compile(r"\s*(?:<session_context>|<system-reminder>|This is the Gemini CLI\. We are setting up the)")
_CWD = re.compile(r"Workspace Directories:\*\*\s*\n\s*- (/[^\n]*)|working in the directory: (/[^\n]*)")
_MODEL_TYPES = frozenset({"gemini", "model", "qwen"})
_TYPES = _MODEL_TYPES | {"user", "info", "error", "warning"}
FAILED = frozenset({"error", "cancelled"})
_USAGE = {"input": "input_tokens", "output": "output_tokens", "cached": "cache_read_tokens", "total": "total_tokens"}


def _is_line(record: files.Record) -> bool:
    if {"sessionId", "projectHash"} <= record.keys() or isinstance(record.get("$set"), dict):
        return True
    # A message of a log whose head is lost; other tools' messages have other members as well.
    mine = {"id", "timestamp", "type", "content"} <= record.keys()
    return mine and v.text(record["type"]) in _TYPES and not {"sessionId", "message", "data"} & record.keys()


def _is_document(value: files.Record) -> bool:
    dated = "projectHash" in value or "startTime" in value
    return isinstance(value.get("messages"), list) and "sessionId" in value and dated


def _read_log(source: Source, name: str, problems: list[str]) -> Iterator[Foreign]:
    chat = _Chat(source, name, problems)
    lines = list(files.records(source, name, problems))
    for _, record in lines:
        chat.foresee(record)
    for line, record in lines:
        chat.take(line, record)
    yield chat.foreign()


def _read_document(source: Source, name: str, problems: list[str]) -> Iterator[Foreign]:
    chat = _Chat(source, name, problems)
    chat.take_document(files.open_document(source, name, problems))
    yield chat.foreign()


class _Chat:
    """One session. Messages are repeated as they grow; each piece is added where it is new."""

    def __init__(self, source: Source, name: str, problems: list[str]) -> None:
        self.book = Book(_TOOL, problems)
        self._name = name
        self._folder = source.only(name).folder
        self._about: files.Record = {}
        self._cwd: str | None = None
        self._pairing = Pairing()
        self._places: dict[str, int] = {}
        self._rewinds = 0
        self._last_words: dict[str, Any] = {}

    def foresee(self, record: files.Record) -> None:
        """Read a line ahead: of a message its last version counts."""
        messages = [record, *v.items(record.get("messages")), *v.items(v.member(record, "$set", "messages"))]
        for message in map(v.mapping, messages):
            content, id = message.get("content"), message.get("id")
            # A message is written again each time it grows; only the last version is whole.
            if isinstance(id, str) and said_by_user(content):
                self._last_words[id] = content

    def take(self, line: bytes, record: files.Record) -> None:
        if isinstance(record.get("$rewindTo"), str):
            self.book.note(line, "rewind")
            self._rewinds += 1
            # That message and all after it stay recorded, in a run of their own; an unknown one takes back everything.
            self.book.set_aside(self._places.get(record["$rewindTo"], 0), f"rewound-{self._rewinds}")
        elif isinstance(record.get("$set"), dict):
            self._take_changes(line, record["$set"])
        elif isinstance(record.get("id"), str) and v.text(record.get("type")) in _TYPES:
            self._take_message(line, record)
        else:
            self._take_changes(line, record)

    def take_document(self, value: Any) -> None:
        about = v.mapping(value)
        self._about = {name: about[name] for name in about if name != "messages"}
        for message in v.items(about.get("messages")):
            self._take_message(message, v.mapping(message))

    def foreign(self) -> Foreign:
        about = self._about
        is_child = about.get("kind") == "subagent" and self._folder != "chats"
        return self.book.foreign(
            v.first_text(about.get("sessionId")) or files.stem(self._name),
            title=v.first_text(about.get("summary")),
            cwd=v.first_text(*v.items(about.get("directories")), self._cwd),
            parent=v.first_text(about.get("parentSessionId"), self._folder if is_child else None),
            created_at=read_time(about.get("startTime")),
        )

    def _take_changes(self, line: bytes, changes: files.Record) -> None:
        start = self._about.get("startTime")  # the head may come again
        self._about |= {name: changes[name] for name in changes if name != "messages"}
        self._about["startTime"] = start or self._about.get("startTime")
        self.book.note(line, "change", read_time(changes.get("lastUpdated") or changes.get("startTime")))
        for message in v.items(changes.get("messages")):
            # The whole history comes again when a session is taken up.
            known = v.text(v.member(message, "id")) in self._places
            self._take_message(message, v.mapping(message), again=known)

    def _take_message(self, raw: Any, message: files.Record, *, again: bool = False) -> None:
        id = v.text(message.get("id")) or None
        if id is not None:
            self._places.setdefault(id, len(self.book.drafts))
        if id in self._last_words and said_by_user(message.get("content")):
            message = {**message, "content": self._last_words[id]}
        with self.book.entry(raw, read_time(message.get("timestamp")), id, again=again) as entry:
            kind = v.text(message.get("type"))
            entry.kind = kind or None
            if kind == "user":
                self._tell_user(message.get("content"), entry)
            elif kind in _MODEL_TYPES:
                self._tell_model(message, entry)

    def _tell_user(self, content: Any, entry: SourceEntry) -> None:
        said = []
        for block in said_by_user(content):
            words = v.text(block.get("text"))
            if _CONTEXT.match(words):
                entry.kind = "context"
                place = _CWD.search(words)
                self._cwd = self._cwd or (v.first_text(*place.groups()) if place else None)
            else:
                said.append(block)
        tell_responses(content, self._pairing, entry)
        entry.user(said, f"{entry.key}/said")

    def _tell_model(self, message: files.Record, entry: SourceEntry) -> None:
        model = message.get("model")
        for number, thought in enumerate(v.items(message.get("thoughts"))):
            subject = v.text(v.member(thought, "subject"))
            about = v.text(v.member(thought, "description"))
            words = "\n\n".join(filter(None, [f"**{subject}**" if subject else "", about]))
            entry.thinking(words, key=f"{entry.key}/thought/{number}")
        calls = [v.mapping(call) for call in v.items(message.get("toolCalls"))]
        parts = parts_of(message.get("content"))
        if calls:  # they are repeated in the content once a session is resumed
            parts = [part for part in parts if "functionCall" not in part]
        if said_by_user(parts) and not self.book.claim(f"{entry.key}/content"):
            parts = [part for part in parts if "functionCall" in part]
        tell_model_parts(parts, model, self._pairing, entry)
        named = [(self._pairing.call_id(call), call) for call in calls]
        for id, call in named:
            entry.call(id, call.get("name"), call.get("args"))
        for id, call in named:
            self._tell_result(id, call, entry)
        entry.usage(v.rename_figures(message.get("tokens"), _USAGE), model, f"{entry.key}/usage")

    def _tell_result(self, id: str, call: files.Record, entry: SourceEntry) -> None:
        failed = v.text(call.get("status")) in FAILED
        parts = parts_of(call.get("result"))
        responses = [v.mapping(part.get("functionResponse")) for part in parts]
        for response in filter(None, responses):
            own = {"functionResponse": response | {"id": id}}
            tell_responses(own, self._pairing, entry, is_error=True if failed else None)
        if parts and not any(responses):
            entry.result(id, v.block_text(parts) or call["result"], is_error=failed)


READER = files.ToolReader(
    _TOOL,
    (".json", files.has_document(b'"projectHash"', _is_document), files.one_by_one(_read_document)),
    (".jsonl", files.has_record(_is_line), files.one_by_one(_read_log)),
)

# The parts of Gemini's messages, which two tools keep.
Part = dict[str, Any]

USAGE = {
    "promptTokenCount": "input_tokens",
    "candidatesTokenCount": "output_tokens",
    "cachedContentTokenCount": "cache_read_tokens",
    "totalTokenCount": "total_tokens",
}


class Pairing:
    """Gives calls without an id one, and each response the id of its call."""

    def __init__(self) -> None:
        self._open: dict[str, deque[str]] = {}
        self._count = 0

    def call_id(self, call: Part) -> str:
        """Return the id of a call."""
        named = v.first_text(call.get("id"))
        if named is None:
            self._count += 1
            named = f"{v.text(call.get('name')) or 'call'}-{self._count}"
            self._open.setdefault(v.text(call.get("name")), deque()).append(named)
        return named

    def response_id(self, response: Part) -> str:
        """Return the id of the call that a response answers: the oldest open one of that tool."""
        waiting = self._open.get(v.text(response.get("name")))
        return v.first_text(response.get("id")) or (waiting.popleft() if waiting else "unknown")


def parts_of(content: Any) -> list[Part]:
    """Return a content as parts: it may be a text, one part or several."""
    found = [content] if isinstance(content, (str, dict)) else v.items(content)
    return [{"text": part} if isinstance(part, str) else v.mapping(part) for part in found]


def said_by_user(content: Any) -> list[Part]:
    """Return the blocks of a user's message: words and images."""
    return v.blocks(
        *(
            v.text_block(part["text"])
            if isinstance(part.get("text"), str) and part.get("thought") is not True
            else v.image_block(v.member(part, "inlineData", "mimeType"), v.member(part, "inlineData", "data"))
            for part in parts_of(content)
        )
    )


def tell_model_parts(content: Any, model: Any, pairing: Pairing, entry: SourceEntry) -> None:
    """Add a model's message: thoughts, words and calls."""
    words = ""
    for part in parts_of(content):
        call = v.mapping(part.get("functionCall"))
        if isinstance(part.get("text"), str) and part.get("thought") is not True:
            words += part["text"]
            continue
        entry.assistant(words, model)
        words = ""
        if isinstance(part.get("text"), str):
            entry.thinking(part["text"])
        elif call:
            signature = part.get("thoughtSignature")
            entry.call(pairing.call_id(call), call.get("name"), call.get("args"), signature)
    entry.assistant(words, model)


def tell_responses(content: Any, pairing: Pairing, entry: SourceEntry, *, is_error: bool | None = None) -> bool:
    """Add the tools' results in a message; return whether there are any."""
    found = [v.mapping(part.get("functionResponse")) for part in parts_of(content)]
    for response in filter(None, found):
        given = response.get("response")
        names = v.mapping(given).keys()
        result = v.member(given, *names) if names in ({"output"}, {"error"}) else given
        failed = names == {"error"} or bool(v.member(given, "error"))
        entry.result(pairing.response_id(response), result, is_error=failed if is_error is None else is_error)
    return any(found)
