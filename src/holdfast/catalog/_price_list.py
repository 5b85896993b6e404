"""Prices that come with this version: list prices as known, in US dollars for a million tokens.

They were written down from memory and not looked up, may be wrong, and change without notice.
Whoever needs exact figures checks them against the pages of the providers, and puts those that
differ into prices.toml. A model that is not here is unknown, and so is the next version of one that
is.
"""

from __future__ import annotations

from zlib import crc32

TYPE_CHECKING = False  # the command's quick start loads this, and loading `typing` takes longer
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

AS_OF = "2025-10"
"""The month of which these prices are, as far as known."""

_Figures = tuple[float, float] | tuple[float, float, float] | tuple[float, float, float, float]

PRICE_LIST: dict[str, _Figures] = {
    # input, output, read from the cache, written to the cache
    "claude-opus-4-1": (15.0, 75.0, 1.5, 18.75),
    "claude-opus-4-0": (15.0, 75.0, 1.5, 18.75),
    "claude-opus-4": (15.0, 75.0, 1.5, 18.75),
    "claude-3-opus": (15.0, 75.0, 1.5, 18.75),
    "claude-sonnet-4-5": (3.0, 15.0, 0.3, 3.75),
    "claude-sonnet-4-0": (3.0, 15.0, 0.3, 3.75),
    "claude-sonnet-4": (3.0, 15.0, 0.3, 3.75),
    "claude-3-7-sonnet": (3.0, 15.0, 0.3, 3.75),
    "claude-3-5-sonnet": (3.0, 15.0, 0.3, 3.75),
    "claude-haiku-4-5": (1.0, 5.0, 0.1, 1.25),
    "claude-3-5-haiku": (0.8, 4.0, 0.08, 1.0),
    "claude-3-haiku": (0.25, 1.25, 0.03, 0.3),
    "gpt-5": (1.25, 10.0, 0.125),
    "gpt-5-mini": (0.25, 2.0, 0.025),
    "gpt-5-nano": (0.05, 0.4, 0.005),
    "gpt-5-codex": (1.25, 10.0, 0.125),
    "gpt-4.1": (2.0, 8.0, 0.5),
    "gpt-4.1-mini": (0.4, 1.6, 0.1),
    "gpt-4.1-nano": (0.1, 0.4, 0.025),
    "gpt-4o": (2.5, 10.0, 1.25),
    "gpt-4o-mini": (0.15, 0.6, 0.075),
    "gpt-4-turbo": (10.0, 30.0),
    "gpt-3.5-turbo": (0.5, 1.5),
    "o1": (15.0, 60.0, 7.5),
    "o3": (2.0, 8.0, 0.5),
    "o3-mini": (1.1, 4.4, 0.55),
    "o4-mini": (1.1, 4.4, 0.275),
    "gemini-2.5-pro": (1.25, 10.0, 0.125),
    "gemini-2.5-flash": (0.3, 2.5, 0.03),
    "gemini-2.5-flash-lite": (0.1, 0.4, 0.01),
    "gemini-2.0-flash": (0.1, 0.4, 0.025),
    "gemini-2.0-flash-lite": (0.075, 0.3),
    "mistral-large": (2.0, 6.0),
    "mistral-medium": (0.4, 2.0),
    "mistral-small": (0.1, 0.3),
    "codestral": (0.3, 0.9),
    "deepseek-chat": (0.28, 0.42, 0.028),
    "deepseek-reasoner": (0.28, 0.42, 0.028),
    "grok-4": (3.0, 15.0, 0.75),
    "grok-3": (3.0, 15.0, 0.75),
    "grok-3-mini": (0.3, 0.5, 0.075),
}


def by_length(named: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The longest name first: it is the most exact."""
    return sorted(named.items(), key=lambda item: (-len(item[0]), item[0]))


def price_mark(own: Mapping[str, Any] | None = None) -> str:
    """What tells this list, after prices of the user's own, from another one."""
    return f"{crc32(repr((by_length(own or {}), by_length(PRICE_LIST))).encode()):08x}"
