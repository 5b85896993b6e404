"""Holdfast keeps the sessions of AI agents on one durable event log.

import holdfast

hf = holdfast.open()
with hf.session("trip-planner") as s:
    s.user("My name is Alice")
    s.assistant("Hello Alice")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.model import VERSION, Event, Limits, Notice, SessionMetadata

if TYPE_CHECKING:
    from holdfast.agent._agent import Agent
    from holdfast.agent._event_logger import EventLogger
    from holdfast.agent._runtime import Runtime
    from holdfast.library import Holdfast, open  # noqa: A004 - the name that users call
    from holdfast.replay import Recovery, Sanitized, format_issues, sanitize, validate
    from holdfast.session import Session

__version__ = VERSION

# Loaded when first asked for, so that `import holdfast` stays quick.
_LAZY = {
    "Agent": "holdfast.agent._agent",
    "EventLogger": "holdfast.agent._event_logger",
    "Holdfast": "holdfast.library",
    "Recovery": "holdfast.replay",
    "Runtime": "holdfast.agent._runtime",
    "Sanitized": "holdfast.replay",
    "Session": "holdfast.session",
    "format_issues": "holdfast.replay",
    "open": "holdfast.library",
    "sanitize": "holdfast.replay",
    "validate": "holdfast.replay",
}

# Loaded in the same way, so that `holdfast.replay.is_complete` needs no import of its own.
_ROOMS = frozenset(["agent", "library", "replay", "session", "storage", "testing"])

__all__ = [
    "Agent",
    "Event",
    "EventLogger",
    "Holdfast",
    "HoldfastError",
    "Limits",
    "Notice",
    "Recovery",
    "Runtime",
    "Sanitized",
    "Session",
    "SessionMetadata",
    "__version__",
    "format_issues",
    "open",
    "sanitize",
    "validate",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = globals()[name] = getattr(import_module(_LAZY[name]), name)
        return value
    if name in _ROOMS:
        return import_module(f"holdfast.{name}")
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
