"""Answers for models and small clients, by MCP and the bridge: short, with moments in UTC."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from holdfast.library.answers.sessions import SessionMade


class SessionBrief(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session in a list of the bridge; a title only if there is one."""

    session_id: str
    title: str | None = None
    created_at: str
    updated_at: str
    message_count: int
    total_tokens: int
    tokens_estimated: bool = False


class SessionBriefs(Struct, frozen=True, kw_only=True):
    """The sessions of a store, newest first."""

    sessions: list[SessionBrief]


class SessionLoaded(SessionMade, frozen=True, kw_only=True):
    """The session that is the current one now."""

    message_count: int


class Greeting(Struct, frozen=True, kw_only=True):
    """Who answers, and how it is meant."""

    protocol_version: int
    version: str
    demo_mode: bool
    model: str


class Refusal(Struct, frozen=True, kw_only=True):
    """Why something was not done."""

    code: str
    message: str
    remedy: str


class Outcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether something was done, and if not, why."""

    success: bool
    error: Refusal | None = None


class ToolOutcome(Outcome, frozen=True, kw_only=True, omit_defaults=True):
    """Whether a tool got its answer."""

    tool_id: str


class ExportedText(Struct, frozen=True, kw_only=True):
    """A session as a text; empty if there is none."""

    content: str


class QueryAnswer(Struct, frozen=True, kw_only=True):
    """What an agent said, and in which session."""

    response: Any
    session_id: str


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
