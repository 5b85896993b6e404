"""The audit of an SQLite index: by the database's own checks, and by rows and logs.

Everything is read on a separate connection, a little at a time, so that nobody waits for it.
"""

from __future__ import annotations

from array import array
from collections import Counter
from typing import TYPE_CHECKING, Any

from holdfast.catalog._faults import IndexDamaged
from holdfast.catalog._query import fold, words_of
from holdfast.catalog.sqlite.rows import COLUMNS, column_values, label_keys, read_whole, trace_values
from holdfast.catalog.sqlite.search import last_id, said_values
from holdfast.storage.sqlite import transaction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.catalog._catch_up import Hear
    from holdfast.catalog._index import Row
    from holdfast.catalog._search_texts import Told
    from holdfast.storage.sqlite import Connection

_ROWS_AT_ONCE = 200
_WORDS_AT_ONCE = 200
_PLACES_AT_ONCE = 10_000
# FTS5 cuts longer words.
_WORD_BYTES_MAX = 32_768
_MASK = (1 << 64) - 1
_ROWS = (
    f"SELECT row, {', '.join(COLUMNS)}, folder, settled, asks, id, data, crc, trace, trace_crc"
    " FROM sessions WHERE row > ? ORDER BY row LIMIT ?"
)
_IDS = "SELECT min(id), count(*) FROM said_words_docsize"
_SAID = "SELECT id, seq, last, place, time, role, tool, name, streaming FROM said WHERE session = ?"
_TERMS = "SELECT term FROM said_vocabulary WHERE term > CAST(? AS TEXT) LIMIT ?"
_PLACES = "SELECT doc, offset FROM said_instances WHERE term = CAST(? AS TEXT)"


def audit_tables(connection: Connection, hear: Hear | None) -> Iterator[None]:
    """Compare the tables with each other and with the logs. Raises IndexDamaged."""
    # From SQLite 3.44 on this checks full-text tables as well. Their own command for that would block all writers
    # meanwhile, and knows nothing of what the words should be.
    [found] = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise IndexDamaged(str(found))
    yield
    # The full-text table is append-only: words that are summed up now stay the same up to this row. Ids are assigned
    # one after the other, and never again.
    with transaction(connection, to_write=False):
        last = last_id(connection)
        least, count = connection.execute(_IDS).fetchone()
        lowest = connection.execute("SELECT min(id) FROM said").fetchone()[0]
    # A number that is far off would also need more memory than there is.
    if count != last or (least or 1) != 1 or (lowest or 1) < 1:
        raise IndexDamaged("the numbers of what was said")
    sums = array("Q", bytes(8 * (last + 1)))
    if hear is not None:
        yield from _sum_words(connection, sums)
    row = -1
    while True:
        rows = _read_rows(connection, row)
        for number, kept, said in rows:
            told = hear(kept) if hear is not None else None
            if told is not None and all(values[0] <= last for values in said):
                _compare(kept.meta.session_id, said, told, sums)
            row = number
            yield
        if len(rows) < _ROWS_AT_ONCE:
            return


def _read_rows(connection: Connection, after: int) -> list[tuple[int, Row, list[Any]]]:
    """Return the next rows, each checked against its checksum, labels and columns."""
    found = []
    with transaction(connection, to_write=False):
        for number, *columns in connection.execute(_ROWS, (after, _ROWS_AT_ONCE)).fetchall():
            *values, id, data, crc, trace, trace_crc = columns
            kept = read_whole(id, data, crc, trace, trace_crc)
            if values != [*column_values(kept.meta), *trace_values(kept.trace)]:
                raise IndexDamaged("what lists are sorted and narrowed by")
            query = "SELECT tag, updated, id FROM labels WHERE row = ?"
            labels = Counter(connection.execute(query, (number,)).fetchall())
            place = (values[0], kept.meta.session_id)
            if labels != Counter((tag, *place) for tag in label_keys(kept.meta)):
                raise IndexDamaged("the labels of a session")
            found.append((number, kept, connection.execute(_SAID, (number,)).fetchall()))
    return found


def _compare(id: str, said: list[Any], told: Told, sums: array[int]) -> None:
    kept = Counter((*values, sums[number]) for number, *values in said)
    expected = Counter(
        (*said_values(one, is_open=is_open), _sum_of(one.said.text))
        for heard, is_open in ((told.said, False), (told.streaming, True))
        for one in heard
    )
    if kept != expected:
        raise IndexDamaged(f"what was said in session {id}")


def _sum_of(text: str) -> int:
    """Add up the words of a text as ``_sum_some`` does those of the table."""
    places: dict[str, int] = {}
    for at, word in enumerate(words_of(fold(text))):
        # Squared, so that two places that moved against each other do not cancel out.
        places[word] = places.get(word, 0) + at * at + 1
    return sum(_hash(word.encode()[:_WORD_BYTES_MAX]) * at for word, at in places.items()) & _MASK


def _hash(word: bytes) -> int:
    return hash(word) & 0xFFFFFFFF


def _sum_words(connection: Connection, sums: array[int]) -> Iterator[None]:
    """Add up the words of each row with their places, each word looked up as a search does it."""
    after: bytes | None = b""
    while after is not None:
        # A word that was cut may not be valid text any more.
        text, connection.text_factory = connection.text_factory, bytes
        try:
            after = _sum_some(connection, sums, after)
        finally:
            connection.text_factory = text
        yield


def _sum_some(connection: Connection, sums: array[int], after: bytes) -> bytes | None:
    """Add up what comes after a word; return the last word that was added up, None at the end."""
    terms = connection.execute(_TERMS, (after, _WORDS_AT_ONCE)).fetchall()
    done = 0
    for (term,) in terms:
        factor = _hash(term)
        for row, at in connection.execute(_PLACES, (term,)):
            done += 1
            if 0 <= row < len(sums):
                sums[row] = (sums[row] + factor * (at * at + 1)) & _MASK  # as in _sum_of
        if done >= _PLACES_AT_ONCE:
            return bytes(term)
    return bytes(terms[-1][0]) if len(terms) == _WORDS_AT_ONCE else None
