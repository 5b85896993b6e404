"""Holdfast keeps the sessions of AI agents on one durable event log.

import holdfast

hf = holdfast.open()
with hf.session("trip-planner") as s:
    s.user("My name is Alice")
    s.assistant("Hello Alice")
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # loading `typing` takes longer than what the command's quick start needs
if TYPE_CHECKING:
    from typing import Any

    from holdfast.agent import Agent, EventLogger, Runtime, Suspend
    from holdfast.errors import HoldfastError
    from holdfast.library import Holdfast, open  # noqa: A004 - the name that users call
    from holdfast.model import Event, Limits, Notice, SessionMetadata
    from holdfast.replay import Recovery, Sanitized, format_issues, sanitize, validate
    from holdfast.session import RERUN, Edited, Result, Retry, Session, idempotency_key, step

    __version__: str

# Loaded when first asked for, so that `import holdfast` stays quick, and the command with it.
_NAMES = {
    "agent": "Agent EventLogger Runtime Suspend",
    "errors": "HoldfastError",
    "library": "Holdfast open",
    "model": "Event Limits Notice SessionMetadata",
    "replay": "Recovery Sanitized format_issues sanitize validate",
    "session": "Edited RERUN Result Retry Session idempotency_key step",
}
_LAZY = {name: f"holdfast.{room}" for room, names in _NAMES.items() for name in names.split()}

# Loaded in the same way, so that `holdfast.replay.is_complete` needs no import of its own.
_ROOMS = frozenset(["agent", "errors", "library", "model", "replay", "session", "storage", "testing"])

__all__ = ["Agent", "EventLogger", "Holdfast", "HoldfastError", "Runtime", "open"]
__all__ += ["Edited", "Event", "Limits", "Notice", "Result", "SessionMetadata", "Suspend"]
__all__ += ["RERUN", "Recovery", "Retry", "Sanitized", "Session", "format_issues", "sanitize", "step", "validate"]
__all__ += ["__version__", "idempotency_key"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value = globals()[name] = import_module("holdfast.model").VERSION
        return value
    if name in _LAZY:
        value = globals()[name] = getattr(import_module(_LAZY[name]), name)
        return value
    if name in _ROOMS:
        return import_module(f"holdfast.{name}")
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
