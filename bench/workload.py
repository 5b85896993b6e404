"""The same events for every run: a user message, an answer, a tool call and its result, in turn."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

__all__ = ["SIZES", "TIMESTAMP", "Step", "plain_bytes", "record", "step", "typed_event", "verb_of"]

TIMESTAMP = 1_701_234_568_456
SIZES = {"user": 200, "assistant": 1_024, "tool_call": 300, "tool_result": 4_096}
"""The bytes of text in each event; an event's line has 1.5 KB on average."""

_TYPES = tuple(SIZES)
_TEXT_CHARS = 1 << 18
_STRIDE = 7_919  # a prime, so that the texts of a run differ


class Step(NamedTuple):
    """One event of the workload: its type, and its text or value."""

    type: str
    text: str
    call: str


class Said(msgspec.Struct):
    """The data of a message."""

    role: str
    content: str


class Call(msgspec.Struct):
    """The data of a tool call."""

    id: str
    tool: str
    params: dict[str, Any]


class Result(msgspec.Struct):
    """The data of a tool result."""

    toolCallId: str  # noqa: N815 - the name in the log
    result: dict[str, Any]


class UserLine(msgspec.Struct, tag_field="type", tag="user"):
    """A plain line, typed: the floor encodes and decodes these."""

    timestamp: int
    data: Said


class AssistantLine(msgspec.Struct, tag_field="type", tag="assistant"):
    """A line of an assistant, like :class:`UserLine`."""

    timestamp: int
    data: Said


class CallLine(msgspec.Struct, tag_field="type", tag="tool_call"):
    """A line of a call, like :class:`UserLine`."""

    timestamp: int
    data: Call


class ResultLine(msgspec.Struct, tag_field="type", tag="tool_result"):
    """A line of a result, like :class:`UserLine`."""

    timestamp: int
    data: Result


def _words() -> str:
    source = random.Random(14)
    letters = "etaoinshrdlucmfwypvbgkq"
    vocabulary = ["".join(source.choices(letters, k=source.randint(2, 9))) for _ in range(2_000)]
    words: list[str] = []
    size = 0
    while size < _TEXT_CHARS:
        word = source.choice(vocabulary) + source.choice(["", "", "", "", ",", ".", "\n", "'s", '"'])
        words.append(word)
        size += len(word) + 1
    return " ".join(words)


_text = _words()


def step(index: int) -> Step:
    """Return event number ``index`` of the workload."""
    type = _TYPES[index % len(_TYPES)]
    size = SIZES[type]
    start = index * _STRIDE % (_TEXT_CHARS - size)
    return Step(type, _text[start : start + size], f"call_{index // len(_TYPES):031d}")


def verb_of(session: Any, event: Step, call: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the public method that records a step, and its arguments.

    ``call`` is what the last tool call gave.
    """
    type, text, _ = event
    if type == "user":
        return session.user, (text,)
    if type == "assistant":
        return session.assistant, (text,)
    if type == "tool_call":
        return session.tool_call, ("Read", {"path": text})
    return session.tool_result, (call, {"content": text})


def record(session: Any, event: Step, call: Any = None) -> Any:
    """Record a step through the public API, and return the method's result."""
    verb, given = verb_of(session, event, call)
    return verb(*given)


def typed_event(event: Step) -> Any:
    """Return the same step as a typed struct, which the floor encodes."""
    type, text, call = event
    if type == "user":
        return UserLine(TIMESTAMP, Said("user", text))
    if type == "assistant":
        return AssistantLine(TIMESTAMP, Said("assistant", text))
    if type == "tool_call":
        return CallLine(TIMESTAMP, Call(call, "Read", {"path": text}))
    return ResultLine(TIMESTAMP, Result(call, {"content": text}))


def plain_bytes(event: Step) -> int:
    """Return the size of the line ``{type, timestamp, data}``: no seq, no checksum."""
    return len(msgspec.json.encode(typed_event(event))) + 1
