"""Answers about what is in a session: events, messages, snapshots."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from holdfast.library._views import SnapshotInfo
from holdfast.library.answers import filled
from holdfast.library.answers.turns import OfSession, SessionMade
from holdfast.model import Event, SessionMetadata
from holdfast.replay import State
from holdfast.session import Waiting


class EventRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event."""

    seq: int
    type: str
    timestamp: int
    """Unix milliseconds."""
    data: dict[str, Any]
    """The data as recorded: docs/reference/events.md describes each type."""
    run: str | None = None
    """The run of an agent that it belongs to."""
    key: str | None = None
    """The key by which it is recorded only once."""

    @classmethod
    def of(cls, event: Event, *, as_written: bool = False) -> EventRecord:
        """Return the answer for an event: its data as it is now, or the bytes of the log."""
        data = cast("dict[str, Any]", Raw(bytes(event.raw))) if as_written else event.data
        # Member by member, because one is made for each event of a page or a stream.
        return cls(seq=event.seq, type=event.type, timestamp=event.timestamp, data=data, run=event.run, key=event.key)


class EventPage(Struct, frozen=True, kw_only=True):
    """A page of events."""

    events: list[EventRecord]
    next: int | None = None
    """The first event of the following page; null at the end for now."""


class Appended(OfSession, frozen=True, kw_only=True):
    """The recorded events; they are on the medium when this is answered."""

    seqs: list[int]


class LocatedSession(SessionMetadata, frozen=True, kw_only=True):
    """A listed session, and its location."""

    location: str


class SessionDocument(Struct, frozen=True, kw_only=True):
    """A session and its conversation."""

    session: LocatedSession
    conversation: list[EventRecord]


class SessionState(State, kw_only=True, tag=False):
    """The state of a session after an event; members with their initial value are left out."""

    session_id: str

    @classmethod
    def of(cls, session_id: str, state: State) -> SessionState:
        """Return the answer for a state."""
        return filled(cls, state, session_id=session_id)


class MessageList(Struct, frozen=True, kw_only=True):
    """A conversation that a provider accepts, and the repairs made for it, in words."""

    messages: list[dict[str, Any]]
    system: str | None
    issues: list[str]


class SnapshotList(Struct, frozen=True, kw_only=True):
    """Snapshots, newest first; damaged ones are skipped."""

    snapshots: list[SnapshotInfo]


class SessionSnapshots(SnapshotList, frozen=True, kw_only=True):
    """The snapshots of a session, newest first; damaged ones are skipped."""

    session_id: str


class SnapshotTaken(Struct, frozen=True, kw_only=True):
    """The event after which a snapshot was taken."""

    seq: int


# Answers for models and small clients, by MCP and the bridge: short, with moments in UTC.

# Documented in schemas; checked elsewhere, where the error says more.
_COUNT = {"minimum": 0}
_UTC = {"pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"}

Count = Annotated[int, Meta(extra_json_schema=_COUNT)]
Moment = Annotated[str, Meta(extra_json_schema=_UTC)]


class SessionBrief(OfSession, frozen=True, kw_only=True, omit_defaults=True):
    """A session in brief."""

    title: str | UnsetType = UNSET
    """Absent if there is none; never null."""
    created_at: Moment
    """UTC, with milliseconds and a Z."""
    updated_at: Moment
    """UTC, with milliseconds and a Z."""
    message_count: Count
    total_tokens: Count
    tokens_estimated: bool = False
    """Present, and true, where nobody reported how many tokens were used."""


class SessionBriefs(Struct, frozen=True, kw_only=True):
    """The sessions, newest first."""

    sessions: list[SessionBrief]


class SessionLoaded(SessionMade, frozen=True, kw_only=True):
    """A session, and how many messages it has."""

    message_count: Count


class Greeting(Struct, frozen=True, kw_only=True):
    """The identity of the server."""

    protocol_version: Literal[1]
    version: str
    """The version of Holdfast."""
    demo_mode: bool
    model: str
    """The model that answers, in a sentence."""


class Refusal(Struct, frozen=True, kw_only=True):
    """The reason why something was not done."""

    code: str
    """A word that stays the same, for programs."""
    message: str
    """A sentence for people."""
    remedy: str
    """The remedy; may be empty."""


class RefusedRequest(Refusal, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a request that cannot be served."""

    request: str | UnsetType = UNSET
    """The type of the request, if it had one."""


class Outcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Success, or the reason for a failure."""

    success: bool
    error: Refusal | UnsetType = UNSET
    """The reason, if success is false."""


class ToolOutcome(Outcome, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a tool result that was sent in."""

    tool_id: str


class ExportedText(Struct, frozen=True, kw_only=True):
    """The session as a text; empty if there is no current session and none was named."""

    content: str


class QueryAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The whole answer, after everything of it was streamed."""

    response: str
    session_id: str
    limit: str | None = None
    """The limit that stopped it, if one did: ``tokens``, ``cost`` or ``time``."""
    waiting: list[Waiting] = []
    """The questions that are still open; ``resume`` goes on once they are answered."""


class StreamToken(OfSession, frozen=True, kw_only=True):
    """A piece of an answer while it is streamed."""

    content: str


class SessionLine(OfSession, frozen=True, kw_only=True, omit_defaults=True):
    """A session in one line for a model: texts are cut and neutralised, empty where there are none."""

    title: str
    created_at: str
    updated_at: str
    messages: int
    tokens: int
    tokens_estimated: bool = False
    model: str
    agent: str
    tags: list[str]
    folder: str


class SessionLines(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sessions, newest first, and the cursor of the next page if there is one."""

    sessions: list[SessionLine]
    next: str | None = None


class HitLine(OfSession, frozen=True, kw_only=True):
    """One event that matches a search."""

    title: str
    seq: int
    role: str
    at: str
    text: str


class HitLines(Struct, frozen=True, kw_only=True):
    """The hits of a search, best first."""

    hits: list[HitLine]


class LeftOutPart(Struct, frozen=True, kw_only=True, rename={"first": "from", "last": "to"}):
    """The part of a conversation that did not fit."""

    messages: int
    first: int
    last: int


class RecalledMessages(OfSession, frozen=True, kw_only=True, omit_defaults=True):
    """A valid conversation up to a point, cut to size, and the repairs made for it."""

    system: str | None
    messages: list[Any]
    changed: list[str]
    left_out: LeftOutPart | None = None


class RecalledState(OfSession, frozen=True, kw_only=True):
    """Variables, memory, todos and the rest of a session's state at a point, cut to size."""

    state: dict[str, Any]


class AskedLine(Struct, frozen=True, kw_only=True):
    """A prompt of a user."""

    seq: int
    prompt: str


class SessionSummary(SessionLine, frozen=True, kw_only=True, omit_defaults=True):
    """A summary of a session, from its own words and figures."""

    status: str
    topics: list[str]
    asked: list[AskedLine]
    turns: int
    tools: dict[str, int]
    failures: int
    active_minutes: float
    todos: list[Any]
    last_words: str


class Saved(OfSession, frozen=True, kw_only=True):
    """The place where something was saved."""

    seq: int
