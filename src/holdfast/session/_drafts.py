"""What callers give to be recorded, made into drafts of events."""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidData, UsageError
from holdfast.model import Event
from holdfast.session._writer import Draft

__all__ = ["as_draft", "check_type"]

# What the session itself records of its life; nobody else may claim it.
_OWN_TYPES = frozenset(["session_start", "opened", "closed"])


def as_draft(event: Event | tuple[str, dict[str, Any]]) -> Draft:
    """An event of a batch. Raises InvalidData for what is none, UsageError for one of our own."""
    if isinstance(event, Event):
        draft = Draft(event.type, event.data, event.run, event.key, event.timestamp or None)
    else:
        try:
            draft = Draft(*event)
        except TypeError as error:
            raise InvalidData("an event of a batch is an Event, or a type and its data") from error
    check_type(draft.type)
    return draft


def check_type(type: str) -> None:
    """Raise UsageError for a type that only the session itself records."""
    if isinstance(type, str) and type in _OWN_TYPES:
        raise UsageError(
            f"{type!r} is recorded by the session itself",
            remedy="Choose another type for your event.",
        )
