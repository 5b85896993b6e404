"""Adding up what requests to models used, whatever the provider calls its figures."""

from __future__ import annotations

import math
from typing import Any

from holdfast.errors import InvalidData
from holdfast.model import decode_json
from holdfast.replay._state import Tokens

BYTES_PER_TOKEN = 4
"""What a token has on the average, in English; about."""

_INPUT, _OUTPUT, _TOTAL, _CACHE_READ, _CACHE_WRITE, _REQUESTS, _COST = range(7)
_PLACES = {
    "input_tokens": _INPUT,
    "prompt_tokens": _INPUT,
    "inputTokens": _INPUT,
    "promptTokens": _INPUT,
    "output_tokens": _OUTPUT,
    "completion_tokens": _OUTPUT,
    "outputTokens": _OUTPUT,
    "completionTokens": _OUTPUT,
    "total_tokens": _TOTAL,
    "totalTokens": _TOTAL,
    "cache_read_tokens": _CACHE_READ,
    "cache_read_input_tokens": _CACHE_READ,
    "promptCacheHitTokens": _CACHE_READ,
    "cache_write_tokens": _CACHE_WRITE,
    "cache_creation_input_tokens": _CACHE_WRITE,
    "requests": _REQUESTS,
    "cost": _COST,
    "cost_usd": _COST,
    "total_cost_usd": _COST,
}


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has, where nobody tells it."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return -(-size // BYTES_PER_TOKEN)


def add_usage(by_model: dict[str, Tokens], figures: dict[str, Any], model: Any = None) -> None:
    """Count one report of a provider. What is not a figure in it is passed over.

    A report is an increment, and one request unless it says otherwise. Without a total, the total
    is what went in and what came out.
    """
    found: list[int] = [0, 0, 0, 0, 0, 1]
    cost = None
    place_of = _PLACES.get
    for name, amount in figures.items():
        place = place_of(name)
        if place is None:
            continue
        if place == _COST:
            cost = amount
        elif type(amount) is int and amount >= 0:
            found[place] = amount
    _add(_tokens_of(by_model, model), found, cost)


def _tokens_of(by_model: dict[str, Tokens], model: Any) -> Tokens:
    name = model if type(model) is str else ""
    known = by_model.get(name)
    if known is None:
        known = by_model[name] = Tokens()
    return known


def _add(tokens: Tokens, found: list[int], cost: Any) -> None:
    given, made, total, cache_read, cache_write, requests = found
    tokens.input_tokens += given
    tokens.output_tokens += made
    tokens.total_tokens += total or given + made
    tokens.requests += requests
    if cache_read:
        tokens.cache_read_tokens += cache_read
    if cache_write:
        tokens.cache_write_tokens += cache_write
    if type(cost) in (int, float) and 0 <= cost < math.inf:
        tokens.cost = (tokens.cost or 0.0) + float(cost)


# Todos: one list at a time, whole each time it is written; the last one wins.


TODO_TOOLS = frozenset({"todowrite", "todo_write"})
"""Names, without regard to case, of tools whose calls carry the whole list."""


def read_todos(params: Any) -> list[dict[str, Any]]:
    """The list in the parameters of a call or the data of an event; empty if there is none.

    Nothing is judged here: what was recorded is what the agent saw.
    """
    if isinstance(params, str):
        try:
            params = decode_json(params.encode("utf-8", "replace"))
        except InvalidData:
            return []
    todos = params.get("todos") if isinstance(params, dict) else None
    return [todo for todo in todos if isinstance(todo, dict)] if isinstance(todos, list) else []
