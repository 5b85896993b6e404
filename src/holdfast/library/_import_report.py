"""What an import did, session by session."""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.errors import HoldfastError

__all__ = ["ImportReport", "ImportedSession", "Outcome", "Skipped"]

Outcome = Literal["imported", "updated", "unchanged", "failed"]


class ImportedSession(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One session of a source, and what became of it."""

    session_id: str
    tool: str
    foreign_id: str
    outcome: Outcome
    source: str = ""
    title: str | None = None
    events: int = 0
    """How many events are new."""
    problems: tuple[str, ...] = ()
    """What of the source could not be read, in words."""
    reason: str | None = None
    """Why it failed."""


class Skipped(msgspec.Struct, frozen=True):
    """A source that nothing came of, and why."""

    source: str
    reason: str


class ImportReport(msgspec.Struct):
    """What an import did. ``errors`` are those behind what failed or was skipped."""

    sessions: list[ImportedSession] = []
    skipped: list[Skipped] = []
    errors: list[HoldfastError] = []

    @property
    def ids(self) -> list[str]:
        """The ids of the sessions in the source that are here now, each once, in its order."""
        return list(
            dict.fromkeys(row.session_id for row in self.sessions if row.outcome != "failed")
        )

    def of(self, outcome: Outcome) -> list[ImportedSession]:
        """The sessions with that outcome."""
        return [row for row in self.sessions if row.outcome == outcome]

    @property
    def imported(self) -> list[ImportedSession]:
        """The sessions that are new here."""
        return self.of("imported")

    @property
    def updated(self) -> list[ImportedSession]:
        """The sessions that were here and got something new."""
        return self.of("updated")

    @property
    def unchanged(self) -> list[ImportedSession]:
        """The sessions that were here already, as they are in the source."""
        return self.of("unchanged")

    @property
    def failed(self) -> list[ImportedSession]:
        """The sessions that could not be recorded, such as one that is open elsewhere."""
        return self.of("failed")
