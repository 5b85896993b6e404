"""The tables of the search: what was said where, and the words of it.

The words are in a full-text table without the text itself: the log is the truth, and what a hit
shows is read from there. Such a table cannot forget a row, so a row is dead when ``said`` has it no
more; ids are never given twice. ``is_worn`` says when so many are dead that an index should be made
anew, which also removes the words of deleted sessions from the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec

from holdfast.catalog._faults import IndexDamaged
from holdfast.catalog._search_texts import ROLES, Heard, IndexChanges, Listener
from holdfast.catalog._tokenizer import fold

if TYPE_CHECKING:
    from holdfast.model import Event
    from holdfast.storage.sqlite import Connection

__all__ = [
    "ROLE_NUMBERS",
    "add",
    "create_tables",
    "forget",
    "is_worn",
    "last_id",
    "said_values",
    "tool_number",
]

ROLE_NUMBERS = {role: number for number, role in enumerate(ROLES)}

_SCHEMA = """
CREATE TABLE said (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    last INTEGER,
    place INTEGER NOT NULL,
    time INTEGER NOT NULL,
    role INTEGER NOT NULL,
    tool INTEGER NOT NULL,
    name TEXT,
    streaming INTEGER NOT NULL
);
CREATE INDEX said_by_session ON said (session, seq);
CREATE VIRTUAL TABLE said_words USING fts5 (text, content = '', tokenize = 'ascii');
CREATE VIRTUAL TABLE said_vocabulary USING fts5vocab (said_words, row);
CREATE VIRTUAL TABLE said_instances USING fts5vocab (said_words, instance);
CREATE TABLE said_listeners (session INTEGER PRIMARY KEY, listener BLOB NOT NULL);
"""
# So many bytes are gathered before they are sorted into the table, and so many parts of it put
# together at once rather than some of them with every write: twice as fast as the defaults.
_SETTINGS = (("hashsize", 16 << 20), ("automerge", 0), ("crisismerge", 12))
_WORN_ROWS_MIN = 10_000

_KEEP = "UPDATE said_listeners SET listener = ? WHERE session = ?"
_KEEP_ANEW = "INSERT INTO said_listeners (listener, session) VALUES (?, ?)"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Listener).decode
_Values = tuple[int, int | None, int, int, int, int, str | None, bool]
_Row = tuple[int, int, int, int | None, int, int, int, int, str | None, bool]
_CHECK_BYTES = 4


def create_tables(connection: Connection) -> None:
    """Make the tables, in an index that has none of them."""
    for statement in _SCHEMA.split(";"):
        connection.execute(statement)
    for setting, value in _SETTINGS:
        insert = "INSERT INTO said_words (said_words, rank) VALUES (?, ?)"
        connection.execute(insert, (setting, value))


def add(connection: Connection, row: int, events: Sequence[Event]) -> None:
    """Take in the next events of a session; all of them, in order, each once."""
    kept = connection.execute("SELECT listener FROM said_listeners WHERE session = ?", (row,))
    found = kept.fetchone()
    listener = Listener() if found is None else _read_listener(found[0])
    was_streaming = bool(listener.streams)
    changes = listener.hear(events)
    if found is not None:
        _drop(connection, row, changes, was_streaming=was_streaming)
    _insert(connection, row, changes.heard, listener.shown_streams())
    # Not in one statement: with REPLACE or an upsert SQLite sets a savepoint, for which the
    # full-text table sorts in what it has gathered, every time.
    connection.execute(_KEEP_ANEW if found is None else _KEEP, (_kept_listener(listener), row))


def forget(connection: Connection, row: int) -> None:
    """Leave out a session that is gone, or is about to be taken in anew."""
    _delete(connection, "session = ?", (row,))
    connection.execute("DELETE FROM said_listeners WHERE session = ?", (row,))


def is_worn(connection: Connection) -> bool:
    """Whether most of what the index holds is dead."""
    total = last_id(connection)
    if total < _WORN_ROWS_MIN:
        return False
    alive: int = connection.execute("SELECT count(*) FROM said").fetchone()[0]
    return alive * 2 < total


def _drop(connection: Connection, row: int, changes: IndexChanges, *, was_streaming: bool) -> None:
    """Remove what counts no more of what was added earlier."""
    if was_streaming:
        _delete(connection, "session = ? AND streaming", (row,))
    if changes.gone_titles:
        _delete(connection, "session = ? AND role = ?", (row, ROLE_NUMBERS["title"]))
    for tag in changes.gone_tags:
        values = (row, ROLE_NUMBERS["tag"], tool_number(tag))
        _delete(connection, "session = ? AND role = ? AND tool = ?", values)
    for seq in changes.gone:
        if abs(seq) > _INT64_MAX:
            continue  # nothing has such a number, whatever a foreign log says
        _delete(connection, "session = ? AND (seq = ? OR last = ?)", (row, seq, seq))


def _delete(connection: Connection, condition: str, values: tuple[int, ...]) -> None:
    connection.execute(f"DELETE FROM said WHERE {condition}", values)


def _insert(connection: Connection, row: int, heard: list[Heard], streaming: list[Heard]) -> None:
    if not heard and not streaming:
        return
    first = last_id(connection) + 1
    rows = [*_rows(row, heard, first, is_open=False)]
    rows += _rows(row, streaming, first + len(heard), is_open=True)
    connection.executemany("INSERT INTO said VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    connection.executemany(
        "INSERT INTO said_words (rowid, text) VALUES (?, ?)",
        ((first + n, _indexed(one.said.text)) for n, one in enumerate([*heard, *streaming])),
    )


def _rows(row: int, heard: Iterable[Heard], first: int, *, is_open: bool) -> Iterable[_Row]:
    for id, one in enumerate(heard, first):
        yield id, row, *said_values(one, is_open=is_open)


_INT64_MAX = (1 << 63) - 1


def said_values(one: Heard, *, is_open: bool) -> _Values:
    """Return what is kept of what was said, from ``seq`` on."""
    said = one.said
    time = max(min(one.timestamp, _INT64_MAX), -_INT64_MAX)
    role, tool = ROLE_NUMBERS[said.role], tool_number(said.name)
    return one.seq, one.last, one.offset, time, role, tool, said.name, is_open


def _indexed(text: str) -> str:
    """ASCII is folded by the table's own tokenizer."""
    return text if text.isascii() else fold(text)


def last_id(connection: Connection) -> int:
    """The highest id that was ever given: the full-text table has a row of sizes for each."""
    found = connection.execute("SELECT max(id) FROM said_words_docsize").fetchone()
    return found[0] or 0


@lru_cache(maxsize=256)
def tool_number(name: str | None) -> int:
    """A number for the name of a tool or tag: quicker to compare, and to verify."""
    return 0 if name is None else crc32(name.encode("utf-8", "surrogatepass")) + 1


def _kept_listener(listener: Listener) -> bytes:
    data = _encode(listener)
    return crc32(data).to_bytes(_CHECK_BYTES, "big") + data


def _read_listener(kept: object) -> Listener:
    if isinstance(kept, bytes):
        check, data = kept[:_CHECK_BYTES], kept[_CHECK_BYTES:]
        if crc32(data).to_bytes(_CHECK_BYTES, "big") == check:
            return _decode(data)
    raise IndexDamaged("what is kept of a session for the search")
