"""The messages of the bridge: what can be asked, by which names, and with which answer.

The JSON schema for programs in other languages is made of the same table and structs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Meta

from holdfast.agent import Scope
from holdfast.apps.wire.frames import INTERNAL, INVALID_REQUEST, RpcError, rpc_code, utc
from holdfast.errors import HoldfastError
from holdfast.library.answers import events as answers
from holdfast.library.answers.sessions import OpenQuestions
from holdfast.library.answers.turns import SessionMade, ToolQuestion, ToolSettled
from holdfast.model import SessionMetadata
from holdfast.session import Answer

LIMIT_MAX = 2**53 - 1
"""The largest whole number that every language reads from JSON as it was written."""

# Described in the schema and checked by `Current`: its refusals say what to do instead.
_Limit = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": LIMIT_MAX})]
_Said = Annotated[str, Meta(extra_json_schema={"pattern": r"\S"})]


class Wish(msgspec.Struct, frozen=True, omit_defaults=True):
    """The base of requests; unknown fields are ignored."""


class Hello(Wish, frozen=True):
    """Says how the connection is meant. In demo mode no model is asked and no tool runs."""

    demo_mode: bool = False


class PromptMessage(Wish, frozen=True):
    """Something said to the agent, on the current session; a new one begins if there is none."""

    query: _Said
    """Not blank."""


class Resume(Wish, frozen=True):
    """Goes on with the current session: asks again about calls that wait, and carries out what was answered."""


class Cancel(Wish, frozen=True):
    """Stops the query that is being answered."""


class Steer(Wish, frozen=True, kw_only=True):
    """Says something to the agent while it answers a query; ``interrupt`` stops its step for it."""

    text: str
    interrupt: bool = False


class ToolApprove(Wish, frozen=True):
    """Lets a tool run, or not."""

    tool_id: str
    """The tool_id of tool_request_approval."""
    approved: bool
    scope: Scope = "once"
    """For how long an approval counts; once if it is left out."""


class SessionCreate(Wish, frozen=True):
    """Begins a session, which becomes the current one."""

    title: str | None = None


class SessionSave(Wish, frozen=True):
    """Puts everything of the current session on the medium."""


class SessionLoad(Wish, frozen=True):
    """Makes a session the current one."""

    session_id: str


class ListSessions(Wish, frozen=True):
    """Which sessions there are, newest first; all of them without a limit."""

    limit: _Limit | None = None


class SessionDelete(Wish, frozen=True):
    """Puts a session into the trash."""

    session_id: str


class SessionExport(Wish, frozen=True):
    """A session as a text; the current one if none is named. It changes nothing."""

    session_id: str | None = None
    format: str = "markdown"
    """markdown, json, jsonl, html or text, or a format of another tool; not a bundle, which is bytes."""


class WaitingList(Wish, frozen=True):
    """List the open requests of sessions, oldest first."""

    agent: str | None = None
    session_id: str | None = None


class WaitingAnswer(Wish, frozen=True):
    """Answers a question of a session that any process may have; the one that runs the agent continues."""

    question: str
    """Its id, or the beginning of it."""
    decision: Literal["allow", "deny", "edit", "result"]
    args: dict[str, Any] | None = None
    """All arguments of the call, with edit."""
    result: Any = None
    """The value to use as the result of the tool, with result."""
    because: str | None = None
    scope: Scope = "once"


class Operation(NamedTuple):
    """One thing that can be asked, by its tag or its method, and the tag and form of its answer."""

    tag: str
    method: str
    takes: type[Wish]
    answer: str
    gives: type[msgspec.Struct]
    told: str = ""
    """The description of the answer, if its struct has none."""


_STOPPED = "Whether there was something to stop. The query itself is answered with an error of the code cancelled."
_ASKS = (
    Operation("initialize", "initialize", Hello, "initialized", answers.Greeting),
    Operation("query", "agent.query", PromptMessage, "query_result", answers.QueryAnswer),
    Operation("resume", "agent.resume", Resume, "query_result", answers.QueryAnswer),
    Operation("steer", "agent.steer", Steer, "steered", answers.Outcome, "Whether there was an agent to hear it."),
    Operation("cancel", "agent.cancel", Cancel, "cancelled", answers.Outcome, _STOPPED),
    Operation("tool_approve", "tool.approve", ToolApprove, "tool_approved", answers.ToolOutcome),
    Operation("session_create", "session.create", SessionCreate, "session_created", SessionMade, "The new session."),
    Operation("session_save", "session.save", SessionSave, "session_saved", answers.Outcome),
    Operation("session_load", "session.load", SessionLoad, "session_loaded", answers.SessionLoaded),
    Operation("session_list", "session.list", ListSessions, "session_list_result", answers.SessionBriefs),
    Operation("session_delete", "session.delete", SessionDelete, "session_deleted", answers.Outcome),
    Operation("waiting_list", "waiting.list", WaitingList, "waiting_list_result", OpenQuestions),
    Operation("waiting_answer", "waiting.answer", WaitingAnswer, "waiting_answered", Answer),
    Operation("session_export", "session.export", SessionExport, "session_exported", answers.ExportedText),
)
ASKS = {ask.tag: ask for ask in _ASKS}
# A client may use the tags as methods too, and `query` is what the agent is asked.
BY_METHOD = ASKS | {ask.method: ask for ask in _ASKS}


class Notice(NamedTuple):
    """Something that the bridge says without being asked."""

    method: str
    gives: type[msgspec.Struct]


NOTICES = {
    "stream_token": Notice("stream.token", answers.StreamToken),
    "tool_request_approval": Notice("tool.request_approval", ToolQuestion),
    "tool_request_settled": Notice("tool.request_settled", ToolSettled),
}

# -- the schema --------------------------------------------------------------------------------
_ABOUT = (
    "One JSON object on each line. In the tagged form the object has a type. As JSON-RPC 2.0 the"
    " method is x-method, params are the other fields of the request, the result is the fields of"
    " the answer x-answer without its type, and an error has the code and the remedy in its data."
    " Fields of a request that are not named here are left alone."
)
_ID = {
    "type": ["string", "number", "null"],
    "description": "Anything; it comes back with everything that belongs to this request.",
}
_SESSION_ID = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", "description": "The id of a session."}
# The names that programs in other languages use for the structs inside messages.
_NAMES = {"SessionBrief": "session_info", "Refusal": "error_body", "Waiting": "question"}


def schema() -> str:
    """Return the JSON schema of every message, both ways, as a text."""
    from holdfast.library.answers.schema import DRAFT, schemas_of

    asked = {
        ask.tag: (ask.takes, {"x-kind": "request", "x-method": ask.method, "x-answer": ask.answer}) for ask in _ASKS
    }
    given: dict[str, tuple[type[Any], dict[str, str]]] = {
        ask.answer: (ask.gives, {"x-kind": "answer"} | ({"description": ask.told} if ask.told else {})) for ask in _ASKS
    }
    given["error"] = (answers.RefusedRequest, {"x-kind": "answer"})
    given |= {tag: (one.gives, {"x-kind": "notice", "x-method": one.method}) for tag, one in NOTICES.items()}
    _, parts = schemas_of([shape for shape, _ in (*asked.values(), *given.values())], defaults=True)
    messages = {tag: _message(tag, parts[shape.__name__], facts) for tag, (shape, facts) in {**asked, **given}.items()}
    inside = {name: _with_ids(parts[kind]) for kind, name in _NAMES.items()}
    inside["session_info"]["additionalProperties"] = False
    sides = {
        "from_client": _one_of(asked, "Every line that a client sends, in the tagged form."),
        "from_bridge": _one_of(given, "Every line that the bridge sends, in the tagged form."),
    }
    whole = {
        "$schema": DRAFT,
        "title": "The Holdfast bridge, protocol version 1",
        "description": _ABOUT,
        "$defs": {"id": _ID, "session_id": _SESSION_ID, **inside, **messages, **sides},
        "oneOf": [_reference(name) for name in sides],
    }
    text = json.dumps(whole, indent=2) + "\n"
    for kind, name in _NAMES.items():
        text = text.replace(f'"#/$defs/{kind}"', f'"#/$defs/{name}"')
    return text


def _message(tag: str, shape: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a message: the members of its struct, its type, and an optional id."""
    members = {"type": {"const": tag}, "id": _reference("id"), **_with_ids(shape)["properties"]}
    closed = {} if facts["x-kind"] == "request" else {"additionalProperties": False}
    return {
        "description": shape["description"],
        **facts,
        "type": "object",
        "properties": members,
        "required": ["type", *shape.get("required", ())],
        **closed,
    }


