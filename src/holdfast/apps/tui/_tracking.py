"""Which session the app is on: its id, whether it was restored, and how many messages it has."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.model import SessionMetadata

__all__ = ["Tracking"]


@dataclass
class Tracking:
    """The front end's own view of the current session. Nothing in it is a truth: logs are."""

    session_id: str | None = None
    is_restored: bool = False
    message_count: int = 0
    known: dict[str, SessionMetadata] = field(default_factory=dict)
    """Rows that were shown last, so that a status line needs no question."""

    def start_session(self, id: str) -> None:
        """A session begins here."""
        self.session_id, self.is_restored, self.message_count = id, False, 0

    def restore_session(self, id: str, count: int) -> None:
        """A session that was there before is taken up again."""
        self.session_id, self.is_restored, self.message_count = id, True, count

    def increment_message_count(self) -> None:
        """Someone said something."""
        self.message_count += 1

    def clear(self) -> None:
        """No session."""
        self.session_id, self.is_restored, self.message_count = None, False, 0
