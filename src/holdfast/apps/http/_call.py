"""One request: who asks, what for, with which words; and the way from it to an answer."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from holdfast.apps.gate.limits import address_of
from holdfast.apps.gate.responses import PROBLEM, problem_body
from holdfast.apps.http._requests import Nothing
from holdfast.apps.http.tokens import Scope, Token
from holdfast.errors import Conflict, Fenced, HoldfastError, Locked, StoreError
from holdfast.library import Holdfast
from holdfast.library.answers import encoded, whole_characters
from holdfast.library.answers.failures import ProblemTold
from holdfast.model import check_id, is_id
from holdfast.session import Session, now_ms

if TYPE_CHECKING:
    from holdfast.apps.http._service import Service

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
_KEY_CHARS_MAX = 200


@dataclass(frozen=True)
class Endpoint:
    """A method on a path, who may use it, what it takes and what it gives.

    ``do`` runs on a thread; a coroutine function on the event loop, and gives the response itself.
    """

    method: str
    path: str
    summary: str
    do: Callable[[Call], Any]
    answer: Any
    status: int
    scope: Scope | None
    query: type = Nothing
    body: type | None = None
    takes_bytes: bool = False
    media: str = JSON
    keyed: bool = False  # whether ``Idempotency-Key`` makes it safe to ask again
    writes: bool = False  # the session of the path is open meanwhile; what was recorded is safe before the answer
    alone: bool = False  # the session of the path is given back first, so that it can be moved

    @property
    def name(self) -> str:
        """Return the name for the description and the audit log."""
        parts = [part for part in self.path.split("/") if part and part != "v1"]
        words = [part.strip("{}") if "{" in part else part for part in parts]
        return "_".join([self.method.lower(), *words]).replace(".", "_")


@dataclass
class Call:
    """The arguments of the code behind an endpoint."""

    service: Service
    hf: Holdfast
    token: Token | None
    request: Request
    query: Any
    body: Any
    session: Session | None = None

    @property
    def id(self) -> str:
        """The id in the path. Raises InvalidId."""
        return check_id(self.request.path_params["id"])

    @property
    def space(self) -> str:
        """Return the space of the client."""
        assert self.token is not None
        return self.token.space

    @property
    def key(self) -> str | None:
        """The idempotency key, if there is one. Raises Refused for what is none."""
        given = self.request.headers.get("idempotency-key")
        if given is not None and not (0 < len(given) <= _KEY_CHARS_MAX and given.isascii() and given.isprintable()):
            detail = f"an Idempotency-Key has 1 to {_KEY_CHARS_MAX} printable ASCII characters"
            raise Refused(400, "usage", detail)
        return given


async def answer(service: Service, endpoint: Endpoint, request: Request) -> Response:
    """Return the answer to a request for an endpoint; whatever fails is answered as a problem."""
    began = time.monotonic()
    token: Token | None = None
    try:
        service.check_open()
        if endpoint.scope is not None:
            token = await service.admit(request)
            if not token.may(endpoint.scope):
                detail = f"this token may {token.scope}, and this needs {endpoint.scope}"
                raise Refused(403, "scope", detail, "Ask for a token with that scope.")
        response = await _work(service, endpoint, request, token)
    # Anything else is a mistake of ours: it is logged, and answered without its words.
    except (HoldfastError, Refused) as error:
        response = problem(error)
    seconds = time.monotonic() - began
    if endpoint.scope is not None:  # health checks are no news
        made = response.headers.get("location", "").rpartition("/")[2]
        more = {"made": made} if is_id(made) else {}
        audit(endpoint.name, request, token, status=response.status_code, ms=round(seconds * 1000), **more)
    service.count_answer(endpoint, response.status_code, seconds)
    return response


async def _work(service: Service, endpoint: Endpoint, request: Request, token: Token | None) -> Response:
    # Read before a space or a session is opened: a slow or wrong client holds neither.
    query = _read_query(endpoint, request)
    body = await _read_body(endpoint, request)
    async with contextlib.AsyncExitStack() as stack:
        hf = service.hf
        if token is not None and token.space:
            hf = await stack.enter_async_context(service.spaces.use(token.space))
        call = Call(service, hf, token, request, query, body)
        if endpoint.writes:
            call.session = await stack.enter_async_context(service.spaces.session(call.space, call.id))
        # The server itself may be the writer that would keep it from being moved.
        if endpoint.alone:
            await service.spaces.let_go(call.space, call.id)
        if iscoroutinefunction(endpoint.do):
            found = await endpoint.do(call)
        else:
            found = await service.threads.run(endpoint.do, call)
        # An answer is a promise, so it is durable first; no thread waits for that.
        if call.session is not None:
            await call.session.aflush()
    if isinstance(found, Response):
        return found
    if endpoint.status == 204:
        return Response(None, 204)
    headers = {"location": f"/v1/sessions/{found.session_id}"} if endpoint.status == 201 else {}
    return Response(encoded(found), endpoint.status, headers, media_type=JSON)


def _read_query(endpoint: Endpoint, request: Request) -> Any:
    lists = {
        field.name
        for field in msgspec.structs.fields(endpoint.query)
        if field.default_factory is not msgspec.NODEFAULT  # only lists have one
    }
    found: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name in lists:
            found.setdefault(name, []).append(value)
        # Of two values one would count and the other be ignored.
        elif name in found:
            raise Refused(400, "usage", f"the parameter {name[:40]} is given twice")
        else:
            found[name] = value
    try:
        return msgspec.convert(found, endpoint.query, strict=False)
    except msgspec.ValidationError as error:
        raise Refused(400, "usage", f"a parameter is wrong: {error}") from error


async def _read_body(endpoint: Endpoint, request: Request) -> Any:
    if endpoint.takes_bytes:
        return await request.body()
    if endpoint.body is None:
        return None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise Refused(415, "media", f"the body must be {JSON}", f"Send content-type: {JSON}.")
    data = await request.body()
    try:
        return msgspec.json.decode(data, type=endpoint.body)
    except msgspec.ValidationError as error:
        raise Refused(422, "invalid_data", f"the body is wrong: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, "usage", f"the body is no JSON: {error}") from error


# Errors as answers: a problem with our code, what to do about it, and its status.
# Errors in this table are worth another attempt after that many seconds.
_RETRY_S = {"locked": 1, "unavailable": 2, "busy": 1, "stopping": 1, "too_many": 1}
# The fields of an error that may be sent: never a path, an address or recorded text.
_SHOWN = ("session_id", "seq", "limit", "needed_bytes")
_REMEDIES = {
    "not_found": "Look at the session: it may have come to its end.",
    "scope": "Use a token that may do this.",
    "token": "Use a token that counts.",
    "too_large": "Send less at once.",
    "too_many": "Wait as long as Retry-After says.",
}


class Refused(Exception):
    """A request that is answered with a problem of the service itself."""

    def __init__(self, status: int, code: str, detail: str, remedy: str = "", *, wait_s: float = 0) -> None:
        super().__init__(detail)
        self.wait_s = wait_s
        self.status = status
        self.code = code
        self.detail = detail
        self.remedy = remedy or _REMEDIES.get(code, "See /openapi.json for what is taken.")


def told_problem(error: HoldfastError | Refused) -> ProblemTold:
    """Return the answer for an error. The place of the store is not for clients to know."""
    more = {}
    detail, remedy = error.detail if isinstance(error, Refused) else error.message, error.remedy
    if isinstance(error, HoldfastError):
        more = {name: error.fields[name] for name in _SHOWN if name in error.fields}
    if isinstance(error, StoreError) and not isinstance(error, Locked | Conflict | Fenced):
        detail, remedy = "the store cannot do this now", "Try again later."
    return ProblemTold(status=error.status, code=error.code, detail=detail, remedy=remedy, **more)


def problem(error: HoldfastError | Refused) -> Response:
    """Return the answer itself."""
    told = told_problem(error)
    headers = {}
    if told.code in _RETRY_S:
        headers["retry-after"] = str(math.ceil(getattr(error, "wait_s", None) or _RETRY_S[told.code]))
    if told.status == 401:
        headers["www-authenticate"] = 'Bearer realm="holdfast"'
    body = problem_body(**whole_characters(msgspec.to_builtins(told)))
    return Response(body, told.status, headers, media_type=PROBLEM)


# The audit log: one line of JSON for each request, without any recorded text.
LOGGER = logging.getLogger("holdfast.audit")  # lines go here; ``holdfast serve`` writes them to standard error


def audit(action: str, request: HTTPConnection, token: Token | None, **more: Any) -> None:
    """Write an audit record of an operation that was done or refused."""
    # A program that embeds the service may not want them, and then no line is made.
    if not LOGGER.isEnabledFor(logging.INFO):
        return
    id = request.path_params.get("id") or more.pop("session", None)
    line = {
        "at": now_ms(),
        "action": action,
        "token": None if token is None else token.id,
        "space": None if token is None else token.space,
        "session": id if is_id(id) else None,
        "from": address_of(request.scope),
        **more,
    }
    LOGGER.info(msgspec.json.encode(line).decode())
