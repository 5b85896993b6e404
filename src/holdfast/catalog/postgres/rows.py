"""Changes of the PostgreSQL tables by one look at a log: prepared, written, and audited.

Words are cut and counted before, on the caller's thread: the connection's own thread also carries
the appends of sessions, and must not be kept busy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec

from holdfast.catalog._faults import IndexDamaged
from holdfast.catalog._filter import SORTS, clamped, text_of
from holdfast.catalog._index import IndexUpdate, Row
from holdfast.catalog._query import Fts5, Query, fold, words_of
from holdfast.catalog._search_texts import Heard, IndexChanges, Listener, Told
from holdfast.catalog.sqlite.rows import read_whole, stored, version_of
from holdfast.model import LazyDecoder, SessionMetadata, fold_id

if TYPE_CHECKING:
    from asyncpg import Connection

    from holdfast.catalog._catch_up import Hear

_KEY_BYTES_MAX = 200
_NONE = (0, 0)

_encode = msgspec.json.Encoder().encode
_pack = msgspec.msgpack.Encoder().encode
_unpacker = LazyDecoder(Listener, msgspec.msgpack)


def _arrays(typed: str, first: int = 1) -> str:
    """Return arrays of values that are unnested: a column of each, with its name and its type."""
    columns = [one.split() for one in typed.split(", ")]
    values = ", ".join(f"${number}::{kind}[]" for number, (_, kind) in enumerate(columns, first))
    return f"unnest({values}) AS i ({', '.join(name for name, _ in columns)})"


_TYPED = (
    "id text, folded text, updated bigint, agent bytea, model bytea, parent bytea, cwd bytea, status text, archived"
    " boolean, settled boolean, asks boolean, etag text, folder text, priced text, data bytea, crc bigint, trace"
    " bytea, trace_crc bigint, created bigint, title text, messages bigint, tokens bigint, cost bigint, size bigint,"
    " text text"
)
_COLUMNS = [one.split()[0] for one in _TYPED.split(", ")]
_CARRIED = ("priced", "data", "crc", "trace", "trace_crc")
_INSERT = (
    f"INSERT INTO catalog_sessions ({', '.join(_COLUMNS)}) SELECT * FROM {_arrays(_TYPED)}"
    " ON CONFLICT (id) DO NOTHING RETURNING id"
)
_UPDATE = (
    f"UPDATE catalog_sessions s SET {', '.join(f'{name} = i.{name}' for name in _COLUMNS[1:])}"
    f" FROM {_arrays(_TYPED)} WHERE s.id = i.id"
)
_FOLD = f"""
INSERT INTO catalog_folds (id, state, tally, listener, said, crc)
SELECT * FROM {_arrays("id text, state bytea, tally bytea, listener bytea, said bigint, crc bigint")}
ON CONFLICT (id) DO UPDATE SET state = excluded.state, tally = excluded.tally,
    listener = excluded.listener, said = excluded.said, crc = excluded.crc
"""
_LABEL = (
    "INSERT INTO catalog_labels (tag, updated, id, auto)"
    f" SELECT * FROM {_arrays('tag bytea, updated bigint, id text, auto boolean')}"
)
_SAID = "seq, last, place, time, role, name, streaming"
_SAID_TYPED = "seq bigint, last bigint, place bigint, time bigint, role text, name bytea, streaming boolean, words text"
_SAY = f"""
INSERT INTO catalog_said (session, number, {_SAID}, words)
SELECT session, number, {_SAID}, words::tsvector FROM {_arrays(f"session text, number bigint, {_SAID_TYPED}")}
"""
_LEARN = "INSERT INTO catalog_words SELECT unnest($1::text[]) ON CONFLICT DO NOTHING"


class RowChange(msgspec.Struct):
    """All rows to write about one session."""

    id: str
    version: int  # of the row that it continues; 0 if there is none
    first: int  # the number of the first row of its texts
    columns: tuple[Any, ...]
    fold: tuple[Any, ...]
    labels: list[tuple[Any, ...]]
    whole: bool  # whether earlier texts are discarded
    was_streaming: bool
    gone_titles: bool
    gone_tags: list[bytes]
    gone: list[int]
    said: list[tuple[Any, ...]]
    words: set[str]

    @property
    def place(self) -> tuple[int, int]:
        """The version and number that must be found when the change is written."""
        return self.version, self.first


def make_ready(updates: Iterable[IndexUpdate], known: Mapping[str, Any], priced: str) -> list[RowChange]:
    """Return the changes in the order of their ids; ``known`` has listeners, ``priced`` is the prices' mark."""
    by_id = {update.row.meta.session_id: update for update in updates}
    return [_change(by_id[id], known.get(id), priced) for id in sorted(by_id)]


