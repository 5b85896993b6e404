"""Search in an SQLite index: which text is where, and its words.

The words are in a full-text table without the text itself: the log is the truth, and the text of a hit
is read from there. Such a table cannot delete a row, so a row is dead when ``said`` no longer has it;
ids are never reused. ``is_worn`` tells when so many are dead that an index should be rebuilt, which
also removes the words of deleted sessions from the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec

from holdfast.catalog._data import data_statements, with_check, without_check
from holdfast.catalog._faults import IndexDamaged
from holdfast.catalog._filter import Filter, Statement, clamped
from holdfast.catalog._query import fold
from holdfast.catalog._search_texts import ROLES, Heard, Listener
from holdfast.catalog.sqlite.rows import read_row, read_rows, selection
from holdfast.model import LazyDecoder

if TYPE_CHECKING:
    from holdfast.catalog._query import Query
    from holdfast.catalog._recall import RecallCache
    from holdfast.catalog._search import Asked, Candidate, Hit
    from holdfast.model import Event, SessionMetadata
    from holdfast.storage import Store
    from holdfast.storage.sqlite import Connection

ROLE_NUMBERS = {role: number for number, role in enumerate(ROLES)}

# So many bytes are gathered before they are sorted into the table, and so many parts of it are merged at once rather
# than some of them with every write: twice as fast as the defaults.
_SETTINGS = (("hashsize", 16 << 20), ("automerge", 0), ("crisismerge", 12))
_WORN_ROWS_MIN = 10_000

_DELETE = "DELETE FROM said WHERE session = ?"
_KEEP = "UPDATE said_listeners SET listener = ? WHERE session = ?"
_KEEP_ANEW = "INSERT INTO said_listeners (listener, session) VALUES (?, ?)"

_encode = msgspec.msgpack.Encoder().encode
_decoder = LazyDecoder(Listener, msgspec.msgpack)
_Values = tuple[int, int | None, int, int, int, int, str | None, bool]


def create_tables(connection: Connection) -> None:
    """Create the tables, in an index that has none of them."""
    for statement in data_statements("search.sql"):
        connection.execute(statement)
    connection.executemany("INSERT INTO said_words (said_words, rank) VALUES (?, ?)", _SETTINGS)


def add(connection: Connection, row: int, events: Sequence[Event]) -> None:
    """Add the next events of a session; all of them, in order, each once."""
    found = connection.execute("SELECT listener FROM said_listeners WHERE session = ?", (row,)).fetchone()
    listener = Listener() if found is None else _read_listener(found[0])
    was_streaming = bool(listener.streams)
    changes = listener.hear(events)
    if found is not None:
        # Remove earlier texts that no longer count.
        if was_streaming:
            connection.execute(f"{_DELETE} AND streaming", (row,))
        if changes.gone_titles:
            connection.execute(f"{_DELETE} AND role = ?", (row, ROLE_NUMBERS["title"]))
        for tag in changes.gone_tags:
            connection.execute(f"{_DELETE} AND role = ? AND tool = ?", (row, ROLE_NUMBERS["tag"], tool_number(tag)))
        for seq in changes.gone:
            if clamped(seq) == seq:  # no row has another number, whatever a foreign log says
                connection.execute(f"{_DELETE} AND (seq = ? OR last = ?)", (row, seq, seq))
    _insert(connection, row, changes.heard, listener.shown_streams())
    # Not in one statement: with REPLACE or an upsert SQLite sets a savepoint, for which the full-text table sorts in
    # what it has gathered, every time.
    connection.execute(_KEEP_ANEW if found is None else _KEEP, (with_check(_encode(listener)), row))


def forget(connection: Connection, row: int) -> None:
    """Remove a session that is gone, or is about to be read anew."""
    connection.execute(_DELETE, (row,))
    connection.execute("DELETE FROM said_listeners WHERE session = ?", (row,))


def is_worn(connection: Connection) -> bool:
    """Return whether most of the index is dead."""
    total = last_id(connection)
    if total < _WORN_ROWS_MIN:
        return False
    alive: int = connection.execute("SELECT count(*) FROM said").fetchone()[0]
    return alive * 2 < total


def _insert(connection: Connection, row: int, heard: list[Heard], streaming: list[Heard]) -> None:
    if not heard and not streaming:
        return
    first = last_id(connection) + 1
    numbered = list(enumerate([*heard, *streaming], first))
    rows = ((id, row, *said_values(one, is_open=id >= first + len(heard))) for id, one in numbered)
    connection.executemany("INSERT INTO said VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    # ASCII is folded by the table's own tokenizer.
    texts = ((id, text if (text := one.said.text).isascii() else fold(text)) for id, one in numbered)
    connection.executemany("INSERT INTO said_words (rowid, text) VALUES (?, ?)", texts)


def said_values(one: Heard, *, is_open: bool) -> _Values:
    """Return the kept rows of texts, from ``seq`` on."""
    said = one.said
    role, tool = ROLE_NUMBERS[said.role], tool_number(said.name)
    return one.seq, one.last, one.offset, clamped(one.timestamp), role, tool, said.name, is_open


def last_id(connection: Connection) -> int:
    """Return the highest id that was ever assigned: the full-text table has a row of sizes for each."""
    return connection.execute("SELECT max(id) FROM said_words_docsize").fetchone()[0] or 0


@lru_cache(maxsize=256)
def tool_number(name: str | None) -> int:
    """Return a number for the name of a tool or tag: faster to compare, and to verify."""
    return 0 if name is None else crc32(name.encode("utf-8", "surrogatepass")) + 1


def _read_listener(kept: Any) -> Listener:
    try:
        return _decoder.decode(without_check(kept))
    except (TypeError, ValueError) as error:
        raise IndexDamaged("what is kept of a session for the search") from error


# Searching texts by these tables.
_TOGETHER_MAX = 100
_ALL = -1  # as a number of rows: no limit
_COLUMNS = "s.id, s.session, s.seq, s.last, s.place, s.time, s.role, s.name, s.tool"
# In the order of the full-text table itself, so that the rank is computed for these rows only.
_BY_WORDS = (
    f"SELECT {_COLUMNS}, bm25(said_words) FROM said_words CROSS JOIN said s"
    " ON s.id = said_words.rowid{} ORDER BY said_words.rowid DESC LIMIT ?"
)
_BY_ID = f"SELECT {_COLUMNS} FROM said s{{}} ORDER BY s.id DESC LIMIT ?"


def search_index(connection: Connection, store: Store, asked: Asked, memory: RecallCache, words: Expander) -> list[Hit]:
    """Return the hits, best first, each verified against its log. Raises IndexDamaged, and errors of the database."""
    # Late: feeding an index does not need it.
    from holdfast.catalog._search import search

    def expand(word: str, open_end: bool) -> list[str]:  # noqa: FBT001 - as a query asks
        return words.expand(connection, word, open_end=open_end)

    def ask(wanted: Query) -> Callable[[Any, int], tuple[list[Candidate], Any]]:
        match = wanted.index_match(expand)
        return lambda last, rows: _page(connection, match, asked, last, rows)

    sessions = _Sessions(connection)
    return search(store, asked, ask, sessions.meta, memory=memory, expect=sessions.get_ready)


def _page(
    connection: Connection, match: str | None, asked: Asked, last: int | None, rows: int
) -> tuple[list[Candidate], int]:
    from holdfast.catalog._search import Candidate

    statement, below = Statement(), 1 << 62 if last is None else last
    if match is None:
        statement.demand("s.id < {}", below)
    else:
        statement.demand("said_words MATCH {} AND said_words.rowid < {}", match, below)
    if asked.session_id is not None or asked.sessions != Filter():
        chosen, values = selection(asked.sessions, None)
        one = "" if asked.session_id is None else " AND id = ?"
        in_rows = f"s.session IN (SELECT row FROM sessions WHERE id IN (SELECT id FROM ({chosen})){one})"
        statement.include(in_rows, [*values, _ALL, *([asked.session_id] if one else [])])
    asked.demand(statement, ROLE_NUMBERS.__getitem__, "s.tool", tool_number)
    query = (_BY_ID if match is None else _BY_WORDS).format(statement.where)
    found = connection.execute(query, (*statement.values, rows)).fetchall()
    try:
        page = [
            Candidate(id, session, seq, last, place, time, ROLES[role], name, *rank)
            for id, session, seq, last, place, time, role, name, tool, *rank in found
            if role >= 0 and tool_number(name) == tool
        ]
    except (IndexError, TypeError) as error:
        raise IndexDamaged("what was said") from error
    if len(page) != len(found):
        raise IndexDamaged("what was said")
    return page, page[-1].id if page else below


class _Sessions:
    """The sessions of an index, by row; each is read once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[int, SessionMetadata | None] = {}

    def get_ready(self, rows: Iterable[int]) -> None:
        """Read the sessions of these rows with one query."""
        wanted = [*{*rows}.difference(self._known)][:_TOGETHER_MAX]
        if len(wanted) > 1:
            marks = ", ".join("?" * len(wanted))
            select = f"SELECT row, id, data, crc FROM sessions WHERE row IN ({marks})"
            found = self._connection.execute(select, wanted).fetchall()
            if found:
                numbers, *columns = zip(*found, strict=True)
                self._known.update(zip(numbers, read_rows(*columns), strict=True))

    def meta(self, row: int) -> SessionMetadata | None:
        """Return it as a list shows it."""
        if row not in self._known:
            select = "SELECT id, data, crc FROM sessions WHERE row = ?"
            found = self._connection.execute(select, (row,)).fetchone()
            self._known[row] = None if found is None else read_row(*found)
        return self._known[row]


