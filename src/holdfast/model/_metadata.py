"""What is known of a session without reading its conversation."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

__all__ = ["STATUSES", "SessionMetadata", "Status"]

Status = Literal["idle", "running", "waiting", "interrupted", "failed"]
"""What a session does, by its events and by whether the process that recorded them still runs."""

STATUSES: tuple[Status, ...] = get_args(Status)


class SessionMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a list of sessions. Times are Unix milliseconds."""

    session_id: str
    title: str | None = None
    tags: tuple[str, ...] = ()
    """What people called it."""
    auto_tags: tuple[str, ...] = ()
    """What the catalogue calls it, by its content; derived, never recorded."""
    created_at: int = 0
    updated_at: int = 0
    message_count: int = 0
    total_tokens: int = 0
    tokens_estimated: bool = False
    """Whether that is an estimate: nobody told how many tokens were used."""
    event_count: int = 0
    size_bytes: int = 0
    agent_id: str | None = None
    model: str | None = None
    """The model that answered last."""
    cost: float | None = None
    """In US dollars; None where the price of a model is not known."""
    parent: str | None = None
    cwd: str | None = None
    """Where its agent worked, if that was recorded."""
    pinned: bool = False
    held: bool = False
    """Under legal hold: neither a policy nor a person can let it go."""
    archived: bool = False
    open: bool = False
    """A writer that lives has it open."""
    status: str = "idle"
    """idle, running, waiting, interrupted or failed: derived from events, never stored."""
    state: str = "ok"
    """ok, damaged, sealed, too_new or unreadable: whether the log could be read."""
