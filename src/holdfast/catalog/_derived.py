"""What is derived from a session's events beside its row: words to search, a tally to count."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from holdfast.catalog._search_tables import add, create_tables, forget, is_worn
from holdfast.catalog._topics import auto_tags

if TYPE_CHECKING:
    from holdfast.catalog._prices import Prices
    from holdfast.catalog._tally import Tally
    from holdfast.model import Event

__all__ = ["Tallied", "add", "create_tables", "forget", "is_worn", "tallied"]


class Tallied(msgspec.Struct, frozen=True):
    """What a tally says of a session, and its bytes to go on from."""

    data: bytes = b""
    model: str | None = None
    auto_tags: tuple[str, ...] = ()
    cost: float | None = None
    estimate: int = 0
    """About how many tokens it has; 0 where it is told how many were used."""


def tallied(tally: Tally, events: Sequence[Event], prices: Prices | None = None) -> Tallied:
    """Feed a tally with the next events, and say what follows from it."""
    from holdfast.catalog._prices import cost_of

    tally.feed(events)
    cost = cost_of(tally, _prices() if prices is None else prices)
    return Tallied(tally.to_bytes(), tally.model, auto_tags(tally), cost, tally.estimate)


@cache
def _prices() -> Prices:
    from holdfast.catalog._prices import Prices

    return Prices()
