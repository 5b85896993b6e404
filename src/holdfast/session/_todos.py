"""A session's todo list: written whole each time, the last one wins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from typing import Any

from holdfast.errors import UsageError
from holdfast.session._clock import random_hex
from holdfast.session._variables import Owner

__all__ = ["Todos"]

_STATUSES = ("pending", "in_progress", "completed")
_PRIORITIES = ("high", "medium", "low")
_ID_BYTES = 4


class Todos(Sequence[dict[str, Any]]):
    """The current list; reads are copies."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    def write(self, todos: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Replace the list. Raises UsageError, and changes nothing, if it breaks a rule.

        At most one item is in progress, no two have the same content, each has a content, a status
        and an ``activeForm``; items without an id get one.
        """
        if not isinstance(todos, Iterable):
            raise UsageError(f"todos are a list, not {type(todos).__name__}")
        checked = [_checked(item, index) for index, item in enumerate(todos)]
        _check_together(checked)
        self._owner.append("todo_update", {"todos": checked})
        return self._list()

    def __len__(self) -> int:
        return len(self._owner.live_state.todos)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._list())

    def __getitem__(self, index: Any) -> Any:
        return self._list()[index]

    def __repr__(self) -> str:
        return f"Todos({self._list()!r})"

    def _list(self) -> list[dict[str, Any]]:
        return deepcopy(self._owner.live_state.todos)


def _checked(item: Any, index: int) -> dict[str, Any]:
    where = f"todo {index + 1}"
    if not isinstance(item, dict):
        raise UsageError(f"{where} is not a dict")
    content = item.get("content")
    if not isinstance(content, str) or not content.strip():
        raise UsageError(f"{where} has no content")
    status = item.get("status", "pending")
    if status not in _STATUSES:
        raise UsageError(f"{where} has the status {status!r}: use {', '.join(_STATUSES)}")
    priority = item.get("priority", "medium")
    if priority not in _PRIORITIES:
        raise UsageError(f"{where} has the priority {priority!r}: use {', '.join(_PRIORITIES)}")
    active = item.get("activeForm", content)
    if not isinstance(active, str) or not active.strip():
        raise UsageError(f"{where} has no activeForm")
    identity = item.get("id") or random_hex(_ID_BYTES)
    return {
        **item,
        "content": content,
        "status": status,
        "priority": priority,
        "activeForm": active,
        "id": str(identity),
    }


def _check_together(todos: list[dict[str, Any]]) -> None:
    active = [todo["content"] for todo in todos if todo["status"] == "in_progress"]
    if len(active) > 1:
        raise UsageError(f"only one todo can be in progress, not {len(active)}")
    seen: set[str] = set()
    for todo in todos:
        folded = todo["content"].strip().casefold()
        if folded in seen:
            raise UsageError(f"two todos have the content {todo['content']!r}")
        seen.add(folded)
