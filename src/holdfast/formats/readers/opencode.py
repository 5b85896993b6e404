"""opencode: a SQLite database, the JSON that it exports, and the folders of earlier versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from holdfast.formats._foreign import Foreign, read_time
from holdfast.formats._source import Source
from holdfast.formats.readers._book import Book, SourceEntry
from holdfast.formats.readers._files import (
    Record,
    ToolReader,
    grouped,
    has_document,
    open_document,
    tables_of,
    whole_rows,
)
from holdfast.formats.readers._values import (
    block_text,
    data_url_block,
    first_text,
    items,
    json_value,
    mapping,
    rename_figures,
    text,
    text_block,
)

_TOOL = "opencode"
Message = tuple[Record, list[Record]]
"""What is known about a message, and its parts."""

# The name that opencode gives by itself says nothing.
_UNTITLED = re.compile(r"(?:New|Child) session - \d{4}-")
_STORED_SESSION = re.compile(r"(?:^|/)session/(?:info|[^/]+)/(ses_[^/]+)\.json$")
_STORED_MESSAGE = re.compile(r"(?:^|/)message/(ses_[^/]+)/([^/]+)\.json$")
_STORED_PART = re.compile(r"(?:^|/)part/(?:ses_[^/]+/)?([^/]+)/([^/]+)\.json$")

_TABLES = {"session": "id", "message": "id", "part": "id", "session_message": "seq"}
"""The tables, each with the column that its rows are in order of; older ones lack the last."""


class _Opencode(ToolReader):
    """Also reads the folders of earlier versions, where a session is many files."""

    def claims(self, source: Source) -> bool:
        return bool(_stored_sessions(source)) or super().claims(source)

    def read(self, source: Source) -> Iterator[Foreign]:
        yield from _read_stored(source, _stored_sessions(source))
        yield from super().read(source)


def _stored_sessions(source: Source) -> list[str]:
    return [name for name in source.names(".json") if _STORED_SESSION.search(name)]


def _is_database(source: Source, name: str) -> bool:
    tables = tables_of(source, name)
    return {"session", "message", "part"} <= tables.keys() and "directory" in tables["session"]


def _is_export(value: Record) -> bool:
    info = value.get("info")
    return isinstance(value.get("messages"), list) and isinstance(info, dict) and "id" in info


# --- where the messages come from


def _read_exports(source: Source, names: list[str]) -> Iterator[Foreign]:
    for name in names:
        problems: list[str] = []
        value = mapping(open_document(source, name, problems))
        messages: list[Message] = []
        for message in map(mapping, items(value["messages"])):
            parts = [mapping(part) for part in items(message.get("parts"))]
            messages.append((mapping(message.get("info")), parts))
        yield _foreign(mapping(value["info"]), messages, problems)


def _read_databases(source: Source, names: list[str]) -> Iterator[Foreign]:
    for name in names:
        problems: list[str] = []
        with source.database(name) as database:
            rows = {
                table: whole_rows(database, table, column, name, problems)
                for table, column in _TABLES.items()
                if table in database.tables()
            }
        parts = grouped(rows["part"], "message_id")
        messages = grouped(rows["message"], "session_id")
        newer = grouped(rows.get("session_message", []), "session_id")
        for session in rows["session"]:
            own = text(session.get("id"))
            found = [
                (_with_data(row), [_with_data(one) for one in parts.get(text(row.get("id")), [])])
                for row in messages.get(own, [])
            ]
            found = found or [older_form(row) for row in newer.get(own, [])]
            yield _foreign(_info(session), found, list(problems))


def _with_data(row: Record) -> Record:
    """A row with what its JSON column says, and with the column as it came."""
    data = mapping(json_value(row.get("data")))
    return data | {"id": row.get("id"), "$raw": row.get("data"), "$created": row.get("time_created")}


def _info(row: Record) -> Record:
    """A row of the session table in the form of an export."""
    return {
        "id": row.get("id"),
        "parentID": row.get("parent_id"),
        "directory": row.get("directory"),
        "title": row.get("title"),
        "version": row.get("version"),
        "time": {"created": row.get("time_created")},
        "revert": json_value(row.get("revert")),
    }


def _read_stored(source: Source, names: list[str]) -> Iterator[Foreign]:
    messages: dict[str, list[Record]] = {}
    parts: dict[str, list[Record]] = {}
    problems: list[str] = []
    for name in source.names(".json") if names else ():
        message, part = _STORED_MESSAGE.search(name), _STORED_PART.search(name)
        if message is None and part is None:
            continue
        value = mapping(open_document(source, name, problems))
        if message is not None:
            messages.setdefault(message[1], []).append({**value, "id": message[2]})
        elif part is not None:
            parts.setdefault(part[1], []).append({**value, "id": part[2]})
    for name in names:
        info = mapping(open_document(source, name, problems))
        match = _STORED_SESSION.search(name)
        own = match[1] if match else name
        found = [(m, parts.get(m["id"], [])) for m in messages.get(own, [])]
        yield _foreign({**info, "id": own}, found, list(problems))


# --- one session


def _foreign(info: Record, messages: list[Message], problems: list[str]) -> Foreign:
    book = Book(_TOOL, problems)
    with book.entry(_bare(info), key="session") as entry:
        entry.kind = "session"
    reverted = text(mapping(info.get("revert")).get("messageID"))
    for about, parts in messages:
        id = text(about.get("id"))
        # Ids grow with time: all from the one on that was gone back to were taken back.
        run = "reverted" if reverted and id >= reverted else None
        _tell_message(book, about, parts, run)
    title = first_text(info.get("title"))
    created = read_time(mapping(info.get("time")).get("created"))
    return book.foreign(
        first_text(info.get("id")) or "unknown",
        title=None if title and _UNTITLED.match(title) else title,
        cwd=first_text(info.get("directory")),
        parent=first_text(info.get("parentID")),
        version=first_text(info.get("version")),
        created_at=created or book.first_stamp,
    )


def _tell_message(book: Book, about: Record, parts: list[Record], run: str | None) -> None:
    time = mapping(about.get("time"))
    created = read_time(time.get("created")) or read_time(about.get("$created"))
    is_hidden = about.get("summary") is True
    called: list[Record] = []  # together: their results come after the last of the calls
    is_user = about.get("role") == "user"
    said = [block for part in parts if (block := said_by_user(part))] if is_user else []
    for part in parts:
        started = mapping(part.get("time")).get("start")
        state_time = mapping(mapping(part.get("state")).get("time"))
        stamp = read_time(started or state_time.get("start")) or created
        with book.entry(_bare(part), stamp, text(part.get("id")) or None, run) as entry:
            entry.kind = text(part.get("type")) or None
            if is_hidden:
                entry.kind = "compaction"
            elif is_user:
                if said_by_user(part):  # the first of them carries what all of them say
                    entry.user(said)
                    said = []
            else:
                if part.get("type") == "tool":
                    called.append(part)
                else:
                    _tell_results(called, entry)
                tell_part(about, part, entry)
    ended = read_time(time.get("completed")) or created
    with book.entry(_bare(about), ended, text(about.get("id")) or None, run) as entry:
        entry.kind = "message"
        _tell_results(called, entry)
        tell_usage(about, entry)


def _tell_results(called: list[Record], entry: SourceEntry) -> None:
    for part in called:
        tell_result(part, entry)
    called.clear()


def _bare(record: Record) -> Any:
    """The record as it came: the text of its column, or itself."""
    return record.get("$raw") or record


READER = _Opencode(
    _TOOL,
    (".local/share/opencode/opencode*.db", ".local/share/opencode/storage"),
    (".db", _is_database, _read_databases),
    (".json", has_document(b'"directory"', _is_export), _read_exports),
    homes={"XDG_DATA_HOME": ".local/share"},
)


# The parts of opencode's messages.


_USAGE = {"input": "input_tokens", "output": "output_tokens", "total": "total_tokens"}
_CACHE = {"read": "cache_read_tokens", "write": "cache_write_tokens"}


def tell_part(about: Record, part: Record, entry: SourceEntry) -> None:
    """What one part of a message says."""
    kind = entry.kind = text(part.get("type")) or None
    if kind == "text":
        _tell_text(about, part, entry)
    elif kind == "reasoning":
        entry.thinking(text(part.get("text")), _signature(part))
    elif kind == "tool":
        entry.call(_call_id(part), part.get("tool"), mapping(part.get("state")).get("input"))


def said_by_user(part: Record) -> Record | None:
    """What a part of a user's message says: words or a picture; None if it is not the user's."""
    if part.get("type") == "file":
        return data_url_block(part.get("url"))
    is_said = part.get("type") == "text" and not _is_added(part)
    words = text(part.get("text"))
    return text_block(words) if is_said and words.strip() else None


def _is_added(part: Record) -> bool:
    """Whether the tool put it there itself."""
    return part.get("synthetic") is True or part.get("ignored") is True


def _tell_text(about: Record, part: Record, entry: SourceEntry) -> None:
    if _is_added(part):
        entry.kind = "synthetic"
        return
    model = first_text(about.get("modelID"), mapping(about.get("model")).get("modelID"))
    entry.assistant(part.get("text"), model)


def _call_id(part: Record) -> str:
    return first_text(part.get("callID"), part.get("id")) or "unknown"


def tell_result(part: Record, entry: SourceEntry) -> None:
    """What came of a call, once it has ended."""
    state = mapping(part.get("state"))
    id = _call_id(part)
    stamp = read_time(mapping(state.get("time")).get("end"))
    if state.get("status") == "completed":
        pictures = [data_url_block(mapping(a).get("url")) for a in items(state.get("attachments"))]
        shown = [block for block in pictures if block]
        output = state.get("output")
        words = {"type": "text", "text": output}
        result = [words, *shown] if shown and isinstance(output, str) else output
        entry.result(id, result, stamp=stamp)
    elif state.get("status") == "error":
        entry.result(id, state.get("error"), is_error=True, stamp=stamp)


def _signature(part: Record) -> Any:
    """The signature of a thought, under whichever provider's name."""
    owners = mapping(part.get("metadata")).values()
    return first_text(*(mapping(owner).get("signature") for owner in owners))


