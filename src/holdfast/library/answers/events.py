"""Answers about what is in a session: events, messages, hits, snapshots."""

from __future__ import annotations

from typing import Any, cast

from msgspec import Raw, Struct

from holdfast.catalog import Hit
from holdfast.library._views import SnapshotInfo
from holdfast.model import Event, SessionMetadata
from holdfast.replay import Issue, LeftOut, State, TokenCount


class EventRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event."""

    seq: int
    type: str
    timestamp: int
    """Unix milliseconds."""
    data: dict[str, Any]
    """As recorded: docs/reference/events.md has what each type holds."""
    run: str | None = None
    """The run of an agent that it belongs to."""
    key: str | None = None
    """The key by which it is recorded only once."""

    @classmethod
    def of(cls, event: Event, *, as_written: bool = False) -> EventRecord:
        """Return the answer for an event: its data as it is now, or the bytes of the log."""
        written = cast("dict[str, Any]", Raw(bytes(event.raw))) if as_written else None
        return cls(
            seq=event.seq,
            type=event.type,
            timestamp=event.timestamp,
            data=event.data if written is None else written,
            run=event.run,
            key=event.key,
        )


class EventPage(Struct, frozen=True, kw_only=True):
    """A page of events."""

    events: list[EventRecord]
    next: int | None = None
    """The first event of the following page; null at the end for now."""


class Appended(Struct, frozen=True, kw_only=True):
    """What was recorded; it is on the medium when this is answered."""

    session_id: str
    seqs: list[int]


class LocatedSession(SessionMetadata, frozen=True, kw_only=True):
    """What a list says of a session, and where it is."""

    location: str


class SessionDocument(Struct, frozen=True, kw_only=True):
    """A session and its conversation."""

    session: LocatedSession
    conversation: list[EventRecord]


class SessionState(State, kw_only=True, tag=False):
    """The state of a session after an event; what is as at the beginning is left out."""

    session_id: str

    @classmethod
    def of(cls, session_id: str, state: State) -> SessionState:
        """Return the answer for a state."""
        members = {name: getattr(state, name) for name in State.__struct_fields__}
        return cls(session_id=session_id, **members)


class MessageList(Struct, frozen=True, kw_only=True):
    """A conversation that a provider accepts, and in words what was changed for it."""

    messages: list[dict[str, Any]]
    system: str | None
    issues: list[str]


class RecoveredMessages(Struct, frozen=True, kw_only=True):
    """A conversation that a provider accepts, and everything that is known about it."""

    session_id: str | None
    system: str | None
    messages: list[dict[str, Any]]
    """In the form of `--provider`."""
    issues: list[Issue]
    left_out: LeftOut | None
    tokens: TokenCount | None


class SearchHits(Struct, frozen=True, kw_only=True):
    """What a search found, best first."""

    hits: list[Hit]


class SearchAnswer(SearchHits, frozen=True, kw_only=True):
    """What was asked, and what was found, best first."""

    query: str


class SnapshotList(Struct, frozen=True, kw_only=True):
    """Snapshots, newest first; one that is not whole is passed over."""

    snapshots: list[SnapshotInfo]


class SessionSnapshots(SnapshotList, frozen=True, kw_only=True):
    """The snapshots of a session, newest first; one that is not whole is passed over."""

    session_id: str


class SnapshotTaken(Struct, frozen=True, kw_only=True):
    """The event after which a snapshot was taken."""

    seq: int
