"""Questions about a list of messages, and the small answers that callers need to go on."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from holdfast.model import Event
from holdfast.replay._blocks import Block
from holdfast.replay._dialects import Message, Pair, dialect_of
from holdfast.replay._reading import read_message
from holdfast.replay._todos import TODO_TOOLS, read_todos
from holdfast.replay._values import read_result

__all__ = [
    "has_incomplete_tool_call",
    "is_complete",
    "last_tool_call",
    "recover_todos",
    "tool_result_message",
]


def has_incomplete_tool_call(messages: list[Message]) -> bool:
    """Whether the list ends with a call that has no result."""
    return last_tool_call(messages) is not None


def last_tool_call(messages: list[Message]) -> dict[str, Any] | None:
    """The call with which the list ends, as ``{id, name, input}``; the first if there are several.

    Of parallel calls that are answered in part, the first one without a result. None if the list
    ends otherwise.
    """
    answered: set[Any] = set()
    for message in reversed(messages):
        pairs = _read(message)
        calls = [block for _, block in pairs if block["type"] == "tool_use"]
        if calls:
            return next((_call(call) for call in calls if call["id"] not in answered), None)
        if not pairs or any(block["type"] != "tool_result" for _, block in pairs):
            return None
        answered |= {block["tool_use_id"] for _, block in pairs}
    return None


def _call(block: Block) -> dict[str, Any]:
    return {"id": block["id"], "name": block["name"], "input": block["input"]}


def is_complete(messages: list[Message]) -> bool:
    """Whether the assistant had the last word: it spoke last and waits for no result."""
    if not messages:
        return False
    pairs = _read(messages[-1])
    return bool(pairs) and all(
        side == "assistant" and block["type"] != "tool_use" for side, block in pairs
    )


def tool_result_message(
    tool_call_id: str, result: Any, *, is_error: bool = False, provider: str = "neutral"
) -> Message:
    """The message that answers a call. Raises UsageError for an unknown provider."""
    content, failed = read_result(result, _ignore)
    block: Block = {"type": "tool_result", "tool_use_id": tool_call_id, "content": content}
    if failed or is_error:
        block["is_error"] = True
    return dialect_of(provider).write("user", [block], [])[0]


def recover_todos(
    events: Iterable[Event], names: Collection[str] = TODO_TOOLS
) -> list[dict[str, Any]]:
    """The todos as last written, by a call to one of these tools or by a ``todo_update`` event.

    Names are compared without regard to case. Empty if there are none, or if the last ones are
    malformed.
    """
    wanted = {name.lower() for name in names}
    todos: list[dict[str, Any]] = []
    for event in events:
        try:
            if event.type == "todo_update":
                todos = read_todos(event.data)
            elif event.type == "tool_call" and str(event.data.get("tool")).lower() in wanted:
                todos = read_todos(event.data.get("params"))
        except Exception:  # noqa: BLE001, S112 - an unreadable event says nothing about todos
            continue
    return todos


def _ignore(type: str, detail: str, content: Any) -> None:
    """Take no notice."""


def _read(message: Any) -> list[Pair]:
    try:
        return read_message(message, _ignore)[1]
    except Exception:  # noqa: BLE001 - what cannot be read says nothing
        return []
