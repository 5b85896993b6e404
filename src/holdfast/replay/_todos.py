"""Todos: one list at a time, whole each time it is written; the last one wins."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.errors import InvalidData, UsageError
from holdfast.model import decode_json

__all__ = ["TODO_TOOLS", "make_todos", "read_todos"]

TODO_TOOLS = frozenset({"todowrite", "todo_write"})
"""Names, without regard to case, of tools whose calls carry the whole list."""

_STATUSES = ("pending", "in_progress", "completed")
_PRIORITIES = ("high", "medium", "low")


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


def make_todos(
    todos: Iterable[Mapping[str, Any]], previous: Iterable[Mapping[str, Any]] = ()
) -> list[dict[str, Any]]:
    """A list that may be written: whole items with ids, none twice, at most one in progress.

    An item without an id gets the one that the same text had in ``previous``, else one made from
    its text. Raises UsageError, naming the item, if a rule is broken.
    """
    known = {_text(todo): todo.get("id") for todo in previous}
    made: dict[str, dict[str, Any]] = {}
    ids: set[str] = set()
    for todo in todos:
        item = _checked(todo)
        text = _text(item)
        if text in made:
            raise UsageError(f"the todo {item['content']!r} is there twice")
        item["id"] = _id(item.get("id") or known.get(text), text, ids)
        made[text] = item
    active = [item["content"] for item in made.values() if item["status"] == "in_progress"]
    if len(active) > 1:
        raise UsageError(f"only one todo can be in progress, not {active[0]!r} and {active[1]!r}")
    return list(made.values())


def _text(todo: Mapping[str, Any]) -> str:
    """What makes two todos the same: their text, without regard to case and space around it."""
    return str(todo.get("content", "")).strip().casefold()


def _checked(todo: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(todo, Mapping):
        raise UsageError(f"a todo is a map with its text under 'content', not {todo!r:.80}")
    content = todo.get("content")
    if not isinstance(content, str) or not content.strip():
        raise UsageError(f"a todo needs a text under 'content': {dict(todo)!r:.200}")
    item = {"status": "pending", "priority": "medium", "activeForm": content, **todo}
    for member, allowed in (("status", _STATUSES), ("priority", _PRIORITIES)):
        if item[member] not in allowed:
            raise UsageError(
                f"the {member} of {content!r} is {item[member]!r}, not one of {', '.join(allowed)}"
            )
    return item


def _id(wanted: Any, text: str, taken: set[str]) -> str:
    """The id that was asked for, or eight digits of the text's digest; never one that is taken."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    found = wanted if isinstance(wanted, str) and wanted not in taken else digest[:8]
    length = 8
    while found in taken:
        length += 1
        found = digest[:length]
    taken.add(found)
    return found