def _change(update: IndexUpdate, kept: Any, priced: str) -> RowChange:
    id = update.row.meta.session_id
    goes_on = kept is not None and not update.whole
    listener = _unpacker.decode(kept["listener"]) if goes_on and kept["listener"] else Listener()
    first = kept["said"] if kept is not None else 0
    was_streaming = goes_on and bool(listener.streams)
    changes = listener.hear(update.events) if update.events else IndexChanges()
    streaming = listener.shown_streams() if update.events else []
    said, words = said_rows(id, first, changes.heard, streaming)
    packed = _pack(listener) if update.events or goes_on else b""
    crc = fold_crc(update.state, update.tally, packed)
    return RowChange(
        id=id,
        version=update.version,
        first=first,
        columns=_columns(update, priced),
        fold=(id, update.state, update.tally, packed, first + len(said), crc),
        labels=label_rows(update.row.meta),
        whole=update.whole,
        was_streaming=was_streaming and bool(update.events),
        gone_titles=changes.gone_titles,
        gone_tags=[key_of(tag) for tag in changes.gone_tags],
        gone=[seq for seq in map(int, changes.gone) if clamped(seq) == seq],
        said=said,
        words=words,
    )


def _columns(update: IndexUpdate, priced: str) -> tuple[Any, ...]:
    meta, trace = update.row.meta, update.row.trace
    data, traced = stored(meta), _encode(trace)
    return (
        *(meta.session_id, fold_id(meta.session_id), clamped(meta.updated_at)),
        *map(_optional, (meta.agent_id, meta.model, meta.parent, meta.cwd)),
        *(meta.status, meta.archived, trace.is_settled, trace.asks, trace.etag, trace.folder),
        *(priced, data, crc32(data), traced, crc32(traced)),
        *(SORTS[name](meta) for name in ("created", "title", "messages", "tokens", "cost", "size")),
        text_of(meta),
    )


def column_values(update: IndexUpdate) -> dict[str, Any]:
    """Return the sort keys and filter columns of a session, by the names of the columns."""
    found = dict(zip(_COLUMNS, _columns(update, ""), strict=True))
    return {name: found[name] for name in found if name not in _CARRIED}


def label_rows(meta: SessionMetadata) -> list[tuple[Any, ...]]:
    """Return the rows of the labels of a session."""
    is_auto = {key_of(tag): True for tag in meta.auto_tags}
    is_auto.update((key_of(tag), False) for tag in meta.tags)
    updated = clamped(meta.updated_at)
    return [(tag, updated, meta.session_id, auto) for tag, auto in is_auto.items()]


def said_rows(
    id: str, first: int, heard: Sequence[Heard], streaming: Sequence[Heard]
) -> tuple[list[tuple[Any, ...]], set[str]]:
    """Return the rows of a session's texts, and all of their words."""
    rows: list[tuple[Any, ...]] = []
    words: set[str] = set()
    for number, one in enumerate(chain(heard, streaming)):
        said, vector = one.said, vector_of(one.said.text)
        words |= vector.words
        last = None if one.last is None else clamped(one.last)
        place = (clamped(one.seq), last, clamped(one.offset), clamped(one.timestamp))
        is_open = number >= len(heard)
        rows.append((id, first + number, *place, said.role, _optional(said.name), is_open, vector.text))
    return rows, words


