"""Snapshots of orbitmesh's first design in the shape of the later one.

There they are plain JSON under ``sessions/``, with the messages, the task and the agent's own id at
the top; the names are those of Go fields or the tame ones.
"""

from __future__ import annotations

from typing import Any

__all__ = ["tame_snapshot"]

_NAMES = {
    "SessionID": "session_id",
    "ProviderType": "provider_type",
    "CreatedAt": "created_at",
    "UpdatedAt": "updated_at",
    "Version": "version",
    "Config": "config",
    "ProviderState": "provider_state",
    "Metadata": "metadata",
    "ACPSessionID": "acp_session_id",
    "Messages": "messages",
    "CurrentTask": "current_task",
    "Metrics": "metrics",
}
_INNER = ("acp_session_id", "messages", "current_task", "metrics")


def tame_snapshot(value: Any) -> Any:
    """A snapshot with the later names, and with the provider's state in a map of its own.

    Anything else as it is.
    """
    if not isinstance(value, dict):
        return value
    tamed = {_NAMES.get(name, name): item for name, item in value.items()}
    if not isinstance(tamed.get("session_id"), str) or "attempt_id" in tamed:
        return value
    if isinstance(tamed.get("provider_state"), dict):
        state = tamed["provider_state"]
        tamed["provider_state"] = {_NAMES.get(name, name): item for name, item in state.items()}
        return tamed
    if "provider_type" not in tamed or not isinstance(tamed.get("messages"), list):
        return value
    tamed["provider_state"] = {name: tamed.pop(name) for name in _INNER if name in tamed}
    return tamed
