"""Serving MCP: on standard input and output, or by streamable HTTP on this machine."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.apps.gate.callers import guarded
from holdfast.apps.gate.responses import header, refuse
from holdfast.apps.gate.secret import same_secret
from holdfast.apps.gate.server import run
from holdfast.apps.mcp.server import SessionServer
from holdfast.apps.watched import watch
from holdfast.library import Holdfast

PATH = "/mcp"
_HOST = "127.0.0.1"
_BODY_BYTES_MAX = 16 << 20
_GRACE_SECONDS = 3


def serve_stdio(place: str | None, *, writes: bool, answers: bool = False) -> None:
    """Serve one client until its end. Raises as ``holdfast.open``."""
    with Holdfast(place, redaction="mark") as hf:
        watch(hf)
        SessionServer(hf, writes=writes, answers=answers).run("stdio")


def serve_http(
    place: str | None,
    *,
    port: int,
    writes: bool,
    token: str | None,
    ready: Callable[[str, str], None],
    answers: bool = False,
) -> None:
    """Serve clients of this machine that know the token, until the process is asked to end.

    ``ready`` is told the address and the token, which is made if none is given. Raises Unavailable
    if the port is taken.
    """
    known = token or secrets.token_urlsafe(32)
    with Holdfast(place, redaction="mark") as hf:
        watch(hf)
        run(
            http_app(hf, writes=writes, answers=answers, token=known),
            host=_HOST,
            port=port,
            ready=lambda address: ready(f"{address}{PATH}", known),
            grace_seconds=_GRACE_SECONDS,
            message_bytes_max=None,
        )


def http_app(hf: Holdfast, *, writes: bool, token: str, answers: bool = False) -> ASGIApp:
    """Return the ASGI application; requests without the token, or of a web page elsewhere, are refused."""
    app = SessionServer(hf, writes=writes, answers=answers).streamable_http_app(
        streamable_http_path=PATH, host=_HOST, json_response=True, stateless_http=True
    )
    return guarded(_TokenCheck(app, token), body_bytes_max=_BODY_BYTES_MAX)


class _TokenCheck:
    """Lets only those in who know the token: other users of a machine can reach its ports too."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._wanted = f"Bearer {token}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_asking = scope["type"] != "lifespan"
        if is_asking and not same_secret(header(scope, b"authorization") or "", self._wanted):
            told = ("token", "a bearer token is needed", "The server said it when it started.")
            await refuse(scope, receive, send, 401, *told, {"www-authenticate": "Bearer"})
        else:
            await self._app(scope, receive, send)