# -- writing -----------------------------------------------------------------------------------
async def put(connection: Connection, changes: Sequence[RowChange], unknown: Collection[str]) -> list[str]:
    """Write all changes whose row is unchanged; return the ids of the others.

    Words in ``unknown`` are added to their table.
    """
    ids = [change.id for change in changes]
    rows = await connection.fetch(
        "SELECT s.id, s.crc, s.trace_crc, f.said FROM catalog_sessions s"
        " LEFT JOIN catalog_folds f USING (id) WHERE s.id = ANY($1::text[])"
        " ORDER BY s.id FOR UPDATE OF s",
        ids,
    )
    there = {row["id"]: (version_of(row["crc"], row["trace_crc"]), row["said"]) for row in rows}
    fit = [change for change in changes if there.get(change.id, _NONE) == change.place]
    new = [change for change in fit if not change.version]
    added = set()
    if new:
        added = {row["id"] for row in await connection.fetch(_INSERT, *_transposed([change.columns for change in new]))}
    old = [change for change in fit if change.version]
    if old:
        await connection.execute(_UPDATE, *_transposed([change.columns for change in old]))
    done = [change for change in fit if change.version or change.id in added]
    await _put_rest(connection, done, unknown)
    written = {change.id for change in done}
    return [id for id in ids if id not in written]


