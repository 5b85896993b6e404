"""The messages of the bridge: what can be asked, by which names, and with which answer.

``bridge.schema.json`` says the same for other languages; tests hold the two together.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from holdfast.agent import Scope
from holdfast.apps.wire.frames import INTERNAL, INVALID_REQUEST, RpcError, rpc_code, utc
from holdfast.errors import HoldfastError
from holdfast.library.answers.briefs import Outcome, Refusal, SessionBrief
from holdfast.model import SessionMetadata

LIMIT_MAX = 2**53 - 1
"""The largest whole number that every language reads from JSON as it was written."""


class Wish(msgspec.Struct, frozen=True):
    """What was asked for; fields that are not known here are left alone."""


class Hello(Wish, frozen=True):
    """The first words of a connection; in demo mode no model is asked, and no tool runs."""

    demo_mode: bool = False


class PromptMessage(Wish, frozen=True):
    """Something said to the agent."""

    query: str


class Cancel(Wish, frozen=True):
    """Stop what is being answered."""


class ToolApprove(Wish, frozen=True):
    """The answer to the question whether a tool may be used, and for how long it counts."""

    tool_id: str
    approved: bool
    scope: Scope = "once"


class SessionCreate(Wish, frozen=True):
    """Begin a session."""

    title: str | None = None


class SessionSave(Wish, frozen=True):
    """Put everything on the medium."""


class SessionLoad(Wish, frozen=True):
    """Go on with a session."""

    session_id: str


class ListSessions(Wish, frozen=True):
    """Which sessions there are."""

    limit: int | None = None


class SessionDelete(Wish, frozen=True):
    """Put a session into the trash."""

    session_id: str


class SessionExport(Wish, frozen=True):
    """A session in another form; the current one if none is named."""

    session_id: str | None = None
    format: str = "markdown"


class Operation(NamedTuple):
    """One thing that can be asked: its tag, its method, what it takes, and its answer's tag."""

    tag: str
    method: str
    takes: type[Wish]
    answer: str


_ASKS = (
    Operation("initialize", "initialize", Hello, "initialized"),
    Operation("query", "agent.query", PromptMessage, "query_result"),
    Operation("cancel", "agent.cancel", Cancel, "cancelled"),
    Operation("tool_approve", "tool.approve", ToolApprove, "tool_approved"),
    Operation("session_create", "session.create", SessionCreate, "session_created"),
    Operation("session_save", "session.save", SessionSave, "session_saved"),
    Operation("session_load", "session.load", SessionLoad, "session_loaded"),
    Operation("session_list", "session.list", ListSessions, "session_list_result"),
    Operation("session_delete", "session.delete", SessionDelete, "session_deleted"),
    Operation("session_export", "session.export", SessionExport, "session_exported"),
)
ASKS = {ask.tag: ask for ask in _ASKS}
# A client may use the tags as methods too, and `query` is what the agent is asked.
BY_METHOD = {ask.tag: ask for ask in _ASKS} | {ask.method: ask for ask in _ASKS}
NOTICES = {"stream_token": "stream.token", "tool_request_approval": "tool.request_approval"}
"""What the bridge says without being asked, by tag and by method."""


# -- errors ------------------------------------------------------------------------------------


def refusal(rpc_code: int, code: str, message: str, remedy: str = "") -> RpcError:
    """What a request that cannot be served is answered with, in either way of talking."""
    return RpcError(rpc_code, message, {"code": code, "remedy": remedy})


def as_refusal(error: Exception) -> RpcError:
    """What a request that ended with this error is answered with."""
    if isinstance(error, RpcError):
        if isinstance(error.data, dict) and "code" in error.data:
            return error
        return refusal(error.code, "protocol", error.message)
    if isinstance(error, HoldfastError):
        return refusal(rpc_code(error), error.code, error.message, error.remedy)
    return refusal(INTERNAL, "internal", f"{type(error).__name__}: {error}")


def failure(error: Exception) -> Outcome:
    """The answer "no" of a request that is answered with yes or no; why is beside it."""
    return Outcome(success=False, error=told_refusal(as_refusal(error)))


def told_refusal(error: RpcError) -> Refusal:
    """What is told of an error."""
    return Refusal(
        code=str(error.data["code"]), message=error.message, remedy=str(error.data["remedy"])
    )


def busy() -> RpcError:
    """One thing at a time is answered on a connection."""
    return refusal(
        INVALID_REQUEST,
        "busy",
        "a query is being answered on this connection",
        "Wait for its answer, cancel it, or open another connection.",
    )


# -- sessions ----------------------------------------------------------------------------------


def session_info(found: SessionMetadata) -> SessionBrief:
    """What is told of a session: a title only if there is one, moments always in UTC."""
    return SessionBrief(
        session_id=found.session_id,
        title=found.title,
        created_at=utc(found.created_at),
        updated_at=utc(found.updated_at),
        message_count=found.message_count,
        total_tokens=found.total_tokens,
        tokens_estimated=found.tokens_estimated,
    )
