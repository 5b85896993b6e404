"""One request: who asks, what for, with which words; and the way from it to an answer."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdfast.apps.http import _audit
from holdfast.apps.http._endpoints import JSON, Endpoint
from holdfast.apps.http._problems import Refused, problem
from holdfast.apps.http.tokens import Token
from holdfast.errors import HoldfastError
from holdfast.library import Holdfast
from holdfast.model import check_id
from holdfast.session import Session

if TYPE_CHECKING:
    from holdfast.apps.http._service import Service

_KEY_CHARS_MAX = 200


@dataclass
class Call:
    """What the code behind an endpoint gets."""

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
        """Where the client is."""
        assert self.token is not None
        return self.token.space

    @property
    def key(self) -> str | None:
        """The idempotency key, if there is one. Raises Refused for what is none."""
        given = self.request.headers.get("idempotency-key")
        if given is not None and not (
            0 < len(given) <= _KEY_CHARS_MAX and given.isascii() and given.isprintable()
        ):
            detail = f"an Idempotency-Key has 1 to {_KEY_CHARS_MAX} printable ASCII characters"
            raise Refused(400, "usage", detail)
        return given


async def answer(service: Service, endpoint: Endpoint, request: Request) -> Response:
    """The answer to a request for an endpoint; whatever fails is answered as a problem."""
    began = time.monotonic()
    token: Token | None = None
    try:
        service.check_open()
        if endpoint.scope is not None:
            token = await service.admit(request)
            _check_scope(token, endpoint)
        response = await _work(service, endpoint, request, token)
    except (HoldfastError, Refused) as error:
        response = problem(error)
    seconds = time.monotonic() - began
    _audit.note(endpoint, request, token, response, seconds)
    service.count_answer(endpoint, response.status_code, seconds)
    return response


def as_json(value: Any) -> bytes:
    """Any answer as JSON; what is no Unicode is shown as such."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_whole(msgspec.to_builtins(value)))


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_whole(name): _whole(member) for name, member in value.items()}
    return [_whole(member) for member in value] if isinstance(value, list | tuple) else value


def _check_scope(token: Token, endpoint: Endpoint) -> None:
    if endpoint.scope is not None and not token.may(endpoint.scope):
        raise Refused(
            403, "scope", f"this token may {token.scope}, and this needs {endpoint.scope}",
            "Ask for a token with that scope.",
        )  # fmt: skip


async def _work(
    service: Service, endpoint: Endpoint, request: Request, token: Token | None
) -> Response:
    query = _read_query(endpoint, request)
    body = await _read_body(endpoint, request)
    async with contextlib.AsyncExitStack() as stack:
        hf = service.hf
        if token is not None and token.space:
            hf = await stack.enter_async_context(service.spaces.use(token.space))
        call = Call(service, hf, token, request, query, body)
        if endpoint.writes:
            call.session = await stack.enter_async_context(
                service.spaces.session(call.space, call.id)
            )
        if endpoint.stream is not None:
            return await endpoint.stream(call)
        assert endpoint.work is not None
        found = await service.threads.run(endpoint.work, call)
        if call.session is not None:
            await call.session.aflush()
    if isinstance(found, Response):
        return found
    return _respond(endpoint, found)


def _respond(endpoint: Endpoint, found: Any) -> Response:
    if endpoint.status == 204:
        return Response(None, 204)
    headers = {}
    if endpoint.status == 201:
        headers["location"] = f"/v1/sessions/{found.session_id}"
    return Response(as_json(found), endpoint.status, headers, media_type=JSON)


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