# The words of the index that contain some letters, for queries inside words.
# To enumerate its words the full-text table reads all that it holds, which takes long for much text. So they are cached
# while the index is unchanged, if they are not too many.
_EXPANSIONS_MAX = 1000
_KEPT_CHARS_MAX = 8 << 20
_ROWS = 10_000


class Expander:
    """The words of one index, on one connection."""

    def __init__(self, kept_chars_max: int = _KEPT_CHARS_MAX) -> None:
        self._kept_chars_max = kept_chars_max
        self._mark: tuple[int, int] | None = None
        self._words: str | None = None  # a newline before each of them and one at the end; None if they are too many

    def expand(self, connection: Connection, word: str, *, open_end: bool) -> list[str]:
        """Return some of the words that contain ``word``, or end with it; all unless there are very many."""
        version: int = connection.execute("PRAGMA data_version").fetchone()[0]
        mark = (version, connection.total_changes)
        if mark != self._mark:
            self._words = _read_words(connection, self._kept_chars_max)
            self._mark = mark
        if self._words is None:
            at_end = "" if open_end else " AND substr(term, -length(:word)) = :word"
            select = f"SELECT term FROM said_vocabulary WHERE instr(term, :word){at_end} LIMIT :most"
            return [term for (term,) in connection.execute(select, {"word": word, "most": _EXPANSIONS_MAX})]
        found = (one for one in _holding(self._words, word) if open_end or one.endswith(word))
        return list(islice(found, _EXPANSIONS_MAX))


def _read_words(connection: Connection, chars_max: int) -> str | None:
    parts, chars = [""], 0
    cursor = connection.execute("SELECT term FROM said_vocabulary")
    while rows := cursor.fetchmany(_ROWS):
        parts.append("\n".join([term for (term,) in rows]))
        chars += len(parts[-1])
        if chars > chars_max:
            return None
    return "\n".join([*parts, ""])


def _holding(words: str, letters: str) -> Iterator[str]:
    at = words.find(letters)
    while at >= 0:
        end = words.find("\n", at)
        yield words[words.rfind("\n", 0, at) + 1 : end]
        at = words.find(letters, end)
