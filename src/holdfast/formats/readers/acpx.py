"""acpx: a JSON snapshot for each session, and beside it the frames that went over the wire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.formats._foreign import Foreign, read_time, refusal_of
from holdfast.formats._source import Source
from holdfast.formats.readers._book import Book, SourceEntry
from holdfast.formats.readers._files import any_of, first_records, names_of, records, stem
from holdfast.formats.readers._shape import (
    block_text,
    data_url_block,
    first_text,
    image_block,
    items,
    json_value,
    look,
    mapping,
    open_document,
    rename_figures,
    text,
)

__all__ = ["READER", "Acpx"]

Record = dict[str, Any]

_STREAM = ".stream."
_VERSION = 1
_USAGE = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cache_read_input_tokens",
    "cache_creation_input_tokens": "cache_creation_input_tokens",
}


class Acpx:
    """Reads ``~/.acpx/sessions``: the snapshots and, where there is none, the frames."""

    tool = "acpx"
    places = (".acpx/sessions",)

    def claims(self, source: Source) -> bool:
        """Whether it holds a snapshot or frames as acpx writes them."""
        return any_of(source, ".json", _is_snapshot) or any_of(source, ".ndjson", _is_stream)

    def read(self, source: Source) -> Iterator[Foreign]:
        """Each snapshot is a session, and so are frames without one, however many files they fill.

        Frames that are given by themselves stand for the snapshot beside them, if there is one.
        """
        told = names_of(source, ".json", _is_snapshot)
        for name in told:
            yield _open_snapshot(source, name)
        parts: dict[str, list[str]] = {}
        for name in names_of(source, ".ndjson", _is_stream):
            if name not in told:
                parts.setdefault(name.partition(_STREAM)[0], []).append(name)
        for base, names in parts.items():
            snapshot = f"{base}.json"
            if snapshot not in told and not (
                source.has(snapshot) and _is_snapshot(source, snapshot)
            ):
                yield _read_stream(source, sorted(names, key=_age), base)
                continue
            for name in names:
                source.leave(name)
            if snapshot not in told:
                yield _open_snapshot(source, snapshot)


def _age(name: str) -> int:
    """The place of a part among the frames of a session: the higher its number, the older it is."""
    number = name.rpartition(_STREAM)[2].partition(".")[0]
    return -int(number) if number.isdecimal() else 0


def _open_snapshot(source: Source, name: str) -> Foreign:
    problems: list[str] = []
    value = mapping(open_document(source, name, problems))
    return _read_snapshot(value, stem(name), problems)


def _is_snapshot(source: Source, name: str) -> bool:
    value = mapping(look(source, name, b'"acpx_record_id"'))
    return "acpx_record_id" in value or {"acpxRecordId", "acpSessionId"} <= value.keys()


def _is_stream(source: Source, name: str) -> bool:
    return any(
        "jsonrpc" in record or (text(record.get("schema")).startswith("acpx.") and "type" in record)
        for record in first_records(source, name)
    )


def _read_stream(source: Source, names: list[str], base: str) -> Foreign:
    book = Book(Acpx.tool)
    frames = Frames(book)
    for name in names:
        for line, record in records(source, name, book.problems):
            frames.take(line, record)
    frames.finish()
    return book.foreign(stem(f"{base}.x"), cwd=frames.cwd)


def _read_snapshot(session: Record, own: str, problems: list[str]) -> Foreign:
    book = Book(Acpx.tool, problems)
    created = read_time(_either(session, "created_at", "createdAt"))
    about = {name: value for name, value in session.items() if name != "messages"}
    with book.entry(about, created, "session") as entry:
        entry.kind = "session"
    turn, count = "start", 0
    model = mapping(session.get("acpx")).get("current_model_id")
    costs = mapping(_either(session, "request_token_usage", "requestTokenUsage"))
    for message in items(session.get("messages")):
        user, agent = (mapping(mapping(message).get(who)) for who in ("User", "Agent"))
        if user:
            turn, count = first_text(user.get("id")) or f"{turn}+", 0
        count += 1
        with book.entry(message, key=f"{turn}/{count}") as entry:
            _tell_user(user, entry)
            _tell_agent(agent, model, entry)
            if user:
                figures = rename_figures(costs.get(turn), _USAGE)
                entry.usage(figures, model, f"usage/{turn}")
    return book.foreign(
        first_text(_either(session, "acpx_record_id", "acpxRecordId")) or own,
        title=first_text(session.get("title"), session.get("name")),
        cwd=first_text(session.get("cwd")),
        created_at=created,
        refusal=refusal_of(f"{own}.json", Acpx.tool, _schema_version(session), _VERSION),
    )


def _schema_version(session: Record) -> str | None:
    named = text(session.get("schema")).rpartition(".v")
    return named[2] if named[0] else None


def _either(session: Record, name: str, older: str) -> Any:
    return session.get(name, session.get(older))


def _tell_user(user: Record, entry: SourceEntry) -> None:
    blocks: list[Record | None] = []
    for part in map(mapping, items(user.get("content"))):
        mention = mapping(part.get("Mention"))
        if isinstance(part.get("Text"), str):
            blocks.append({"type": "text", "text": part["Text"]})
        elif mention:
            words = first_text(mention.get("content"), mention.get("uri"))
            blocks.append({"type": "text", "text": words or ""})
        elif "Image" in part:
            blocks.append(_picture(part["Image"]))
    entry.user([block for block in blocks if block])


def _picture(image: Any) -> Record | None:
    source = mapping(image).get("source")
    return data_url_block(source) or image_block("image/png", source)


def _tell_agent(agent: Record, model: Any, entry: SourceEntry) -> None:
    results = mapping(agent.get("tool_results"))
    called: list[str] = []
    for part in map(mapping, items(agent.get("content"))):
        thought, call = mapping(part.get("Thinking")), mapping(part.get("ToolUse"))
        if not call:
            _tell_results(called, results, entry)
        if isinstance(part.get("Text"), str):
            entry.assistant(part["Text"], model)
        elif thought:
            entry.thinking(text(thought.get("text")), thought.get("signature"))
        elif isinstance(part.get("RedactedThinking"), str):
            entry.thinking([{"type": "redacted_thinking", "data": part["RedactedThinking"]}])
        elif call:
            id = first_text(call.get("id")) or entry.key
            params = call.get("input")
            raw = json_value(call.get("raw_input"))
            entry.call(id, call.get("name"), raw if params is None else params)
            called.append(id)
    _tell_results(called, results, entry)


def _tell_results(called: list[str], results: Record, entry: SourceEntry) -> None:
    """The results of calls that were made together."""
    for id in called:
        if isinstance(results.get(id), dict):
            _tell_result(id, results[id], entry)
    called.clear()


def _tell_result(id: str, result: Record, entry: SourceEntry) -> None:
    content = mapping(result.get("content"))
    picture = _picture(content["Image"]) if "Image" in content else None
    words = first_text(content.get("Text"))
    shown = [picture] if picture else words if words is not None else result.get("output")
    entry.result(id, shown, is_error=result.get("is_error") is True)


READER = Acpx()


# Frames of the Agent Client Protocol, read as a conversation.


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


def _tell_tool(update: Record, entry: SourceEntry) -> None:
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
