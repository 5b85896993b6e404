"""Turns over HTTP: asked for, streamed, approved, stopped."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.responses import Response, StreamingResponse

from holdfast.apps.http._call import Call, as_json
from holdfast.apps.http._endpoints import JSON
from holdfast.apps.http._following import EVENT_STREAM, sse
from holdfast.apps.http._problems import Refused, problem, problem_fields
from holdfast.apps.http._turns import Message

__all__ = ["approve", "begin_turn", "cancel"]


async def begin_turn(call: Call) -> Response:
    """The answer of the agent: word by word to who accepts events, else as a whole.

    A client that leaves does not stop the turn; what was said is in the session.
    """
    id = call.id
    await call.service.threads.run(call.hf.info, id)  # there must be one
    running = call.service.turns.begin(call.space, id, call.body, key=call.key)
    heard = running.listen()
    if EVENT_STREAM in call.request.headers.get("accept", ""):
        return StreamingResponse(_told(call, heard), 200, media_type=EVENT_STREAM)
    async for _ in heard:
        pass
    if running.error is not None:
        return problem(running.error)
    return Response(as_json(running.answered), 200, media_type=JSON)


async def approve(call: Call) -> Response:
    """An answer to the question whether a tool may run."""
    tool, said = call.request.path_params["call"], call.body
    call.service.turns.approve(call.space, call.id, tool, approved=said.approved, scope=said.scope)
    return Response(None, 204)


async def cancel(call: Call) -> Response:
    """The end of a turn that goes on. Raises Refused if none does."""
    if not await call.service.turns.cancel(call.space, call.id):
        raise Refused(404, "not_found", "no turn of this session goes on here")
    return Response(None, 204)


async def _told(call: Call, heard: AsyncIterator[Message]) -> AsyncIterator[bytes]:
    """Each message, for as long as the token counts; the turn itself goes on."""
    assert call.token is not None
    async for name, data in heard:
        if not await call.service.is_still_good(call.token):
            status, code, detail, _, _ = problem_fields(Refused(401, "token", "it counts no more"))
            yield sse("error", as_json({"status": status, "code": code, "detail": detail}))
            return
        yield sse(name, as_json(data))
