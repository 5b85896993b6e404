"""The rows of the index as statistics need them, and the sums that it keeps of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import msgspec

from holdfast.catalog._faults import IndexDamaged
from holdfast.catalog._stats import Counted, Counter, Wanted
from holdfast.catalog._stats_sums import Period, Sums

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.catalog._calendar import Calendar
    from holdfast.catalog._index import Index
    from holdfast.catalog._prices import Prices
    from holdfast.catalog._stats_shapes import Stats
    from holdfast.model import SessionMetadata

_SHAPE = 2
"""Changes with the members of the sums: those of another one are not read."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Sums).decode


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
    counting = _Counting(index, wanted, prices, calendar, auto_tags=auto_tags)
    try:
        return counting.whole() if wanted.is_narrowed else counting.in_blocks()
    except ValueError as error:
        raise IndexDamaged(f"the figures of a session: {error}") from error


class _Counting:
    """One question for statistics."""

    def __init__(
        self,
        index: Index,
        wanted: Wanted,
        prices: Prices,
        calendar: Calendar,
        *,
        auto_tags: bool,
    ) -> None:
        self._index = index
        self._wanted = wanted
        self._prices = prices
        self._calendar = calendar
        self._auto_tags = auto_tags

    def whole(self) -> Stats:
        """By looking at every session."""
        counter = Counter(self._wanted, self._prices, self._calendar)
        self._add(counter, self._index.tallies())
        return counter.stats()

    def in_blocks(self) -> Stats:
        """By the sums that are kept; only blocks of which a part is wanted are looked at."""
        variant = f"{_SHAPE} {self._calendar.print} {self._prices.mark} {self._auto_tags:d}"
        counter = Counter(self._wanted, self._prices, self._calendar)
        with self._index.figures(variant, self._sum) as blocks:
            if blocks is None:
                return self.whole()
            count = 0
            for block, data in blocks:
                sums = _decode(data)
                count += sums.count
                if not counter.merge(sums):
                    self._add(counter, self._index.tallies(block))
            if count != self._index.count():
                raise IndexDamaged("the sums of sessions")
        return counter.stats()

    def _sum(self, block: int) -> bytes:
        counter = Counter(Wanted(), self._prices, self._calendar, get_args(Period))
        self._add(counter, self._index.tallies(block))
        return _encode(counter.sums())

    def _add(self, counter: Counter, rows: Iterable[tuple[SessionMetadata, bytes]]) -> None:
        for meta, tally in rows:
            counter.add(_counted(meta, tally, auto_tags=self._auto_tags))


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
