"""Sums over what the index holds, so that what is missing from it or altered in it is noticed.

SQLite notices little of what happens to the inside of its pages. What a row of a session says has a
checksum of its own; what leads to it has sums here, which are kept in the transaction that changes
it: over the places of sessions in each order that a list is read in, over what was said where, and
over the blocks of the full-text table. Whoever reads an index for the first time adds up anew.

Blocks are written by SQLite at times of its own, and a trigger on them is no way: they crash it. So
those that changed are found by their first and last neighbours: blocks of a range are written
together.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from zlib import crc32

from holdfast.catalog._faults import IndexDamaged
from holdfast.catalog.sqlite.places import MASK, PLACES

if TYPE_CHECKING:
    from holdfast.storage.sqlite import Connection

__all__ = [
    "SUMS_TABLE",
    "add_to_sums",
    "check_blocks",
    "check_said",
    "said_sums",
    "sum_blocks",
]

SUMS_TABLE = """
CREATE TABLE sums (
    kind INTEGER NOT NULL, place INTEGER NOT NULL, total INTEGER NOT NULL,
    print INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (kind, place)
) WITHOUT ROWID
"""
SAID, BLOCKS, TERMS = range(PLACES + 1, PLACES + 4)

# Ranges of blocks of 4 KB; of an index with more of them only some are looked at.
_BLOCKS_SHIFT = 10
_RANGES_MAX = 16
_SAID_SHIFT = 12
_RANGES_LOOKED_AT = 2

_SAID = (
    f"(((id & {MASK}) * 1000003 + (id >> 31) * 1000033 + (session & {MASK}) * 7919"
    f" + (session >> 31) * 7907 + (seq & {MASK}) * 104729 + (seq >> 31) * 104723"
    f" + (ifnull(last, -1) & {MASK}) * 15485863 + (ifnull(last, -1) >> 31) * 15485867"
    f" + (place & {MASK}) * 31 + (place >> 31) * 37 + (time & {MASK}) * 13 + (time >> 31) * 17"
    f" + role * 611953 + (tool & {MASK}) * 5 + (tool >> 31) * 3 + streaming * 7) & {MASK})"
)


def add_to_sums(connection: Connection, changes: Mapping[int, int], kind: int = PLACES) -> None:
    """Put what was added and taken away into the sums, within the caller's transaction."""
    for place, change in changes.items():
        if not change:
            continue
        # No upsert: for that SQLite sets a savepoint, for which the full-text table writes itself
        # to the file.
        done = connection.execute(
            "UPDATE sums SET total = total + ? WHERE kind = ? AND place = ?", (change, kind, place)
        )
        if not done.rowcount:
            insert = "INSERT INTO sums (kind, place, total) VALUES (?, ?, ?)"
            connection.execute(insert, (kind, place, change))


# -- what was said where -----------------------------------------------------------------------


def said_sums(connection: Connection, condition: str, values: Iterable[object]) -> dict[int, int]:
    """The sums of the rows that fit a condition."""
    query = f"SELECT id >> {_SAID_SHIFT}, sum({_SAID}) FROM said WHERE {condition} GROUP BY 1"
    return dict(connection.execute(query, tuple(values)).fetchall())


def check_said(connection: Connection) -> None:
    """Raise IndexDamaged unless it is as it was written; of much only a part is looked at."""
    query = "SELECT place, total FROM sums WHERE kind = ? AND total != 0"
    kept = dict(connection.execute(query, (SAID,)).fetchall())
    bounds = connection.execute(
        "SELECT (SELECT min(id) FROM said), (SELECT max(id) FROM said)"
    ).fetchone()
    if bounds[0] is None:
        if kept:
            raise IndexDamaged("what was said")
        return
    first, last = (bound >> _SAID_SHIFT for bound in bounds)
    if not kept or (min(kept), max(kept)) != (first, last):
        raise IndexDamaged("what was said")
    for place in _some(range(first, last + 1)):
        begin = place << _SAID_SHIFT
        end = begin + (1 << _SAID_SHIFT)
        found = said_sums(connection, "id >= ? AND id < ?", (begin, end))
        if found.get(place, 0) != kept.get(place, 0):
            raise IndexDamaged("what was said")


# -- the blocks of the full-text table ---------------------------------------------------------

_FIRST = "SELECT id, block FROM said_words_data WHERE id >= ? ORDER BY id LIMIT 1"
_LAST = "SELECT id, block FROM said_words_data WHERE id < ? ORDER BY id DESC LIMIT 1"
_WITHIN = "SELECT id, block FROM said_words_data WHERE id >= ? AND id < ?"
_SEGMENT_SHIFT = 37


