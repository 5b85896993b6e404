"""The audit of an index in PostgreSQL: rows by their checksums, the rest by what rows and logs say.

Its pages and indexes are the server's to check. Every statement is short: the connection also
carries what sessions append.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec

from holdfast.catalog._faults import IndexDamaged
from holdfast.catalog._index import IndexUpdate, Row, Trace
from holdfast.catalog.postgres.rows import column_values, label_rows, said_rows
from holdfast.catalog.sqlite.rows import read_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.catalog._audit import Hear, Told

__all__ = ["audit_tables"]

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
# What one of both has and the other has not, as long as the row is the one that was read.
_DIFFERENCE = """
WITH told AS (
    SELECT seq, last, place, time, role, name, streaming, words::tsvector AS words
    FROM unnest($5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[], $10::bytea[],
        $11::boolean[], $12::text[]) AS i (seq, last, place, time, role, name, streaming, words)
), kept AS (
    SELECT seq, last, place, time, role, name, streaming, words FROM catalog_said
    WHERE session = $1 AND seq > $3 AND seq <= $4
)
SELECT 1 FROM catalog_sessions WHERE id = $1 AND etag = $2 AND (
    EXISTS (SELECT * FROM kept EXCEPT ALL SELECT * FROM told)
    OR EXISTS (SELECT * FROM told EXCEPT ALL SELECT * FROM kept)
)
"""

_decode_trace = msgspec.json.Decoder(Trace).decode


def audit_tables(fetch: Callable[..., list[Any]], hear: Hear | None) -> Iterator[None]:
    """Compare what the tables hold with each other and with the logs. Raises IndexDamaged."""
    last = ""
    while True:
        rows = fetch(_ROWS, last, _ROWS_AT_ONCE)
        for found in rows:
            last = found["id"]
            kept = _checked(found)
            told = hear(kept) if hear is not None else None
            if told is not None:
                yield from _compare(fetch, last, kept.trace.etag, told)
            yield
        if len(rows) < _ROWS_AT_ONCE:
            return


def _checked(found: Any) -> Row:
    """A row, as its checksums say and its columns and labels as the row says."""
    if crc32(found["trace"]) != found["trace_crc"]:
        raise IndexDamaged("the row of a session")
    meta = read_row(found["id"], found["data"], found["crc"]).meta
    row = Row(meta, _decode_trace(found["trace"]))
    expected = column_values(IndexUpdate(row=row, state=b"", tally=b""))
    if any(found[name] != value for name, value in expected.items()):
        raise IndexDamaged("what lists are sorted and narrowed by")
    labels = sorted((tag, auto) for tag, _, _, auto in label_rows(meta))
    if found["labels"] != len(labels) or labels != list(
        zip(found["tags"], found["autos"], strict=True)
    ):
        raise IndexDamaged("the labels of a session")
    return row


def _compare(fetch: Callable[..., list[Any]], id: str, etag: str, told: Told) -> Iterator[None]:
    rows = [row[2:] for row in said_rows(id, 0, told.said, told.streaming)[0]]
    rows.sort(key=lambda row: row[0])
    after = _SEQ_MIN
    while True:
        some, rows = rows[:_SAID_AT_ONCE], rows[_SAID_AT_ONCE:]
        while some and rows and rows[0][0] == some[-1][0]:  # what one event said stays together
            some.append(rows.pop(0))
        until = some[-1][0] if rows else _SEQ_MAX
        columns = [list(column) for column in zip(*some, strict=True)] or [[]] * 8
        if fetch(_DIFFERENCE, id, etag, after, until, *columns):
            raise IndexDamaged(f"what was said in session {id}")
        if not rows:
            return
        after = until
        yield
