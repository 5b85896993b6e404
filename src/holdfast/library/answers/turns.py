"""Answers of agents, and the messages that a client of the WebSocket gets about its session."""

from __future__ import annotations

from typing import Any, Literal, Self

from msgspec import Struct

from holdfast.session import Waiting


class OfSession(Struct, frozen=True, kw_only=True):
    """Something of one session."""

    session_id: str


class SessionMade(OfSession, frozen=True, kw_only=True):
    """The new session."""


class TurnAnswer(OfSession, frozen=True, kw_only=True, omit_defaults=True):
    """The end of a turn: completed, waiting for answers, suspended (see ``resume_token``), stopped or interrupted."""

    output: str
    status: Literal["completed", "waiting", "suspended", "stopped", "interrupted"]
    usage: dict[str, Any] = {}
    resume_token: str | None = None
    resume_as: str | None = None
    reason: str | None = None
    """The question that the turn waits for, the reason of its interruption, or the limit that stopped it."""
    waiting: list[Waiting] = []
    """The questions that are open."""


class TurnPiece(OfSession, frozen=True, kw_only=True):
    """A piece of an answer while it is streamed."""

    text: str


class TurnEnded(OfSession, frozen=True, kw_only=True):
    """A turn that ended without an answer, and the reason."""

    reason: str


class ToolQuestion(OfSession, frozen=True, kw_only=True):
    """The agent wants to use a tool, and waits for tool_approve."""

    tool_id: str
    tool_name: str
    description: str
    params: Any
    """The arguments for the tool."""
    question: str
    """The id of the question in the inbox, where anybody may answer it, also later."""

    @classmethod
    def of(cls, one: Waiting, about: str = "") -> Self:
        """Return a question of the inbox as a turn asks it; ``about`` describes the tool."""
        return cls(
            session_id=one.session_id,
            tool_id=one.call or one.id,
            tool_name=one.tool,
            description=about,
            params=one.args,
            question=one.id,
        )


class ToolSettled(OfSession, frozen=True, kw_only=True):
    """A tool that is asked about here no more: it was answered, here or elsewhere, or the turn ended."""

    tool_id: str
    question: str


class Subscribed(OfSession, frozen=True, kw_only=True):
    """The types of events that are sent to a client."""

    subscribed_components: list[str]


class Connected(Subscribed, frozen=True, kw_only=True):
    """The session of a connection: whether it existed already, and its state."""

    restored: bool
    last_seq: int
    """The seq of its last event; -1 if there is none."""
    status: str


class Recorded(OfSession, frozen=True, kw_only=True):
    """An event that is on the medium."""

    seq: int
    key: str | None


class TurnStopped(OfSession, frozen=True, kw_only=True):
    """The answer to a request to stop a turn."""

    stopped: bool


class ServerStopping(OfSession, frozen=True, kw_only=True):
    """The server stops; the session can be continued elsewhere."""


class RunAnswer(Struct, frozen=True, kw_only=True):
    """The answer of an agent to one prompt."""

    output: Any
    session_id: str | None
    """Null if nothing is recorded, with the store `none`."""
    agent: str
    model: str
    usage: dict[str, Any]
    finish_reason: str | None
    suspended: bool
    """True if the turn waits for a decision."""
    status: str
    """``completed``, ``waiting``, or ``stopped`` by a limit."""
    limit: str | None
    """The limit that stopped it: ``tokens``, ``cost`` or ``time``."""


class AcpAnswer(OfSession, frozen=True, kw_only=True):
    """The answer of an external agent."""

    acp_session_id: str | None
    agent: dict[str, Any]
    attached: str | None
    """The way in which the agent got the earlier conversation."""
    output: str
    stop_reason: str
    usage: Any
    warnings: list[str]
    refused: list[str]
    """The tools that the agent was not allowed to use."""
    cwd: str


class AcpInstalled(Struct, frozen=True, kw_only=True):
    """An entry in the settings of an editor."""

    file: str
    name: str
    entry: dict[str, Any]
    written: bool
    backup: str | None
