"""The typed form of every event type: its members and their types.

Members that a type does not name are ignored here and survive in the recorded bytes. Names of the conversation and
agent-life groups follow the recorded logs that Holdfast opens as they are, hence ``toolCallId``.
"""

from __future__ import annotations

from types import NoneType
from typing import Any, get_args

import msgspec

_Content = str | list[Any]
_Text = str | None
_Number = int | None
_Turn = int | str | None
_Map = dict[str, Any] | None

# A member is a type, or a type and its default. Members that may be None, and Any, default to None; others without a
# default are required.
_EXTRAS: dict[str, Any] = {"metadata": _Map, "usage": _Map, "raw": Any}  # any event may have them
_MEMBERS: dict[str, dict[str, Any]] = {
    "user": {"content": _Content, "role": (str, "user"), "agent": _Text, "steer": _Number},
    "assistant": {"content": _Content, "role": (str, "assistant"), "agent": _Text, "model": _Text}
    | {"covers_from": _Number},
    "system": {"content": _Content, "agent": _Text},
    "thinking": {"content": _Content, "signature": _Text, "agent": _Text, "covers_from": _Number},
    "tool_call": {"id": str, "tool": str, "params": Any, "agent": _Text, "amends": (bool, False)}
    | {"begun": (bool, True)},
    "tool_result": {"toolCallId": str, "result": Any, "is_error": (bool, False)},
    "delta": {"content": str, "kind": (str, "text"), "agent": _Text},
    "retracted": {"seqs": list[int], "replacement": Any},
    "turn_start": {"turn": _Turn},
    "turn_end": {"turn": _Turn, "reason": (str, "completed"), "limit": _Text},
    "agent_start": {"agent": str, "parent": _Text, "task": Any, "depth": _Number},
    "agent_iteration": {"agent": str, "iteration": _Number},
    "agent_complete": {"agent": str, "duration": float | None},
    "agent_error": {"agent": str, "error": Any},
    "delegation": {"parent": str, "child": str, "task": Any},
    "delegation_complete": {"parent": str, "child": str, "result": Any},
    # A question that is open until it is answered, a time comes or an event does.
    "suspended": dict.fromkeys(("reason", "token", "id", "kind", "call", "tool", "event", "digest"), _Text)
    | dict.fromkeys(("expires_at", "until", "call_seq"), _Number)
    | {"on_expiry": (str, "deny"), "replayable": (bool, True), "path": (list[str], []), "above": (list[str], [])},
    "resumed": {"reason": _Text, "token": _Text, "ids": list[str] | None},
    # A message to a working agent, as it came; the ``user`` event that names it is where the model saw it.
    "steer": {"content": _Content, "interrupt": (bool, False)},
    # A durable step begins: on the medium before its function is called.
    "step": {"step": str, "name": (str, ""), "digest": (str, ""), "attempt": (int, 1)}
    | {"parent": _Text, "call": _Text, "answer": _Text, "begin": (bool, False)},
    "step_result": {"step": str, "attempt": (int, 1), "ok": (bool, False), "value": Any}
    | {"error": _Map, "retry_at": _Number, "cancelled": (bool, False), "found": (bool, False)}
    | {"unstored": _Text},
    "variable_set": {"name": str, "value": Any},
    "variable_delete": {"name": str},
    "memory_set": {"key": str, "value": Any, "description": (str, ""), "scope": (str, "session")}
    | {"priority": (str, "normal"), "pinned": (bool, False), "sizeBytes": _Number},
    "memory_delete": {"key": str},
    "todo_update": {"todos": list[Any]},
    "plugin_state": {"name": str, "state": Any, "version": int | str | None},
    "permission": dict.fromkeys(("tool", "call", "decision", "scope", "id", "by", "via", "reason"), _Text)
    | {"expires_at": _Number, "args": _Map, "result": Any, "at": _Number},
    "tools": {"enabled": _Map, "namespaces": _Map, "priorities": _Map},
    "instructions": {"content": _Text},
    "config": {},  # a free map: read it from ``data``
    "task": {"task": Any},
    "usage": {"input_tokens": (int, 0), "output_tokens": (int, 0)},
    "metadata": {},  # as ``config``
    "session_start": {"format": (int, 0), "log": _Text, "generation": (int, 0)}
    | dict.fromkeys(("agent_id", "agent_type", "provider_type", "parent"), _Text)
    | {"parent_seq": _Number},
    "opened": {"epoch": (int, 0), "version": _Text, "pid": _Number, "host": _Text, "salt": _Text},
    "closed": {"reason": _Text},
    "title": {"title": _Text, "auto": (bool, False)},
    "tag": {"tag": str},
    "untag": {"tag": str},
    "link": {"kind": str, "id": str},
    "compaction": {"summary": _Content, "covers": list[int]},
    # The events before it are another session's, up to its ``seq``.
    "forked": {"session": _Text, "seq": _Number, "root": _Text, "log": _Text, "reason": _Text},
    # Turns and state of another session were copied before it.
    "merged": {"session": _Text, "seq": _Number, "log": _Text, "base": _Number, "turns": _Text}
    | {"merged_turns": _Number, "policy": _Text, "conflicts": (list[Any], [])}
    | {"taken": (list[str], []), "copies": (list[Any], [])},
    "imported": {"format": _Text, "source": _Text},
    "interrupted": {"turn": _Turn, "calls": (list[str], []), "not_run": (list[str], [])} | {"reason": _Text},
    "redacted": {"generation": (int, 0), "seqs": (list[int], []), "found": (dict[str, Any], {})}
    | {"unscanned": (int, 0)},
    "repaired": {"generation": (int, 0), "gaps": (list[Any], [])},
    "frame": {"direction": str, "frame": Any},
}


def _body(type: str, members: dict[str, Any]) -> type[msgspec.Struct]:
    """Return the class of one type's data, with a name like ``ToolCall``."""
    fields: list[Any] = []
    for member, kind in (_EXTRAS | members if members else {}).items():
        if isinstance(kind, tuple):
            fields.append((member, *kind))
        elif kind is Any or NoneType in get_args(kind):
            fields.append((member, kind, None))
        else:
            fields.append((member, kind))
    name = type.title().replace("_", "")
    return msgspec.defstruct(name, fields, module=__name__, frozen=True, kw_only=True)


BODIES = {type: _body(type, members) for type, members in _MEMBERS.items()}