def sum_blocks(connection: Connection) -> None:
    """Bring the sums up to the blocks as they are, within the caller's transaction."""
    # Asking for words lets the table write what it has gathered.
    connection.execute("SELECT 1 FROM said_vocabulary LIMIT 1").fetchall()
    query = "SELECT place, print FROM sums WHERE kind = ?"
    kept = dict(connection.execute(query, (BLOCKS,)).fetchall())
    found = _prints(connection)
    changed = {place for place, print in found.items() if kept.get(place) != print}
    gone = kept.keys() - found.keys()
    for place in gone:
        connection.execute("DELETE FROM sums WHERE kind = ? AND place = ?", (BLOCKS, place))
    for place in changed:
        _keep(connection, BLOCKS, place, _block_sum(connection, place), found[place])
    for segment in {_segment(place) for place in changed | gone}:
        _keep(connection, TERMS, segment, _term_sum(connection, segment))


def check_blocks(connection: Connection) -> None:
    """Raise IndexDamaged unless they are as they were written; of many some are looked at."""
    query = "SELECT place, total, print FROM sums WHERE kind = ?"
    kept = {place: (total, print) for place, total, print in connection.execute(query, (BLOCKS,))}
    found = _prints(connection)
    if found != {place: print for place, (_, print) in kept.items()}:
        raise IndexDamaged("the words")
    chosen = _some(found)
    if any(_block_sum(connection, place) != kept[place][0] for place in chosen):
        raise IndexDamaged("the words")
    query = "SELECT place, total FROM sums WHERE kind = ? AND total != 0"
    terms = dict(connection.execute(query, (TERMS,)).fetchall())
    segments = {segment for (segment,) in connection.execute(_SEGMENTS)}
    if segments != terms.keys():
        raise IndexDamaged("the words")
    segments = segments if len(chosen) == len(found) else set(map(_segment, chosen))
    if any(_term_sum(connection, segment) != terms.get(segment, 0) for segment in segments):
        raise IndexDamaged("the words")


_SEGMENTS = """
WITH RECURSIVE found (segment) AS (
    SELECT min(segid) FROM said_words_idx
    UNION ALL
    SELECT (SELECT min(segid) FROM said_words_idx WHERE segid > segment) FROM found
    WHERE segment IS NOT NULL
)
SELECT segment FROM found WHERE segment IS NOT NULL
"""


def _some(places: Iterable[int]) -> list[int]:
    """All of a few ranges; of many the first, and others by chance."""
    every = sorted(places)
    if len(every) <= _RANGES_MAX:
        return every
    return [every[0], *random.sample(every[1:], _RANGES_LOOKED_AT)]


def _prints(connection: Connection) -> dict[int, int]:
    """For every range that has blocks, what tells it from what it was before."""
    found: dict[int, int] = {}
    start = -(1 << 62)
    while (first := connection.execute(_FIRST, (start,)).fetchone()) is not None:
        place = first[0] >> _BLOCKS_SHIFT
        start = (place + 1) << _BLOCKS_SHIFT
        last = connection.execute(_LAST, (start,)).fetchone()
        found[place] = _weigh(*first) << 31 ^ _weigh(*last)
    return found


def _block_sum(connection: Connection, place: int) -> int:
    begin, end = place << _BLOCKS_SHIFT, (place + 1) << _BLOCKS_SHIFT
    return sum(_weigh(id, block) for id, block in connection.execute(_WITHIN, (begin, end)))


def _weigh(id: int, block: bytes) -> int:
    if not isinstance(block, bytes):
        raise IndexDamaged("the words")
    return crc32(block, (id ^ id >> 32) & 0xFFFFFFFF)


def _segment(place: int) -> int:
    return place >> (_SEGMENT_SHIFT - _BLOCKS_SHIFT)


def _term_sum(connection: Connection, segment: int) -> int:
    query = "SELECT term, pgno FROM said_words_idx WHERE segid = ?"
    return sum(
        crc32(term.encode() if isinstance(term, str) else term, page & 0xFFFFFFFF)
        for term, page in connection.execute(query, (segment,))
    )


def _keep(connection: Connection, kind: int, place: int, total: int, print: int = 0) -> None:
    done = connection.execute(
        "UPDATE sums SET total = ?, print = ? WHERE kind = ? AND place = ?",
        (total, print, kind, place),
    )
    if not done.rowcount:
        connection.execute("INSERT INTO sums VALUES (?, ?, ?, ?)", (kind, place, total, print))
