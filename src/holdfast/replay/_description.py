"""What a list of sessions shows of a state."""

from __future__ import annotations

from typing import Any

from holdfast.model import SessionMetadata
from holdfast.replay._state import State

__all__ = ["describe"]


def describe(state: State, session_id: str, size_bytes: int) -> SessionMetadata:
    """The session as its events describe it; what only a store can know is left as it is."""
    return SessionMetadata(
        session_id=session_id,
        title=state.shown_title,
        tags=tuple(state.tags),
        created_at=state.created_at,
        updated_at=state.updated_at,
        message_count=state.message_count,
        total_tokens=state.usage.total_tokens,
        event_count=state.event_count,
        size_bytes=size_bytes,
        agent_id=state.agent_id,
        parent=state.parent.session if state.parent else None,
        cwd=_text(state.metadata.get("cwd")),
        pinned=state.metadata.get("pinned") is True,
        held=bool(state.metadata.get("legal_hold")),
        status=state.status,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
