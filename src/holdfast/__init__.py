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
from holdfast.library import Holdfast, open  # noqa: A004 - the name that users call
from holdfast.model import VERSION, Event, Limits, Notice, SessionMetadata
from holdfast.session import Session

if TYPE_CHECKING:
    from holdfast.agent._agent import Agent
    from holdfast.agent._event_logger import EventLogger
    from holdfast.replay import Recovery, Sanitized, format_issues, sanitize, validate

__version__ = VERSION

# Loaded when first asked for, so that `import holdfast` stays quick.
_LAZY = {
    "Agent": "holdfast.agent._agent",
    "EventLogger": "holdfast.agent._event_logger",
    "Recovery": "holdfast.replay",
    "Sanitized": "holdfast.replay",
    "format_issues": "holdfast.replay",
    "sanitize": "holdfast.replay",
    "validate": "holdfast.replay",
}

__all__ = [
    "Agent",
    "Event",
    "EventLogger",
    "Holdfast",
    "HoldfastError",
    "Limits",
    "Notice",
    "Recovery",
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
    if name not in _LAZY:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
