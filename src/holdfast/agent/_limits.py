"""The limits of one run, and its usage so far."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.agent._options import check_whole
from holdfast.agent._result import Reply, Usage
from holdfast.agent._run_log import cost_of
from holdfast.errors import UsageError
from holdfast.model import Event

if TYPE_CHECKING:
    from holdfast.catalog import Prices, Tally


class RunLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one run, its delegates included. They are checked before each step; None means no limit."""

    tokens: int | None = None
    """Input and output tokens of models."""
    cost: float | None = None
    """In US dollars, by the prices of the user and of this version. Every model needs a price."""
    time_ms: int | None = None

    def __post_init__(self) -> None:
        check_whole(1, or_none=True, tokens=self.tokens, time_ms=self.time_ms)
        if self.cost is None:
            return
        if isinstance(self.cost, bool) or not isinstance(self.cost, int | float) or not self.cost > 0:
            raise UsageError(f"cost is a number of US dollars above 0, not {self.cost!r:.40}")


def load_prices_for(limits: RunLimits, models: list[str]) -> Prices | None:
    """Return the prices if the cost is limited. Raises UsageError for a model without a price."""
    if limits.cost is None:
        return None
    from holdfast._config import configuration, load_prices

    prices = load_prices(configuration())
    for model in models:
        if prices.of(model) is None:
            raise UsageError(
                f"the cost of a run cannot be limited: no price of the model {model} is known",
                remedy="Name it in prices.toml, or limit the tokens.",
            )
    return prices


class RunMeter:
    """The usage of one run and its delegates; it is also added to the run that called it."""

    def __init__(
        self, limits: RunLimits, model: str, prices: Prices | None = None, above: RunMeter | None = None
    ) -> None:
        self.usage = Usage()
        self._limits, self._model, self._prices, self._above = limits, model, prices, above
        self._began = time.monotonic()
        self._tally: Tally | None = None

    def add(self, reply: Reply, model: str | None = None) -> None:
        """Count an answer."""
        self.usage.add(reply.usage)
        model = model or self._model
        if self._prices is not None:
            # A provider may report its model under a name that has no price.
            named = reply.model if reply.model and self._prices.of(reply.model) else model
            data: dict[str, Any] = {"content": "", **cost_of(reply), "model": named}
            from holdfast.catalog import Tally

            self._tally = (self._tally or Tally()).feed([Event.make("assistant", data, seq=self.usage.requests)])
        if self._above is not None:
            self._above.add(reply, model)

    def reached(self) -> str | None:
        """Return the name of the limit that has been reached, of this run or of one that called it."""
        limits = self._limits
        if limits.tokens is not None and self.usage.total_tokens >= limits.tokens:
            return "tokens"
        if limits.time_ms is not None and (time.monotonic() - self._began) * 1000 >= limits.time_ms:
            return "time"
        if limits.cost is not None and self._cost() >= limits.cost:
            return "cost"
        return None if self._above is None else self._above.reached()

    def _cost(self) -> float:
        from holdfast.catalog import cost_of as bill

        return 0.0 if self._tally is None or self._prices is None else bill(self._tally, self._prices) or 0.0
