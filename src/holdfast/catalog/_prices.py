"""What requests cost: a table of prices that users can change, and sums that never guess.

A model without a price is unknown: its cost is None and its tokens are counted as unpriced, never
as free.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.catalog._data import data_lines, price_mark
from holdfast.catalog._hours import Hour, Spent
from holdfast.errors import InvalidData, UsageError

if TYPE_CHECKING:
    # Not loaded with the prices: it brings the vocabulary, and every list needs prices.
    from holdfast.catalog._tally import Tally
    from holdfast.model import SessionMetadata

_MILLION = 1_000_000
_REMEMBERED_MAX = 10_000
_MEMBERS = ("input", "output", "cache_read", "cache_write")
# What providers put around the name of a model: who serves it before it, its date after it.
_BEFORE = r"(?:.*[/:.])?"
_AFTER = r"(?:[-@](?:\d{8}|\d{4}-\d\d-\d\d|latest|\d{3}))?(?:-v\d+(?::\d+)?)?(?::free)?"


class Price(msgspec.Struct, frozen=True):
    """US dollars for a million tokens. Without prices of their own, cached tokens cost as input."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def cost(self, spent: Spent) -> float:
        """What these tokens cost."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        dollars = (
            spent.fresh * self.input
            + spent.output * self.output
            + spent.cache_read * read
            + spent.cache_write * write
        )
        return dollars / _MILLION


class Bill(msgspec.Struct, array_like=True):
    """A cost, and what is missing from it."""

    cost: float = 0.0
    unpriced: int = 0
    """Tokens of models without a price."""
    known: bool = False
    """Whether anything was priced at all."""

    def add(self, other: Bill) -> None:
        """Count another's figures in."""
        self.cost += other.cost
        self.unpriced += other.unpriced
        self.known = self.known or other.known

    @property
    def total(self) -> float | None:
        """The cost; None if some or all of it is unknown."""
        return self.cost if self.known and not self.unpriced else None


class Prices:
    """Prices by model. The user's own come first, then those that come with this version."""

    def __init__(self, own: Mapping[str, Price] | None = None) -> None:
        self._own = dict(own or {})
        self._found: dict[str, Price | None] = {}

    @cached_property
    def mark(self) -> str:
        """What tells this table from another one."""
        return price_mark(self._own)

    @cached_property
    def _patterns(self) -> list[tuple[re.Pattern[str], Price]]:
        return [
            *((_own_pattern(name), price) for name, price in _by_length(self._own)),
            *((_listed_pattern(name), price) for name, price in _by_length(price_list())),
        ]

    def of(self, model: str) -> Price | None:
        """The price of a model; None if nobody said one."""
        if model not in self._found:
            if len(self._found) >= _REMEMBERED_MAX:
                self._found.clear()
            self._found[model] = self._look_up(model)
        return self._found[model]

    def _look_up(self, model: str) -> Price | None:
        name = model.lower()
        for pattern, price in self._patterns:
            if pattern.fullmatch(name):
                return price
        return None


@cache
def price_list() -> dict[str, Price]:
    """Return the prices that come with this version, by model."""
    rows = (line.split() for line in data_lines("prices.txt"))
    return {name: Price(*map(float, figures)) for name, *figures in rows}


def bill_of(hour: Hour, prices: Prices, model: str | None = None) -> Bill:
    """What an hour cost, of one model or of all."""
    bill = Bill()
    for name, spent in hour.paid.items():
        if model in (None, name):
            bill.add(Bill(spent.cost, 0, known=True))
    for name, spent in hour.spent.items():
        if model in (None, name):
            bill.add(price_spent(prices, name, spent))
    return bill


def price_spent(prices: Prices, model: str, spent: Spent) -> Bill:
    """What requests to a model cost of which the log names no cost."""
    price = prices.of(model)
    only_total = spent.total and not spent.input and not spent.output
    if price is None or only_total:
        return Bill(0.0, spent.total, known=False)
    return Bill(price.cost(spent), 0, known=True)


def cost_of(tally: Tally, prices: Prices) -> float | None:
    """What a session cost, in US dollars.

    What the log itself says counts first, then the prices. None if nothing was used, or if the
    price of any of its models is not known.
    """
    bill = Bill()
    for hour in tally.all_hours():
        bill.add(bill_of(hour, prices))
    return bill.total


def repriced(meta: SessionMetadata, tally: bytes, prices: Prices | None) -> SessionMetadata:
    """A session with its cost by these prices, computed from the bytes of its tally."""
    from holdfast.catalog._tally import Tally

    try:
        cost = cost_of(Tally.from_bytes(tally), prices or Prices())
    except InvalidData:
        return meta  # of another version: it is read anew when its log goes on
    return meta if cost == meta.cost else msgspec.structs.replace(meta, cost=cost)


def read_prices(document: Mapping[str, Any]) -> dict[str, Price]:
    """The prices in a table: by model, or by a pattern with ``*``; dollars per million tokens.

    Raises UsageError, naming the model and what is wrong with it.
    """
    return {str(name).lower(): _read_price(str(name), table) for name, table in document.items()}


def _read_price(name: str, table: Any) -> Price:
    if not isinstance(table, Mapping):
        raise UsageError(
            f"the price of {name!r} must be a table with input and output, not {table!r}"
        )
    strange = sorted(set(table) - set(_MEMBERS))
    if strange:
        raise UsageError(
            f"the price of {name!r} has {strange[0]!r}, which is none of {', '.join(_MEMBERS)}"
        )
    missing = [member for member in ("input", "output") if member not in table]
    if missing:
        raise UsageError(f"the price of {name!r} lacks {missing[0]}")
    for member, value in table.items():
        if type(value) not in (int, float) or not 0 <= value < math.inf:
            raise UsageError(
                f"the price of {name!r}: {member} must be dollars per million tokens, not {value!r}"
            )
    return Price(**{member: float(value) for member, value in table.items()})


def _by_length(named: Mapping[str, Price]) -> list[tuple[str, Price]]:
    """The longest name first: it is the most exact."""
    return sorted(named.items(), key=lambda item: (-len(item[0]), item[0]))


def _own_pattern(name: str) -> re.Pattern[str]:
    """A name of the user: ``*`` is anything, and around it may be what providers put there."""
    middle = re.escape(name.lower()).replace(r"\*", ".*")
    return re.compile(f"{_BEFORE}{middle}{_AFTER}", re.DOTALL)


def _listed_pattern(name: str) -> re.Pattern[str]:
    return re.compile(f"{_BEFORE}{re.escape(name)}{_AFTER}", re.DOTALL)
