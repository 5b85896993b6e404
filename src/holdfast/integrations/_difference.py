"""What a value has that another one lacks, in as few bytes as that takes.

An event says what a framework's item says in our words; beside it stands only what those words do
not carry. These forms are on disk: they may gain members, and never change.
"""

from __future__ import annotations

import json
from itertools import takewhile
from typing import Any


def difference(base: Any, given: Any) -> dict[str, Any] | None:
    """What makes ``given`` of ``base``; None if they are the same."""
    if type(base) is type(given):
        if isinstance(given, dict):
            return _of_maps(base, given)
        if isinstance(given, list):
            same_length = len(base) == len(given)
            return _of_lists(base, given) if same_length else _of_growth(base, given)
        if base == given:
            return None
    return {"is": given}


def apply(base: Any, change: dict[str, Any] | None) -> Any:
    """The value that ``change`` was the difference of."""
    if change is None:
        return base
    if "is" in change:
        return change["is"]
    if "text" in change:  # what the log cannot carry as it is
        return json.loads(change["text"])
    if "keep" in change:
        return [*base[: change["keep"]], *change["add"]]
    if isinstance(base, list):
        inside = change.get("at", {})
        return [apply(value, inside.get(str(n))) for n, value in enumerate(base)]
    gone, inside = change.get("del", ()), change.get("in", {})
    kept = {name: apply(base[name], inside.get(name)) for name in base if name not in gone}
    return kept | change.get("set", {})


def _of_maps(base: dict[str, Any], given: dict[str, Any]) -> dict[str, Any] | None:
    inside = {
        name: change
        for name, value in given.items()
        if name in base and (change := difference(base[name], value)) is not None
    }
    parts = {
        "set": {name: value for name, value in given.items() if name not in base},
        "in": inside,
        "del": [name for name in base if name not in given],
    }
    return {name: part for name, part in parts.items() if part} or None


def _of_lists(base: list[Any], given: list[Any]) -> dict[str, Any] | None:
    pairs = enumerate(zip(base, given, strict=True))
    inside = {str(n): change for n, (a, b) in pairs if (change := difference(a, b)) is not None}
    return {"at": inside} if inside else None


def _of_growth(base: list[Any], given: list[Any]) -> dict[str, Any]:
    """For lists of different lengths: where they begin to differ, and what follows there."""
    pairs = zip(base, given, strict=False)
    kept = sum(1 for _ in takewhile(lambda pair: difference(*pair) is None, pairs))
    return {"keep": kept, "add": given[kept:]} if kept else {"is": given}
