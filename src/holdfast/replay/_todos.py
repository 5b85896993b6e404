"""Todos: one list at a time, whole each time it is written; the last one wins."""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidData
from holdfast.model import decode_json

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
