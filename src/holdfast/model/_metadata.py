"""What is known of a session without reading its conversation."""

from __future__ import annotations

import msgspec

__all__ = ["SessionMetadata"]


class SessionMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a list of sessions. Times are Unix milliseconds."""

    session_id: str
    title: str | None = None
    tags: tuple[str, ...] = ()
    created_at: int = 0
    updated_at: int = 0
    message_count: int = 0
    total_tokens: int = 0
    event_count: int = 0
    size_bytes: int = 0
    agent_id: str | None = None
    parent: str | None = None
    status: str = "idle"
    """idle, running, waiting or interrupted: derived from events, never stored."""
    state: str = "ok"
    """ok, damaged, sealed, too_new or unreadable: whether the log could be read."""
