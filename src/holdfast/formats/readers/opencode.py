"""opencode: a SQLite database, the JSON that it exports, and the folders of earlier versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar

from holdfast.formats._foreign import Foreign, read_time
from holdfast.formats._source import Source
from holdfast.formats.readers._book import Book, Entry
from holdfast.formats.readers._files import any_of, names_of, tables_of, whole_rows
from holdfast.formats.readers._opencode_parts import (
    said_by_user,
    tell_part,
    tell_result,
    tell_usage,
)
from holdfast.formats.readers._opencode_v2 import older_form
from holdfast.formats.readers._shape import first_text, items, json_value, mapping, text
from holdfast.formats.readers._torn import look, open_document

__all__ = ["READER", "Opencode"]

Record = dict[str, Any]
Message = tuple[Record, list[Record]]
"""What is known about a message, and its parts."""

_UNTITLED = re.compile(r"(?:New|Child) session - \d{4}-")
_STORED_SESSION = re.compile(r"(?:^|/)session/(?:info|[^/]+)/(ses_[^/]+)\.json$")
_STORED_MESSAGE = re.compile(r"(?:^|/)message/(ses_[^/]+)/([^/]+)\.json$")
_STORED_PART = re.compile(r"(?:^|/)part/(?:ses_[^/]+/)?([^/]+)/([^/]+)\.json$")


class Opencode:
    """Reads ``~/.local/share/opencode/opencode.db``, exports, and ``storage/`` before it."""

    tool = "opencode"
    places = (".local/share/opencode/opencode*.db", ".local/share/opencode/storage")
    homes: ClassVar[dict[str, str]] = {"XDG_DATA_HOME": ".local/share"}

    def claims(self, source: Source) -> bool:
        """Whether it is such a database, export or folder."""
        return (
            any_of(source, ".db", _is_database)
            or any(_STORED_SESSION.search(name) for name in source.names(".json"))
            or any_of(source, ".json", _is_export)
        )

    def read(self, source: Source) -> Iterator[Foreign]:
        """Every session of each database, each export, and every session of the folders."""
        for name in names_of(source, ".db", _is_database):
            yield from _read_database(source, name)
        stored = {name for name in source.names(".json") if _STORED_SESSION.search(name)}
        yield from _read_stored(source, sorted(stored))
        for name in names_of(source, ".json", _is_export):
            problems: list[str] = []
            value = mapping(open_document(source, name, problems))
            messages = [
                (
                    mapping(mapping(m).get("info")),
                    [mapping(p) for p in items(mapping(m).get("parts"))],
                )
                for m in items(value["messages"])
            ]
            yield _foreign(mapping(value["info"]), messages, problems)


def _is_database(source: Source, name: str) -> bool:
    tables = tables_of(source, name)
    return {"session", "message", "part"} <= tables.keys() and "directory" in tables["session"]


def _is_export(source: Source, name: str) -> bool:
    value = mapping(look(source, name, b'"directory"'))
    info = value.get("info")
    return isinstance(value.get("messages"), list) and isinstance(info, dict) and "id" in info


# --- where the messages come from


def _read_database(source: Source, name: str) -> Iterator[Foreign]:
    problems: list[str] = []
    with source.database(name) as database:
        sessions = whole_rows(database, "session", "id", name, problems)
        messages = whole_rows(database, "message", "id", name, problems)
        parts = whole_rows(database, "part", "id", name, problems)
        newer = (
            whole_rows(database, "session_message", "seq", name, problems)
            if "session_message" in database.tables()
            else []
        )
    by_message = _group(parts, "message_id")
    by_session = _group(messages, "session_id")
    by_session_newer = _group(newer, "session_id")
    for session in sessions:
        found = [
            (
                _with_data(row),
                [_with_data(part) for part in by_message.get(text(row.get("id")), [])],
            )
            for row in by_session.get(text(session.get("id")), [])
        ] or [older_form(row) for row in by_session_newer.get(text(session.get("id")), [])]
        yield _foreign(_info(session), found, list(problems))


def _group(rows: list[Record], column: str) -> dict[str, list[Record]]:
    groups: dict[str, list[Record]] = {}
    for row in rows:
        groups.setdefault(text(row.get(column)), []).append(row)
    return groups


def _with_data(row: Record) -> Record:
    """A row with what its JSON column says, and with the column as it came."""
    data = mapping(json_value(row.get("data")))
    return data | {
        "id": row.get("id"),
        "$raw": row.get("data"),
        "$created": row.get("time_created"),
    }


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
        value = _stored(source, name, problems)
        if message is not None:
            messages.setdefault(message[1], []).append({**value, "id": message[2]})
        elif part is not None:
            parts.setdefault(part[1], []).append({**value, "id": part[2]})
    for name in names:
        info = _stored(source, name, problems)
        match = _STORED_SESSION.search(name)
        own = match[1] if match else name
        found = [(m, parts.get(m["id"], [])) for m in messages.get(own, [])]
        yield _foreign({**info, "id": own}, found, list(problems))


def _stored(source: Source, name: str, problems: list[str]) -> Record:
    return mapping(open_document(source, name, problems))


# --- one session


def _foreign(info: Record, messages: list[Message], problems: list[str]) -> Foreign:
    book = Book(Opencode.tool, problems)
    with book.entry(_bare(info), key="session") as entry:
        entry.kind = "session"
    reverted = text(mapping(info.get("revert")).get("messageID"))
    for about, parts in messages:
        id = text(about.get("id"))
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


def _tell_results(called: list[Record], entry: Entry) -> None:
    for part in called:
        tell_result(part, entry)
    called.clear()


def _bare(record: Record) -> Any:
    """The record as it came: the text of its column, or itself."""
    return record.get("$raw") or record


READER = Opencode()
