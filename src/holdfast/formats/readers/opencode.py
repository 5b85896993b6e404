"""opencode: a SQLite database, the JSON that it exports, and the folders of earlier versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from holdfast.formats._foreign import Foreign, read_time
from holdfast.formats._source import Source
from holdfast.formats.readers import _files as files
from holdfast.formats.readers import _values as v
from holdfast.formats.readers._book import Book, SourceEntry

_TOOL = "opencode"
Message = tuple[files.Record, list[files.Record]]  # a message's metadata, and its parts

# A default name of opencode, without information.
_UNTITLED = re.compile(r"(?:New|Child) session - \d{4}-")
_STORED_SESSION = re.compile(r"(?:^|/)session/(?:info|[^/]+)/(ses_[^/]+)\.json$")
_STORED_MESSAGE = re.compile(r"(?:^|/)message/(ses_[^/]+)/([^/]+)\.json$")
_STORED_PART = re.compile(r"(?:^|/)part/(?:ses_[^/]+/)?([^/]+)/([^/]+)\.json$")

_TABLES = {"session": "id", "message": "id", "part": "id", "session_message": "seq"}
"""The tables, each with the column of its row order; older ones lack the last."""


class _Opencode(files.ToolReader):
    """Also reads the folders of earlier versions, where a session is many files."""

    def claims(self, source: Source) -> bool:
        return bool(_stored_sessions(source)) or super().claims(source)

    def read(self, source: Source) -> Iterator[Foreign]:
        yield from _read_stored(source, _stored_sessions(source))
        yield from super().read(source)


def _stored_sessions(source: Source) -> list[str]:
    return [name for name in source.names(".json") if _STORED_SESSION.search(name)]


def _is_export(value: files.Record) -> bool:
    info = value.get("info")
    return isinstance(value.get("messages"), list) and isinstance(info, dict) and "id" in info


# The sources of messages.
def _read_export(source: Source, name: str, problems: list[str]) -> Iterator[Foreign]:
    value = v.mapping(files.open_document(source, name, problems))
    messages = [
        (v.mapping(message.get("info")), [v.mapping(part) for part in v.items(message.get("parts"))])
        for message in map(v.mapping, v.items(value["messages"]))
    ]
    yield _foreign(v.mapping(value["info"]), messages, problems)


def _read_database(source: Source, name: str, problems: list[str]) -> Iterator[Foreign]:
    rows = files.read_tables(source, name, _TABLES, problems)
    parts = files.grouped(rows["part"], "message_id")
    messages = files.grouped(rows["message"], "session_id")
    newer = files.grouped(rows.get("session_message", []), "session_id")
    for session in rows["session"]:
        own = v.text(session.get("id"))
        found = [
            (_with_data(row), [_with_data(one) for one in parts.get(v.text(row.get("id")), [])])
            for row in messages.get(own, [])
        ]
        yield _foreign(_info(session), found or [_older_form(row) for row in newer.get(own, [])], list(problems))


def _with_data(row: files.Record) -> files.Record:
    """Return a row with the members of its JSON column, and with the column unchanged."""
    data = v.mapping(v.as_json(row.get("data")))
    return data | {"id": row.get("id"), "$raw": row.get("data"), "$created": row.get("time_created")}


def _info(row: files.Record) -> files.Record:
    """Return a row of the session table in the form of an export."""
    told = {name: row.get(name) for name in ("id", "directory", "title", "version")}
    times = {"created": row.get("time_created")}
    return told | {"parentID": row.get("parent_id"), "time": times, "revert": v.as_json(row.get("revert"))}


def _read_stored(source: Source, names: list[str]) -> Iterator[Foreign]:
    messages: dict[str, list[files.Record]] = {}
    parts: dict[str, list[files.Record]] = {}
    problems: list[str] = []
    for name in source.names(".json") if names else ():
        message, part = _STORED_MESSAGE.search(name), _STORED_PART.search(name)
        if message is None and part is None:
            continue
        value = v.mapping(files.open_document(source, name, problems))
        if message is not None:
            messages.setdefault(message[1], []).append({**value, "id": message[2]})
        elif part is not None:
            parts.setdefault(part[1], []).append({**value, "id": part[2]})
    for name in names:
        info = v.mapping(files.open_document(source, name, problems))
        match = _STORED_SESSION.search(name)
        own = match[1] if match else name
        found = [(m, parts.get(m["id"], [])) for m in messages.get(own, [])]
        yield _foreign({**info, "id": own}, found, list(problems))


# One session.
def _foreign(info: files.Record, messages: list[Message], problems: list[str]) -> Foreign:
    book = Book(_TOOL, problems)
    book.note(_bare(info), "session", key="session")
    reverted = v.text(v.member(info, "revert", "messageID"))
    for about, parts in messages:
        # Ids grow with time: the given one and all later ones were taken back.
        run = "reverted" if reverted and v.text(about.get("id")) >= reverted else None
        _tell_message(book, about, parts, run)
    title = v.first_text(info.get("title"))
    return book.foreign(
        v.first_text(info.get("id")) or "unknown",
        title=None if title and _UNTITLED.match(title) else title,
        cwd=v.first_text(info.get("directory")),
        parent=v.first_text(info.get("parentID")),
        version=v.first_text(info.get("version")),
        created_at=read_time(v.member(info, "time", "created")),
    )


def _tell_message(book: Book, about: files.Record, parts: list[files.Record], run: str | None) -> None:
    created = v.first_time(v.member(about, "time", "created"), about.get("$created"))
    is_hidden = about.get("summary") is True
    called: list[files.Record] = []  # together: their results come after the last of the calls
    is_user = about.get("role") == "user"
    said = v.blocks(*map(_said_by_user, parts)) if is_user else []
    for part in parts:
        stamp = v.first_time(v.member(part, "time", "start") or v.member(part, "state", "time", "start"), created)
        with book.entry(_bare(part), stamp, v.text(part.get("id")) or None, run) as entry:
            entry.kind = v.text(part.get("type")) or None
            if is_hidden:
                entry.kind = "compaction"
            elif is_user:
                if _said_by_user(part):  # the first of them has the data of all of them
                    entry.user(said)
                    said = []
            else:
                if part.get("type") == "tool":
                    called.append(part)
                else:
                    _tell_results(called, entry)
                _tell_part(about, part, entry)
    ended = v.first_time(v.member(about, "time", "completed"), created)
    with book.entry(_bare(about), ended, v.text(about.get("id")) or None, run) as entry:
        entry.kind = "message"
        _tell_results(called, entry)
        tokens = v.mapping(about.get("tokens"))
        figures = v.rename_figures(tokens, _USAGE) | v.rename_figures(tokens.get("cache"), _CACHE)
        figures |= v.rename_figures(about, {"cost": "cost"})
        if about.get("role") == "assistant":
            entry.usage(figures, about.get("modelID"), f"{v.text(about.get('id'))}/usage")


def _tell_results(called: list[files.Record], entry: SourceEntry) -> None:
    for part in called:
        _tell_result(part, entry)
    called.clear()


def _bare(record: files.Record) -> Any:
    """Return the unchanged record: the text of its column, or itself."""
    return record.get("$raw") or record


READER = _Opencode(
    _TOOL,
    (".db", files.has_tables(session="directory", message="", part=""), files.one_by_one(_read_database)),
    (".json", files.has_document(b'"directory"', _is_export), files.one_by_one(_read_export)),
)

# The parts of opencode's messages.
_USAGE = {"input": "input_tokens", "output": "output_tokens", "total": "total_tokens"}
_CACHE = {"read": "cache_read_tokens", "write": "cache_write_tokens"}


def _tell_part(about: files.Record, part: files.Record, entry: SourceEntry) -> None:
    kind = v.text(part.get("type"))
    if kind == "text" and _is_added(part):
        entry.kind = "synthetic"
    elif kind == "text":
        entry.assistant(part.get("text"), v.first_text(about.get("modelID"), v.member(about, "model", "modelID")))
    elif kind == "reasoning":
        # The signature is under whichever provider's name.
        owners = v.mapping(part.get("metadata")).values()
        entry.thinking(v.text(part.get("text")), v.first_text(*(v.member(owner, "signature") for owner in owners)))
    elif kind == "tool":
        entry.call(_call_id(part), part.get("tool"), v.member(part, "state", "input"))


def _said_by_user(part: files.Record) -> files.Record | None:
    """Return a part of a user's message, words or an image; None if it is not the user's."""
    if part.get("type") == "file":
        return v.data_url_block(part.get("url"))
    is_said = part.get("type") == "text" and not _is_added(part)
    return v.text_block(part["text"]) if is_said and v.first_text(part.get("text")) else None


def _is_added(part: files.Record) -> bool:
    """Return whether the tool itself inserted it."""
    return part.get("synthetic") is True or part.get("ignored") is True


def _call_id(part: files.Record) -> str:
    return v.first_text(part.get("callID"), part.get("id")) or "unknown"


def _tell_result(part: files.Record, entry: SourceEntry) -> None:
    state, stamp = v.mapping(part.get("state")), read_time(v.member(part, "state", "time", "end"))
    if state.get("status") == "completed":
        shown = v.blocks(*(v.data_url_block(v.member(one, "url")) for one in v.items(state.get("attachments"))))
        output = state.get("output")
        result = [v.text_block(output), *shown] if shown and isinstance(output, str) else output
        entry.result(_call_id(part), result, stamp=stamp)
    elif state.get("status") == "error":
        entry.result(_call_id(part), state.get("error"), is_error=True, stamp=stamp)


# Messages of opencode's newer tables, in the form of the older ones.
def _older_form(row: files.Record) -> Message:
    """Return a message of ``session_message``: its metadata, and its parts."""
    id, kind = v.text(row.get("id")), v.text(row.get("type"))
    data = v.mapping(v.as_json(row.get("data")))
    about: files.Record = {
        "id": id,
        "role": kind,
        "time": v.mapping(data.get("time")),
        "modelID": v.first_text(v.member(data, "model", "id")),
        "tokens": data.get("tokens"),
        "cost": data.get("cost"),
        "$raw": row.get("data"),
        "$created": row.get("time_created"),
    }
    parts: list[files.Record] = []
    if kind == "user":
        named = [{"type": "file", "url": v.member(one, "uri")} for one in v.items(data.get("files"))]
        parts = [{"type": "text", "text": data.get("text")}, *named]
    elif kind == "assistant":
        parts = [_part(v.mapping(part)) for part in v.items(data.get("content"))]
    # Ids of parts in the source need not differ between messages.
    return about, [part | {"id": f"{id}/{number}"} for number, part in enumerate(parts)]


def _part(part: files.Record) -> files.Record:
    if part.get("type") == "reasoning":
        return part | {"metadata": part.get("providerMetadata")}
    if part.get("type") != "tool":
        return part
    state, time = v.mapping(part.get("state")), v.mapping(part.get("time"))
    shown = v.block_text(state.get("content")) or state.get("result")
    changed = {
        "input": v.as_json(state.get("input")),
        "output": shown,
        "error": v.first_text(v.member(state, "error", "message"), shown),
        "time": {"start": time.get("ran"), "end": time.get("completed")},
    }
    return {"type": "tool", "tool": part.get("name"), "callID": part.get("id"), "state": state | changed}
