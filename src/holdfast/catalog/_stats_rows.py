"""The rows of the index as statistics need them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.catalog._index import IndexDamaged
from holdfast.catalog._stats import Counted, Wanted, count_sessions

if TYPE_CHECKING:
    from holdfast.catalog._calendar import Calendar
    from holdfast.catalog._index import Index
    from holdfast.catalog._prices import Prices
    from holdfast.catalog._stats_shapes import Stats
    from holdfast.model import SessionMetadata

__all__ = ["count_index"]


def count_index(
    index: Index,
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
        rows = (_counted(meta, tally, auto_tags=auto_tags) for meta, tally in index.tallies())
        return count_sessions(rows, wanted, prices, calendar)
    except ValueError as error:
        raise IndexDamaged(f"the figures of a session: {error}") from error


def _counted(meta: SessionMetadata, tally: bytes, *, auto_tags: bool) -> Counted:
    return Counted(
        meta.session_id,
        meta.title,
        meta.tags,
        meta.auto_tags if auto_tags else (),
        meta.agent_id,
        meta.updated_at,
        tally,
    )
