"""Answers about sessions: pages, rows, what was made, labels, the trash."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from holdfast.catalog import Topic
from holdfast.library._trash import Trashed
from holdfast.library.answers import filled
from holdfast.library.answers.turns import OfSession, SessionMade
from holdfast.model import SessionMetadata
from holdfast.replay import MergeReport
from holdfast.session import Waiting


class SessionPage(Struct, frozen=True, kw_only=True):
    """A page of sessions, newest first."""

    sessions: list[SessionMetadata]
    next: str | None
    """The cursor of the following page, for `after`; null if this is the last."""


class SessionChange(Struct, frozen=True, kw_only=True):
    """One change of a list of sessions."""

    change: Literal["added", "changed", "removed"]
    session: SessionMetadata


class SessionCreated(SessionMade, frozen=True, kw_only=True):
    """A new session, and its row in a list."""

    session: SessionMetadata


class SessionForked(SessionMade, frozen=True, kw_only=True):
    """A session that was forked from another one."""

    parent: str
    at: int | None
    """The last event that it shares with its parent."""


class SessionMerged(SessionMade, frozen=True, kw_only=True):
    """A session that was merged from two."""

    report: MergeReport


class SessionRow(Struct, frozen=True, kw_only=True):
    """A session as it is now, with its labels."""

    session: SessionMetadata


class SessionTitle(OfSession, frozen=True, kw_only=True):
    """The title of a session."""

    title: str | None


class SessionTags(OfSession, frozen=True, kw_only=True):
    """The tags of a session."""

    tags: list[str]
    auto_tags: list[str]
    """The tags that the catalogue derives from its content."""


class SessionTopics(OfSession, frozen=True, kw_only=True):
    """The evidence for each automatic tag."""

    topics: list[Topic]


class TagSuggestion(OfSession, frozen=True, kw_only=True):
    """The title and tags that a model suggests for a session."""

    applied: bool
    title: str | None
    tags: list[str]


class TrashEntry(OfSession, frozen=True, kw_only=True):
    """A session in the trash."""

    title: str | None
    """The title when it was deleted; null if it was not noted, and for sealed sessions."""
    deleted_at: int
    """Unix milliseconds; 0 if it was not noted."""
    size_bytes: int


class TrashPage(Struct, frozen=True, kw_only=True):
    """The sessions that can be restored, the last deleted first."""

    sessions: list[TrashEntry]

    @classmethod
    def of(cls, found: list[Trashed]) -> TrashPage:
        """Return the answer for these; their keys in the store are left out."""
        return cls(sessions=[filled(TrashEntry, one) for one in found])


class OpenQuestions(Struct, frozen=True, kw_only=True):
    """The open questions of sessions, the oldest first."""

    waiting: list[Waiting]


class AnswerToken(Struct, frozen=True, kw_only=True):
    """A token that answers one question, and reveals nothing else."""

    token: str


class Signalled(Struct, frozen=True, kw_only=True):
    """The sessions that waited for an event; if there are none, it is kept for a day."""

    sessions: list[str]
