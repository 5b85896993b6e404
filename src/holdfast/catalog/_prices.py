"""The cost of requests: a table of prices that users can change, and sums that never guess.

A model without a price is unknown: its cost is None and its tokens are counted as unpriced, never as free.
Every look into an index needs the table, few need the hours of ``_usage``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.catalog._data import data_lines, price_mark
from holdfast.errors import InvalidData, UsageError

if TYPE_CHECKING:
    from holdfast.catalog._tally import Tally
    from holdfast.catalog._usage import Hour, Spent
    from holdfast.model import SessionMetadata

_MILLION = 1_000_000
_REMEMBERED_MAX = 10_000
_MEMBERS = ("input", "output", "cache_read", "cache_write")
# What providers add to the name of a model: their own name before it, its date after it.
_BEFORE = r"(?:.*[/:.])?"
_AFTER = r"(?:[-@](?:\d{8}|\d{4}-\d\d-\d\d|latest|\d{3}))?(?:-v\d+(?::\d+)?)?(?::free)?"


class Price(msgspec.Struct, frozen=True):
    """US dollars for a million tokens. Cached tokens without prices of their own cost as input."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def cost(self, spent: Spent) -> float:
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        cached = spent.cache_read * read + spent.cache_write * write
        return (spent.fresh * self.input + spent.output * self.output + cached) / _MILLION


class Bill(msgspec.Struct, array_like=True):
    """A cost, and what is missing from it."""

    cost: float = 0.0
    unpriced: int = 0  # tokens of models without a price
    known: bool = False  # whether anything was priced at all

    def add(self, other: Bill) -> None:
        self.cost += other.cost
        self.unpriced += other.unpriced
        self.known = self.known or other.known

    @property
    def so_far(self) -> float | None:
        """The known part of the cost; None if nothing is."""
        return self.cost if self.known else None

    @property
    def total(self) -> float | None:
        """The cost; None if some or all of it is unknown."""
        return self.cost if self.known and not self.unpriced else None


class Prices:
    """Prices by model. The user's own take precedence over those of this version."""

    def __init__(self, own: Mapping[str, Price] | None = None) -> None:
        self._own = dict(own or {})
        self._found: dict[str, Price | None] = {}

    @cached_property
    def mark(self) -> str:
        """The mark of this table, which distinguishes it from another one."""
        return price_mark(self._own)

    @cached_property
    def _names(self) -> list[tuple[str, Price]]:
        """Names with ``*`` for anything; the longest is the most exact."""
        return [
            (name.lower(), prices[name])
            for prices in (self._own, price_list())
            for name in sorted(prices, key=lambda name: (-len(name), name))
        ]

    def of(self, model: str) -> Price | None:
        """Return the price of a model; None if there is none."""
        if model not in self._found:
            if len(self._found) >= _REMEMBERED_MAX:
                self._found.clear()
            name = model.lower()
            self._found[model] = next((price for known, price in self._names if _is_of(known, name)), None)
        return self._found[model]


def _is_of(known: str, model: str) -> bool:
    """Return whether a model has the name of a price, with the additions of providers."""
    # Most names are skipped without an expression: compiling all of them takes longer than a command.
    if not all(part in model for part in known.split("*")):
        return False
    return bool(re.fullmatch(_BEFORE + re.escape(known).replace(r"\*", ".*") + _AFTER, model, re.DOTALL))


@cache
def price_list() -> dict[str, Price]:
    rows = (line.split() for line in data_lines("prices.txt"))
    return {name: Price(*map(float, figures)) for name, *figures in rows}


def bill_of(hour: Hour, prices: Prices) -> Bill:
    bill = Bill()
    for spent in hour.paid.values():
        bill.add(Bill(spent.cost, 0, known=True))
    for name, spent in hour.spent.items():
        bill.add(price_spent(prices, name, spent))
    return bill


def price_spent(prices: Prices, model: str, spent: Spent) -> Bill:
    """Return the cost of requests to a model whose cost is not in the log."""
    price = prices.of(model)
    if price is None or (spent.total and not spent.input and not spent.output):
        return Bill(0.0, spent.total)
    return Bill(price.cost(spent), 0, known=True)


def cost_of(tally: Tally, prices: Prices) -> float | None:
    """Return the cost of a session in US dollars, from the log or by prices; None if part of it is unknown."""
    return whole_bill(tally, prices).total


def whole_bill(tally: Tally, prices: Prices) -> Bill:
    bill = Bill()
    for hour in tally.all_hours():
        bill.add(bill_of(hour, prices))
    return bill


def repriced(meta: SessionMetadata, tally: bytes, prices: Prices | None) -> SessionMetadata:
    """Return a session with its cost by these prices, computed from the bytes of its tally."""
    from holdfast.catalog._tally import Tally

    try:
        cost = cost_of(Tally.from_bytes(tally), prices or Prices())
    except InvalidData:
        return meta  # of another version: it is read anew when its log grows
    return meta if cost == meta.cost else msgspec.structs.replace(meta, cost=cost)


def read_prices(document: Mapping[str, Any]) -> dict[str, Price]:
    """Return the prices in a table, dollars per million tokens by model or pattern with ``*``. Raises UsageError."""
    return {str(name).lower(): _read_price(str(name), table) for name, table in document.items()}


def _read_price(name: str, table: Any) -> Price:
    if not isinstance(table, Mapping):
        raise UsageError(f"the price of {name!r} must be a table with input and output, not {table!r}")
    strange = sorted(set(table) - set(_MEMBERS))
    if strange:
        raise UsageError(f"the price of {name!r} has {strange[0]!r}, which is none of {', '.join(_MEMBERS)}")
    for member in ("input", "output"):
        if member not in table:
            raise UsageError(f"the price of {name!r} lacks {member}")
    for member, value in table.items():
        if type(value) not in (int, float) or not 0 <= value < math.inf:
            raise UsageError(f"the price of {name!r}: {member} must be dollars per million tokens, not {value!r}")
    return Price(**{member: float(value) for member, value in table.items()})
