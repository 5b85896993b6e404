"""The requirements of providers on a history, written independently of every repair function, ours included."""

from __future__ import annotations

from collections import Counter

from bench.recovery.histories import Item

__all__ = ["completed", "is_paired", "is_strict", "lost", "starts_with_user"]


def is_strict(history: list[Item]) -> bool:
    """Return whether each assistant turn with calls is followed at once by exactly one result for each.

    This is the rule of Anthropic and Bedrock.
    """
    place = 0
    while place < len(history):
        item = history[place]
        place += 1
        if item["role"] == "tool":
            return False
        calls = [call["id"] for call in item.get("calls", ())]
        if not calls:
            continue
        results = [result["id"] for result in history[place : place + len(calls)] if _is(result)]
        if len(set(calls)) != len(calls) or sorted(results) != sorted(calls):
            return False
        place += len(calls)
    return True


def _is(item: Item) -> bool:
    return bool(item["role"] == "tool")


def is_paired(history: list[Item]) -> bool:
    """Return whether every call has a later result and every result an earlier call (the weaker rule)."""
    called: set[str] = set()
    open_calls: set[str] = set()
    for item in history:
        if item["role"] == "tool":
            if item["id"] not in called:
                return False
            open_calls.discard(item["id"])
        for call in item.get("calls", ()):
            called.add(call["id"])
            open_calls.add(call["id"])
    return not open_calls


def starts_with_user(history: list[Item]) -> bool:
    """Return whether the first turn is a user's; an empty history is a fresh start."""
    return not history or history[0]["role"] == "user"


def completed(history: list[Item]) -> dict[str, set[str]]:
    """Return, by id, the texts of the results of calls that were made: completed work."""
    called = {call["id"] for item in history for call in item.get("calls", ())}
    found: dict[str, set[str]] = {}
    for item in history:
        if item["role"] == "tool" and item["id"] in called:
            found.setdefault(item["id"], set()).add(item["text"])
    return found


def lost(before: list[Item], after: list[Item]) -> int:
    """Return how many completed calls are lost: none of their results is in the history."""
    told = Counter(item["text"] for item in after if item["role"] == "tool")
    return sum(not any(text in told for text in texts) for texts in completed(before).values())
