"""acpx: a JSON snapshot for each session, and beside it the frames that went over the wire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.formats._foreign import Foreign, read_time, refusal_of
from holdfast.formats._source import Source
from holdfast.formats.readers import _files as files
from holdfast.formats.readers import _values as v
from holdfast.formats.readers._book import Book, SourceEntry

_TOOL = "acpx"
_STREAM = ".stream."
_VERSION = 1


def _read_frames(source: Source, names: list[str]) -> Iterator[Foreign]:
    """Yield the sessions of frames, in any number of files; a snapshot beside them has more, and replaces them."""
    parts: dict[str, list[str]] = {}
    for name in names:
        parts.setdefault(name.partition(_STREAM)[0], []).append(name)
    for base, frames in parts.items():
        snapshot = f"{base}.json"
        if not source.has(snapshot) or not _IS_SNAPSHOT(source, snapshot):
            book = Book(_TOOL)
            talk = _Frames(book)
            for name in sorted(frames, key=_age):
                for line, record in files.records(source, name, book.problems):
                    talk.take(line, record)
            talk.finish()
            yield book.foreign(files.stem(f"{base}.x"), cwd=talk.cwd)
            continue
        for name in frames:
            source.use(name)
        if source.is_file:  # in a folder the snapshot is among the files that are read
            yield from _read_snapshot(source, snapshot, [])


def _age(name: str) -> int:
    """Return the place of a part among the frames of a session: the higher its number, the older it is."""
    number = name.rpartition(_STREAM)[2].partition(".")[0]
    return -int(number) if number.isdecimal() else 0


def _is_snapshot(value: files.Record) -> bool:
    return "acpx_record_id" in value or {"acpxRecordId", "acpSessionId"} <= value.keys()


def _is_frame(record: files.Record) -> bool:
    return "jsonrpc" in record or (v.text(record.get("schema")).startswith("acpx.") and "type" in record)


_IS_SNAPSHOT = files.has_document(b'"acpx_record_id"', _is_snapshot)


def _read_snapshot(source: Source, name: str, problems: list[str]) -> Iterator[Foreign]:
    session = v.mapping(files.open_document(source, name, problems))
    book = Book(_TOOL, problems)
    created = read_time(_either(session, "created_at", "createdAt"))
    book.note({name: value for name, value in session.items() if name != "messages"}, "session", created, "session")
    turn, count = "start", 0
    model = v.member(session, "acpx", "current_model_id")
    costs = v.mapping(_either(session, "request_token_usage", "requestTokenUsage"))
    for message in v.items(session.get("messages")):
        user, agent = (v.mapping(v.member(message, who)) for who in ("User", "Agent"))
        if user:
            turn, count = v.first_text(user.get("id")) or f"{turn}+", 0
        count += 1
        with book.entry(message, key=f"{turn}/{count}") as entry:
            _tell_user(user, entry)
            _tell_agent(agent, model, entry)
            if user:
                entry.usage(v.rename_figures(costs.get(turn), v.ANTHROPIC_USAGE), model, f"usage/{turn}")
    named, _, version = v.text(session.get("schema")).rpartition(".v")
    yield book.foreign(
        v.first_text(_either(session, "acpx_record_id", "acpxRecordId")) or files.stem(name),
        title=v.first_text(session.get("title"), session.get("name")),
        cwd=v.first_text(session.get("cwd")),
        created_at=created,
        refusal=refusal_of(f"{files.stem(name)}.json", _TOOL, version if named else None, _VERSION),
    )


def _either(session: files.Record, name: str, older: str) -> Any:
    return session.get(name, session.get(older))


def _tell_user(user: files.Record, entry: SourceEntry) -> None:
    said: list[files.Record] = []
    for part in map(v.mapping, v.items(user.get("content"))):
        mention = v.mapping(part.get("Mention"))
        if isinstance(part.get("Text"), str):
            said.append(v.text_block(part["Text"]))
        elif mention:
            said.append(v.text_block(v.first_text(mention.get("content"), mention.get("uri"))))
        elif "Image" in part:
            said += v.blocks(_picture(part["Image"]))
    entry.user(said)


def _picture(image: Any) -> files.Record | None:
    source = v.mapping(image).get("source")
    return v.data_url_block(source) or v.image_block("image/png", source)


def _tell_agent(agent: files.Record, model: Any, entry: SourceEntry) -> None:
    results = v.mapping(agent.get("tool_results"))
    called: list[str] = []
    for part in map(v.mapping, v.items(agent.get("content"))):
        thought, call = v.mapping(part.get("Thinking")), v.mapping(part.get("ToolUse"))
        # Results stand apart from their calls; they go behind the calls that were made together.
        if not call:
            _tell_results(called, results, entry)
        if isinstance(part.get("Text"), str):
            entry.assistant(part["Text"], model)
        elif thought:
            entry.thinking(v.text(thought.get("text")), thought.get("signature"))
        elif isinstance(part.get("RedactedThinking"), str):
            entry.thinking([{"type": "redacted_thinking", "data": part["RedactedThinking"]}])
        elif call:
            id, params = v.first_text(call.get("id")) or entry.key, call.get("input")
            entry.call(id, call.get("name"), v.as_json(call.get("raw_input")) if params is None else params)
            called.append(id)
    _tell_results(called, results, entry)


def _tell_results(called: list[str], results: files.Record, entry: SourceEntry) -> None:
    for id, result in ((id, results[id]) for id in called if isinstance(results.get(id), dict)):
        picture = _picture(v.member(result, "content", "Image"))
        shown = [picture] if picture else v.first_text(v.member(result, "content", "Text"))
        failed = result.get("is_error") is True
        entry.result(id, result.get("output") if shown is None else shown, is_error=failed)
    called.clear()


READER = files.ToolReader(
    _TOOL,
    (".json", _IS_SNAPSHOT, files.one_by_one(_read_snapshot)),
    (".ndjson", files.has_record(_is_frame), _read_frames),
)

# _Frames of the Agent Client Protocol, read as a conversation.
_CHUNKS = {"agent_message_chunk": "assistant", "agent_thought_chunk": "thinking"}
_ENDED = frozenset({"completed", "failed"})


class _Frames:
    """Processes frames one after the other. Streamed text is added once it is complete."""

    def __init__(self, book: Book) -> None:
        self.cwd: str | None = None
        self._book = book
        self._kind = ""
        self._words = ""

    def take(self, line: bytes, frame: files.Record) -> None:
        inner = v.mapping(frame.get("frame")) or v.mapping(frame.get("message")) or frame
        params = v.mapping(inner.get("params"))
        stamp = read_time(frame.get("timestamp", frame.get("at", frame.get("ts"))))
        update = v.mapping(params.get("update"))
        kind = v.text(update.get("sessionUpdate"))
        self.cwd = self.cwd or v.first_text(params.get("cwd"))
        # A stream has no end of its own: the next frame ends it.
        if _CHUNKS.get(kind, "") != self._kind:
            self.finish()
        with self._book.entry(line, stamp) as entry:
            entry.kind = kind or v.text(inner.get("method")) or None
            if inner.get("method") == "session/prompt":
                said: list[files.Record] = []
                for block in map(v.mapping, v.items(params.get("prompt"))):
                    # An attached file counts by its text.
                    is_file = block.get("type") == "resource"
                    said += [v.text_block(v.member(block, "resource", "text"))] if is_file else v.said_blocks([block])
                entry.user(said)
            elif kind in _CHUNKS:
                self._kind = _CHUNKS[kind]
                self._words += v.text(v.member(update, "content", "text"))
            elif kind in {"tool_call", "tool_call_update"}:
                _tell_tool(update, entry)

    def finish(self) -> None:
        """Complete the streamed text so far."""
        kind, words = self._kind, self._words
        self._kind = self._words = ""
        if words.strip():
            with self._book.entry({"streamed": words}) as entry:
                tell = entry.assistant if kind == "assistant" else entry.thinking
                tell(words)


def _tell_tool(update: files.Record, entry: SourceEntry) -> None:
    id = v.first_text(update.get("toolCallId"))
    if id is None:
        return
    if update.get("sessionUpdate") == "tool_call":
        entry.call(id, v.first_text(update.get("kind"), update.get("title")), update.get("rawInput"))
    if v.text(update.get("status")) in _ENDED:
        words = v.block_text([v.member(part, "content") for part in v.items(update.get("content"))])
        entry.result(id, words or update.get("rawOutput"), is_error=update.get("status") == "failed")
