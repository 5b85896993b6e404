"""goose: a SQLite database of all sessions; before that a JSONL file for each; JSON exports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from holdfast.formats._foreign import Foreign, read_time
from holdfast.formats._source import Source
from holdfast.formats.readers import _files as files
from holdfast.formats.readers import _values as v
from holdfast.formats.readers._book import Book, SourceEntry

_TOOL = "goose"
_NAIVE = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?")
_USAGE = {
    "accumulated_input_tokens": "input_tokens",
    "accumulated_output_tokens": "output_tokens",
    "accumulated_total_tokens": "total_tokens",
    "accumulated_cost": "cost",
}

_BLOCKS = {"text": ("text", "text"), "thinking": ("thought", "thinking", "signature"), "reasoning": ("thought", "text")}


def _is_log(source: Source, name: str) -> bool:
    found = files.first_records(source, name)
    head = bool(found) and "working_dir" in found[0] and "role" not in found[0]
    talk = [one for one in found if v.text(one.get("role")) in {"user", "assistant"} and "created" in one]
    return head or any(isinstance(one.get("content"), list) and "message" not in one for one in talk)


def _is_export(value: files.Record) -> bool:
    return "working_dir" in value and isinstance(value.get("conversation"), list)


def _read_export(source: Source, name: str, problems: list[str]) -> Iterator[Foreign]:
    session = v.mapping(files.open_document(source, name, problems))
    own = v.first_text(session.get("id")) or files.stem(name)
    yield _foreign(session, v.items(session["conversation"]), own, problems)


def _read_database(source: Source, name: str, problems: list[str]) -> Iterator[Foreign]:
    rows = files.read_tables(source, name, {"sessions": "id", "messages": "id"}, problems)
    messages = files.grouped(rows["messages"], "session_id")
    known = {v.text(session.get("id")) for session in rows["sessions"]}
    for session in [*rows["sessions"], *({"id": id} for id in messages if id not in known)]:
        own = v.text(session.get("id"))
        yield _foreign(session, messages.get(own, []), own, list(problems))


def _read_log(source: Source, name: str, problems: list[str]) -> Iterator[Foreign]:
    lines = list(files.records(source, name, problems))
    head = lines[0][1] if lines and "role" not in lines[0][1] else {}
    messages = [{**record, "$raw": line} for line, record in lines if record is not head]
    yield _foreign(head, messages, files.stem(name), problems)


def _foreign(session: files.Record, messages: list[Any], own: str, problems: list[str]) -> Foreign:
    book = Book(_TOOL, problems)
    begun = v.text(session.get("created_at")).strip()
    # A time that the database wrote itself is universal time, though it does not say so.
    created = read_time(f"{begun}+00:00" if _NAIVE.fullmatch(begun) else session.get("created_at"))
    book.note(session, "session", created, "session")
    model = v.member(v.as_json(session.get("model_config_json", session.get("model_config"))), "model_name")
    for message in map(v.mapping, messages):
        stamp = read_time(message.get("created_timestamp", message.get("created")))
        named = v.first_text(message.get("message_id"), message.get("id"))
        # An id may come more than once: each of its messages is kept.
        key = book.free_key(f"message/{named}") if named else None
        with book.entry(message.get("$raw", message), stamp, key) as entry:
            _tell(message, model, entry)
            if key:
                book.claim(key)
    figures = v.rename_figures(session, _USAGE)
    if figures:
        with book.entry({"tokens of the session": figures}, key="usage") as entry:
            entry.usage(figures, model)
    return book.foreign(
        own,
        title=v.first_text(session.get("name"), session.get("description")),
        cwd=v.first_text(session.get("working_dir")),
        created_at=created,
    )


def _tell(message: files.Record, model: Any, entry: SourceEntry) -> None:
    if v.member(v.as_json(message.get("metadata_json", message.get("metadata"))), "userVisible") is False:
        entry.kind = "hidden"  # a summary for the model alone; what it sums up is still here
        return
    content = v.as_json(message.get("content_json", message.get("content")))
    blocks = [v.mapping(block) for block in v.items(content)]
    is_user = message.get("role") == "user"
    for block in blocks:
        _tell_block(block, model, entry, is_user=is_user)
    if is_user:
        said = v.said_blocks(blocks)
        entry.user([one for one in said if not v.text(one.get("text")).startswith("<info-msg>")])


def _tell_block(block: files.Record, model: Any, entry: SourceEntry, *, is_user: bool) -> None:
    kind = v.text(block.get("type"))
    if kind == "text" and is_user:
        return  # added with the images beside it
    if entry.block(block, _BLOCKS, model):
        return
    if kind == "redactedThinking":
        entry.thinking([{"type": "redacted_thinking", "data": block.get("data")}])
    elif kind in {"toolRequest", "frontendToolRequest"}:
        call = v.mapping(_outcome(block.get("toolCall"))[0])
        entry.call(block.get("id"), call.get("name"), call.get("arguments"))
    elif kind == "toolResponse":
        result, failed = _outcome(block.get("toolResult"))
        if isinstance(result, dict) and isinstance(result.get("content"), list):
            failed = failed or result.get("isError") is True
            result = result["content"]
        kinds = {v.mapping(block).get("type") for block in v.items(result)}
        # Words and pictures in our form; what is neither stays as it is.
        result = v.said_blocks(result) if kinds and kinds <= {"text", "image"} else result
        entry.result(block.get("id"), result, is_error=failed)


def _outcome(value: Any) -> tuple[Any, bool]:
    """Return the value or the error of an outcome, and whether it is an error."""
    given = v.mapping(value)
    if given.get("status") == "error" or "Err" in given:
        return given.get("error", given.get("Err")), True
    return given.get("value", given.get("Ok", value)), False


READER = files.ToolReader(
    _TOOL,
    (".db", files.has_tables(sessions="", messages="session_id role content_json"), files.one_by_one(_read_database)),
    (".jsonl", _is_log, files.one_by_one(_read_log)),
    (".json", files.has_document(b'"working_dir"', _is_export), files.one_by_one(_read_export)),
)