def _transposed(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


async def _put_rest(connection: Connection, changes: Sequence[RowChange], unknown: Collection[str]) -> None:
    if not changes:
        return
    await connection.execute(_FOLD, *_transposed([change.fold for change in changes]))
    ids = [change.id for change in changes]
    await connection.execute("DELETE FROM catalog_labels WHERE id = ANY($1::text[])", ids)
    labels = [label for change in changes for label in change.labels]
    if labels:
        await connection.execute(_LABEL, *_transposed(labels))
    await _drop(connection, changes)
    said = [row for change in changes for row in change.said]
    if said:
        await connection.execute(_SAY, *_transposed(said))
        # In one order everywhere, so that no two wait for each other.
        words = {word for change in changes for word in change.words if word in unknown}
        await connection.execute(_LEARN, sorted(words))


async def _drop(connection: Connection, changes: Sequence[RowChange]) -> None:
    """Remove earlier texts that no longer count."""
    delete = "DELETE FROM catalog_said s"
    for condition, ids in (
        ("true", [change.id for change in changes if change.whole]),
        ("streaming", [change.id for change in changes if change.was_streaming]),
        ("role = 'title'", [change.id for change in changes if change.gone_titles]),
    ):
        if ids:
            await connection.execute(f"{delete} WHERE session = ANY($1::text[]) AND {condition}", ids)
    tags = [(change.id, tag) for change in changes for tag in change.gone_tags]
    if tags:
        named = "unnest($1::text[], $2::bytea[]) AS i (session, tag) WHERE s.session = i.session"
        await connection.execute(f"{delete} USING {named} AND role = 'tag' AND name = i.tag", *_transposed(tags))
    gone = [(change.id, seq) for change in changes for seq in change.gone]
    if gone:
        named = "unnest($1::text[], $2::bigint[]) AS i (session, seq) WHERE s.session = i.session"
        await connection.execute(f"{delete} USING {named} AND i.seq IN (s.seq, s.last)", *_transposed(gone))


async def remove(connection: Connection, ids: Collection[str]) -> None:
    """Remove deleted sessions."""
    for table, column in (("sessions", "id"), ("labels", "id"), ("folds", "id"), ("said", "session")):
        await connection.execute(f"DELETE FROM catalog_{table} WHERE {column} = ANY($1::text[])", sorted(ids))


# -- columns -----------------------------------------------------------------------------------
def fold_crc(state: bytes, tally: bytes, listener: bytes) -> int:
    """Return the checksum of the kept state."""
    return crc32(listener, crc32(tally, crc32(state)))


def key_of(text: str) -> bytes:
    """Return a text in the form of the database: compared byte by byte, and short, whatever it is."""
    data = text.encode("utf-8", "surrogatepass")
    # No text begins with this byte.
    return data if len(data) <= _KEY_BYTES_MAX else b"\xff" + hashlib.sha256(data).digest()


def _optional(text: str | None) -> bytes | None:
    return None if text is None else key_of(text)


# Words as PostgreSQL stores and finds them: cut by us, never by PostgreSQL. Pure.
# PostgreSQL never cuts a text into words here, since every server does that a little differently. It gets the words of
# the folded text with their places, so that it finds what SQLite finds.
# What it cannot store is marked by words in capitals, which no folded text has: LONG if the places of the words are not
# stored, because there are too many; GIANT if a word is longer than can be stored, and only its beginning is; HUGE if
# there are too many words altogether, and none is stored.
# Such an event is a candidate more often than needed, and is excluded when its log is read.
_WORD_CHARS_MAX = 500  # so much of a word is stored: at most 2,000 bytes, of 2,046 that PostgreSQL takes
GIANT = "GIANT"

_PLACES_MAX = 16_383
_PLACES_OF_ONE_MAX = 255
_BYTES_MAX = 900_000
_CHARS_SURELY_FEW = 60_000
_NOTHING = "'NOTHING'"


class Tsquery(Fts5):
    """The syntax of expressions for PostgreSQL. Words contain nothing that would end a quote."""

    def phrase(self, words: Iterable[str], *, ends_open: bool) -> str:
        """Return the condition for consecutive words; without stored places, for all of them anywhere."""
        parts = [f"'{word[:_WORD_CHARS_MAX]}'" for word in words]
        if ends_open:
            parts[-1] += ":*"
        if len(parts) == 1:
            return parts[0]
        return f"({' <-> '.join(parts)} | 'LONG' & {' & '.join(parts)})"

    def any_of(self, expressions: Iterable[str]) -> str:
        found = list(expressions)
        return f"({' | '.join(found)})" if found else _NOTHING

    def all_of(self, expressions: Iterable[str]) -> str:
        return " & ".join(expressions)

    def but_not(self, wanted: str, unwanted: str) -> str:
        return f"({wanted}) & !{unwanted}"


def match_of(query: Query, expand: Callable[[str, bool], list[str]]) -> str | None:
    """Return the query for PostgreSQL; None if every event has to be read."""
    # Of the exclusions only those that are certain may count.
    certain = [term for term in query.excluded if len(term.words) == 1 and len(term.words[0]) < _WORD_CHARS_MAX]
    match = Query(query.groups, certain).index_match(expand, Tsquery())
    return None if match is None else f"({match}) | 'HUGE'"


class Vector(msgspec.Struct, frozen=True):
    """The words of a text as PostgreSQL reads them."""

    text: str
    words: frozenset[str]  # those that can be found by a part of them; others are found by their marks


def vector_of(text: str) -> Vector:
    """Return the words of a text to be indexed."""
    words = words_of(fold(text))
    places: dict[str, list[int]] = {}
    for number, word in enumerate(words, 1):
        places.setdefault(word[:_WORD_CHARS_MAX], []).append(number)
    has_giant = any(len(word) >= _WORD_CHARS_MAX for word in places)
    is_long = has_giant or len(words) > _PLACES_MAX or max(map(len, places.values()), default=0) > _PLACES_OF_ONE_MAX
    if len(text) > _CHARS_SURELY_FEW:
        size = sum(len(word.encode()) + 4 for word in places)
        if size > _BYTES_MAX:
            return Vector("'HUGE'", frozenset())
        is_long = is_long or size + 2 * len(words) > _BYTES_MAX
    if is_long:
        marks = " 'LONG' 'GIANT'" if has_giant else " 'LONG'"
        kept = " ".join(f"'{word}'" for word in places) + marks
    else:
        kept = " ".join(f"'{word}':{','.join(map(str, at))}" for word, at in places.items())
    return Vector(kept, frozenset(word for word in places if len(word) < _WORD_CHARS_MAX))


# The audit of an index in PostgreSQL: rows by their checksums, the rest by rows and logs.
# Its pages and indexes are the server's to check. Every statement is short: the connection also carries the appends of
# sessions.
_ROWS_AT_ONCE = 100
_SAID_AT_ONCE = 200
_SEQ_MIN, _SEQ_MAX = -(1 << 63), (1 << 63) - 1
_ROWS = """
SELECT s.*, (SELECT count(*) FROM catalog_labels l WHERE l.id = s.id) AS labels,
    ARRAY(SELECT l.tag FROM catalog_labels l WHERE l.id = s.id AND l.updated = s.updated
        ORDER BY l.tag) AS tags,
    ARRAY(SELECT l.auto FROM catalog_labels l WHERE l.id = s.id AND l.updated = s.updated
        ORDER BY l.tag) AS autos
FROM catalog_sessions s WHERE s.id > $1 ORDER BY s.id LIMIT $2
"""
# Rows that only one of both has, if the row is still the one that was read.
_DIFFERENCE = f"""
WITH told AS (SELECT {_SAID}, words::tsvector AS words FROM {_arrays(_SAID_TYPED, 5)}),
    kept AS (SELECT {_SAID}, words FROM catalog_said WHERE session = $1 AND seq > $3 AND seq <= $4)
SELECT 1 FROM catalog_sessions WHERE id = $1 AND etag = $2 AND (
    EXISTS (SELECT * FROM kept EXCEPT ALL SELECT * FROM told)
    OR EXISTS (SELECT * FROM told EXCEPT ALL SELECT * FROM kept)
)
"""


def audit_tables(fetch: Callable[..., list[Any]], hear: Hear | None) -> Iterator[None]:
    """Compare the tables with each other and with the logs. Raises IndexDamaged."""
    last = ""
    while True:
        rows = fetch(_ROWS, last, _ROWS_AT_ONCE)
        for found in rows:
            last = found["id"]
            # A row that matches its checksums, and whose columns and labels match it.
            row = whole_row(found)
            meta = row.meta
            if any(found[name] != value for name, value in column_values(IndexUpdate(row)).items()):
                raise IndexDamaged("what lists are sorted and narrowed by")
            labels = sorted((tag, auto) for tag, _, _, auto in label_rows(meta))
            if found["labels"] != len(labels) or labels != list(zip(found["tags"], found["autos"], strict=True)):
                raise IndexDamaged("the labels of a session")
            kept = row
            told = hear(kept) if hear is not None else None
            if told is not None:
                yield from _compare(fetch, last, kept.trace.etag, told)
            yield
        if len(rows) < _ROWS_AT_ONCE:
            return


def whole_row(found: Any) -> Row:
    """Return a row that matches its checksums. Raises IndexDamaged."""
    return read_whole(*(found[name] for name in ("id", "data", "crc", "trace", "trace_crc")))


def _compare(fetch: Callable[..., list[Any]], id: str, etag: str, told: Told) -> Iterator[None]:
    rows = [row[2:] for row in said_rows(id, 0, told.said, told.streaming)[0]]
    rows.sort(key=lambda row: row[0])
    after = _SEQ_MIN
    while True:
        some, rows = rows[:_SAID_AT_ONCE], rows[_SAID_AT_ONCE:]
        while some and rows and rows[0][0] == some[-1][0]:  # the texts of one event stay together
            some.append(rows.pop(0))
        until = some[-1][0] if rows else _SEQ_MAX
        columns = [list(column) for column in zip(*some, strict=True)] or [[]] * 8
        if fetch(_DIFFERENCE, id, etag, after, until, *columns):
            raise IndexDamaged(f"what was said in session {id}")
        if not rows:
            return
        after = until
        yield
