"""Holdfast keeps the sessions of AI agents on one durable event log.

import holdfast

hf = holdfast.open()
with hf.session("trip-planner") as s:
    s.user("My name is Alice")
    s.assistant("Hello Alice")
"""

from __future__ import annotations

from holdfast.errors import HoldfastError
from holdfast.library import Holdfast, open  # noqa: A004 - the name that users call
from holdfast.model import VERSION, Event, Limits, Notice, SessionMetadata
from holdfast.session import Session

__version__ = VERSION

__all__ = [
    "Event",
    "Holdfast",
    "HoldfastError",
    "Limits",
    "Notice",
    "Session",
    "SessionMetadata",
    "__version__",
    "open",
]