def tell_usage(about: Record, entry: SourceEntry) -> None:
    """What a message cost, once it is whole."""
    tokens = mapping(about.get("tokens"))
    figures = rename_figures(tokens, _USAGE) | rename_figures(tokens.get("cache"), _CACHE)
    figures |= rename_figures(about, {"cost": "cost"})
    if about.get("role") == "assistant" and figures:
        entry.usage(figures, about.get("modelID"), f"{text(about.get('id'))}/usage")


# Messages of opencode's newer tables, in the form of the older ones.


def older_form(row: Record) -> tuple[Record, list[Record]]:
    """What is known about a message of ``session_message``, and its parts."""
    id, kind = text(row.get("id")), text(row.get("type"))
    data = mapping(json_value(row.get("data")))
    about: Record = {
        "id": id,
        "role": kind,
        "time": mapping(data.get("time")),
        "modelID": first_text(mapping(data.get("model")).get("id")),
        "tokens": data.get("tokens"),
        "cost": data.get("cost"),
        "$raw": row.get("data"),
        "$created": row.get("time_created"),
    }
    if kind == "user":
        files = [{"type": "file", "url": mapping(f).get("uri")} for f in items(data.get("files"))]
        return about, _named(id, [{"type": "text", "text": data.get("text")}, *files])
    if kind == "assistant":
        return about, _named(id, [_part(mapping(part)) for part in items(data.get("content"))])
    return about, []


def _named(id: str, parts: list[Record]) -> list[Record]:
    """The parts with ids: those in the source need not differ between messages."""
    return [part | {"id": f"{id}/{number}"} for number, part in enumerate(parts)]


def _part(part: Record) -> Record:
    if part.get("type") == "reasoning":
        return part | {"metadata": part.get("providerMetadata")}
    if part.get("type") != "tool":
        return part
    state, time = mapping(part.get("state")), mapping(part.get("time"))
    error = mapping(state.get("error")).get("message")
    shown = block_text(state.get("content")) or state.get("result")
    changed = {
        "input": json_value(state.get("input")),
        "output": shown,
        "error": first_text(error, shown),
        "time": {"start": time.get("ran"), "end": time.get("completed")},
    }
    return {"type": "tool", "tool": part.get("name"), "callID": part.get("id"), "state": state | changed}
