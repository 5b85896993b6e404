"""A session's state as lines that people can read, and what differs between two moments. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from holdfast.replay import State

_SIMPLE = (
    ("Session", "title", "title"),
    ("Session", "title_auto", "automatic title"),
    ("Session", "tags", "tags"),
    ("Session", "agent_id", "agent"),
    ("Session", "agent_type", "type of agent"),
    ("Session", "instructions", "instructions"),
    ("Session", "task", "task"),
    ("Session", "suspended", "waits for someone"),
    ("Figures", "event_count", "events"),
    ("Figures", "message_count", "messages"),
    ("Figures", "turns", "turns"),
    ("Links", "links", ""),
    ("Metadata", "metadata", ""),
    ("Configuration", "config", ""),
    ("Tokens", "usage_by_model", ""),
    ("Plugins", "plugins", ""),
    ("Under way", "open_turns", ""),
    ("Under way", "pending_calls", ""),
    ("Under way", "deferred_calls", ""),
)


class Fact(NamedTuple):
    """One line of a state."""

    part: str
    name: str
    value: str


class FactChange(NamedTuple):
    """What one fact was and is; ``kind`` is added, removed or changed."""

    part: str
    name: str
    before: str
    after: str
    kind: str


def facts(state: State) -> list[Fact]:
    """Everything that a state holds, part by part; what is empty is left out."""
    return list(_facts(state))


def by_part(found: list[Fact]) -> dict[str, list[Fact]]:
    """The facts part by part, in their order."""
    parts: dict[str, list[Fact]] = {}
    for fact in found:
        parts.setdefault(fact.part, []).append(fact)
    return parts


def differences(before: State, after: State) -> list[FactChange]:
    """What was added, removed and changed between two states, in the order of ``facts``."""
    old = {fact[:2]: fact.value for fact in facts(before)}
    new = {fact[:2]: fact.value for fact in facts(after)}
    found = []
    for part, name in dict.fromkeys([*new, *old]):
        was, is_now = old.get((part, name)), new.get((part, name))
        if was != is_now:
            kind = "added" if was is None else "removed" if is_now is None else "changed"
            found.append(FactChange(part, name, was or "", is_now or "", kind))
    return found


def in_words(value: Any) -> str:
    """A value of a state as people read it: a todo by its mark and text, the rest as it is."""
    return _todo(value) if isinstance(value, dict) and "status" in value else _shown(value)


def _facts(state: State) -> Iterator[Fact]:
    for index, todo in enumerate(state.todos):
        yield Fact("Todos", str(index + 1), _todo(todo))
    for name, raw in state.encoded.items():
        yield Fact("Variables", name, _recorded(raw))
    for key, entry in state.memory.items():
        about = f"  ({entry.description})" if entry.description else ""
        yield Fact("Memory", key, _recorded(entry.raw) + about)
    for part, field, name in _SIMPLE:
        value = msgspec.to_builtins(getattr(state, field), enc_hook=_text)
        if not name and isinstance(value, dict):
            for key, one in value.items():
                yield Fact(part, str(key), _shown(one))
        elif value not in (None, "", [], {}, False):
            yield Fact(part, name or field, _shown(value))


def _todo(todo: dict[str, Any]) -> str:
    status = str(todo.get("status", ""))
    mark = {"completed": "✓", "in_progress": "▸", "pending": "○"}.get(status, status)
    text = todo.get("content") or todo.get("text")
    return f"{mark} {text}" if isinstance(text, str) else _shown(todo)


def _recorded(raw: msgspec.Raw) -> str:
    """A value as it was recorded; a text without its quotes."""
    try:
        return _shown(msgspec.json.decode(raw))
    except msgspec.DecodeError:
        return _text(raw)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and value and all(isinstance(one, int) for one in value.values()):
        return ", ".join(f"{name} {one:,}".replace("_", " ") for name, one in value.items())
    return msgspec.json.encode(value, enc_hook=_text).decode()


def _text(value: Any) -> str:
    return bytes(value).decode("utf-8", "replace") if isinstance(value, msgspec.Raw) else str(value)
