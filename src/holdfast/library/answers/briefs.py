"""Answers for models and small clients, by MCP and the bridge: short, with moments in UTC."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.library.answers.sessions import SessionMade

# Told in schemas and checked elsewhere, where the error says more.
_COUNT = {"minimum": 0}
_UTC = {"pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"}

Count = Annotated[int, Meta(extra_json_schema=_COUNT)]
Moment = Annotated[str, Meta(extra_json_schema=_UTC)]


class SessionBrief(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is told of a session."""

    session_id: str
    title: str | UnsetType = UNSET
    """Absent if there is none; never null."""
    created_at: Moment
    """UTC, with milliseconds and a Z."""
    updated_at: Moment
    """UTC, with milliseconds and a Z."""
    message_count: Count
    total_tokens: Count
    tokens_estimated: bool = False
    """There, and true, where nobody told how many tokens were used."""


class SessionBriefs(Struct, frozen=True, kw_only=True):
    """The sessions, newest first."""

    sessions: list[SessionBrief]


class SessionLoaded(SessionMade, frozen=True, kw_only=True):
    """The session, and how many messages it has."""

    message_count: Count


class Greeting(Struct, frozen=True, kw_only=True):
    """Who is here."""

    protocol_version: Literal[1]
    version: str
    """Of Holdfast."""
    demo_mode: bool
    model: str
    """Which model answers, in a sentence."""


class Refusal(Struct, frozen=True, kw_only=True):
    """Why something was not done."""

    code: str
    """A word that stays the same, for programs."""
    message: str
    """A sentence for people."""
    remedy: str
    """What to do about it; may be empty."""


class RefusedRequest(Refusal, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a request that cannot be served."""

    request: str | UnsetType = UNSET
    """The type that was asked for, if it was one."""


class Outcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether it could be done."""

    success: bool
    error: Refusal | UnsetType = UNSET
    """Beside success: false, why."""


class ToolOutcome(Outcome, frozen=True, kw_only=True, omit_defaults=True):
    """Whether the tool was waiting for that."""

    tool_id: str


class ExportedText(Struct, frozen=True, kw_only=True):
    """The session as a text; empty if there is no current session and none was named."""

    content: str


class QueryAnswer(Struct, frozen=True, kw_only=True):
    """The whole answer, after everything of it was streamed."""

    response: str
    session_id: str


class StreamToken(Struct, frozen=True, kw_only=True):
    """A piece of the answer that is being given."""

    session_id: str
    content: str


class SessionLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session in one line for a model: texts are cut and harmless, empty where there are none."""

    session_id: str
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


class HitLine(Struct, frozen=True, kw_only=True):
    """One event in which something was found."""

    session_id: str
    title: str
    seq: int
    role: str
    at: str
    text: str


class HitLines(Struct, frozen=True, kw_only=True):
    """What a search found, best first."""

    hits: list[HitLine]


class LeftOutPart(Struct, frozen=True, kw_only=True, rename={"first": "from", "last": "to"}):
    """What of a conversation there was no room for."""

    messages: int
    first: int
    last: int


class RecalledMessages(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A valid conversation up to a point, cut to size, and what was changed for it."""

    session_id: str
    system: str | None
    messages: list[Any]
    changed: list[str]
    left_out: LeftOutPart | None = None


class RecalledState(Struct, frozen=True, kw_only=True):
    """Variables, memory, todos and the rest of a session's state at a point, cut to size."""

    session_id: str
    state: dict[str, Any]


class AskedLine(Struct, frozen=True, kw_only=True):
    """What a user asked."""

    seq: int
    prompt: str


class SessionSummary(SessionLine, frozen=True, kw_only=True, omit_defaults=True):
    """What a session was about, from its own words and figures."""

    status: str
    topics: list[str]
    asked: list[AskedLine]
    turns: int
    tools: dict[str, int]
    failures: int
    active_minutes: float
    todos: list[Any]
    last_words: str


class Saved(Struct, frozen=True, kw_only=True):
    """Where something was saved."""

    session_id: str
    seq: int
