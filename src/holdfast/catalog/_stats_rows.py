"""The rows of the index as statistics need them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.catalog._index import IndexDamaged
from holdfast.catalog._sqlite_index import read_row
from holdfast.catalog._stats import Counted, Wanted, count_sessions

if TYPE_CHECKING:
    from holdfast.catalog._calendar import Calendar
    from holdfast.catalog._prices import Prices
    from holdfast.catalog._stats_shapes import Stats
    from holdfast.storage._sqlite import Connection

__all__ = ["count_index"]

_QUERY = "SELECT s.id, s.data, s.crc, f.tally FROM sessions s LEFT JOIN folds f USING (row)"


def count_index(
    connection: Connection,
    wanted: Wanted,
    prices: Prices,
    calendar: Calendar,
    *,
    auto_tags: bool = True,
) -> Stats:
    """The statistics of the sessions in an index; without ``auto_tags`` as if there were none.

    Raises IndexDamaged if something in it is not as written.
    """
    try:
        rows = _rows(connection, auto_tags=auto_tags)
        return count_sessions(rows, wanted, prices, calendar)
    except ValueError as error:
        raise IndexDamaged(f"the figures of a session: {error}") from error


def _rows(connection: Connection, *, auto_tags: bool) -> Iterator[Counted]:
    for id, data, crc, tally in connection.execute(_QUERY):
        meta = read_row(id, data, crc).meta
        if not isinstance(tally, bytes):
            raise IndexDamaged(f"what is kept of session {id}")
        yield Counted(
            id,
            meta.title,
            meta.tags,
            meta.auto_tags if auto_tags else (),
            meta.agent_id,
            meta.updated_at,
            tally,
        )
