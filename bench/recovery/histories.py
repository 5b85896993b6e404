"""Generated histories with the faults that crashes, cancellations and bad edits leave behind."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count
from typing import Any

__all__ = ["Item", "generate", "make_history"]

Item = dict[str, Any]
_SEED = 20_260_214


def generate(number: int, seed: int = _SEED) -> list[list[Item]]:
    """Return a number of histories, the same for the same seed; some of them are valid."""
    source = random.Random(seed)
    return [make_history(source) for _ in range(number)]


def make_history(source: random.Random) -> list[Item]:
    """2 to 5 turns with 1 to 3 parallel calls, 1 to 3 faults, and a new prompt at the end."""
    numbers = count()
    history: list[Item] = []
    for _ in range(source.randint(2, 5)):
        history += _turn(source, numbers)
    for _ in range(source.randint(1, 3)):
        source.choice(_FAULTS)(history, source)
    return [*history, {"role": "user", "text": "and now?"}]


def _turn(source: random.Random, numbers: count[int]) -> list[Item]:
    calls = [
        {"id": f"call_{number}", "name": "read", "input": {"path": f"{number}.txt"}}
        for number, _ in zip(numbers, range(source.randint(1, 3)), strict=False)
    ]
    return [
        {"role": "user", "text": f"question {next(numbers)}"},
        {"role": "assistant", "text": f"plan {next(numbers)}", "calls": calls},
        *({"role": "tool", "id": call["id"], "text": f"result of {call['id']}"} for call in calls),
        {"role": "assistant", "text": f"answer {next(numbers)}", "calls": []},
    ]


def _delete(history: list[Item], source: random.Random) -> None:
    if history:
        del history[source.randrange(len(history))]


def _duplicate(history: list[Item], source: random.Random) -> None:
    if history:
        history.insert(source.randrange(len(history) + 1), dict(source.choice(history)))


def _swap(history: list[Item], source: random.Random) -> None:
    if len(history) > 1:
        one = source.randrange(len(history) - 1)
        history[one], history[one + 1] = history[one + 1], history[one]


def _cut_head(history: list[Item], source: random.Random) -> None:
    del history[: source.randint(1, 3)]


def _cut_tail(history: list[Item], source: random.Random) -> None:
    del history[-source.randint(1, 3) :]


def _wrong_id(history: list[Item], source: random.Random) -> None:
    results = _places(history, lambda item: item["role"] == "tool")
    if results:
        place = source.choice(results)
        history[place] = {**history[place], "id": f"lost_{source.randrange(1_000)}"}


def _reuse_id(history: list[Item], source: random.Random) -> None:
    """Give a call the id of another one, without changing results."""
    calling = _places(history, lambda item: bool(item.get("calls")))
    if not calling:
        return
    place = source.choice(calling)
    other = source.choice(history[source.choice(calling)]["calls"])["id"]
    calls = [dict(call) for call in history[place]["calls"]]
    source.choice(calls)["id"] = other
    history[place] = {**history[place], "calls": calls}


def _inject_user(history: list[Item], source: random.Random) -> None:
    history.insert(source.randrange(len(history) + 1), {"role": "user", "text": "wait"})


def _delay(history: list[Item], source: random.Random) -> None:
    """Delay a result."""
    results = _places(history, lambda item: item["role"] == "tool")
    if results:
        place = source.choice(results)
        item = history.pop(place)
        history.insert(min(len(history), place + source.randint(1, 4)), item)


def _places(history: list[Item], wanted: Callable[[Item], bool]) -> list[int]:
    return [place for place, item in enumerate(history) if wanted(item)]


_FAULTS = (_delete, _duplicate, _swap, _cut_head, _cut_tail, _wrong_id, _reuse_id, _inject_user, _delay)