def _with_ids(shape: dict[str, Any]) -> dict[str, Any]:
    """Return the shape; its member ``session_id`` is an id of a session, or null where it was optional."""
    members = shape["properties"]
    if "session_id" in members:
        known, choices = _reference("session_id"), members["session_id"].get("anyOf")
        members = {**members, "session_id": {"oneOf": [known, {"type": "null"}]} if choices else known}
    return {**shape, "properties": members}


def _one_of(tags: Iterable[str], description: str) -> dict[str, Any]:
    return {"description": description, "oneOf": [_reference(tag) for tag in tags]}


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


# -- errors ------------------------------------------------------------------------------------
def refusal(rpc_code: int, code: str, message: str, remedy: str = "") -> RpcError:
    """Return the answer to a request that cannot be served, for both message formats."""
    return RpcError(rpc_code, message, {"code": code, "remedy": remedy})


def as_refusal(error: Exception) -> RpcError:
    """Return the answer to a request that ended with this error."""
    if isinstance(error, RpcError):
        if isinstance(error.data, dict) and "code" in error.data:
            return error
        return refusal(error.code, "protocol", error.message)
    if isinstance(error, HoldfastError):
        return refusal(rpc_code(error), error.code, error.message, error.remedy)
    return refusal(INTERNAL, "internal", f"{type(error).__name__}: {error}")


def failure(error: Exception) -> answers.Outcome:
    """Return the answer "no" of a request that is answered with yes or no; why is beside it."""
    return answers.Outcome(success=False, error=told_refusal(as_refusal(error)))


def told_refusal(error: RpcError, request: str | None = None) -> answers.RefusedRequest:
    """Return the error message, with the request that it belongs to."""
    return answers.RefusedRequest(
        request=UNSET if request is None else request,
        code=str(error.data["code"]),
        message=error.message,
        remedy=str(error.data["remedy"]),
    )


def busy() -> RpcError:
    """Return the refusal of a request while another one is running on the connection."""
    remedy = "Wait for its answer, cancel it, or open another connection."
    return refusal(INVALID_REQUEST, "busy", "a query is being answered on this connection", remedy)


# -- sessions ----------------------------------------------------------------------------------
def session_info(found: SessionMetadata) -> answers.SessionBrief:
    """Return the entry of a session in a list: a title only if there is one, times always in UTC."""
    return answers.SessionBrief(
        session_id=found.session_id,
        title=UNSET if found.title is None else found.title,
        created_at=utc(found.created_at),
        updated_at=utc(found.updated_at),
        message_count=found.message_count,
        total_tokens=found.total_tokens,
        tokens_estimated=found.tokens_estimated,
    )
