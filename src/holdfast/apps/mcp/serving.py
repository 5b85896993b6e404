"""Serving MCP: on standard input and output, or by streamable HTTP on this machine."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from typing import Any

from holdfast.apps.mcp.server import SessionServer
from holdfast.errors import Unavailable
from holdfast.library import Holdfast

__all__ = ["PATH", "http_app", "serve_http", "serve_stdio"]

PATH = "/mcp"
_HOST = "127.0.0.1"


def serve_stdio(place: str | None, *, writes: bool) -> None:
    """Serve one client until its end. Raises as ``holdfast.open``."""
    with Holdfast(place, redaction="mark") as hf:
        SessionServer(hf, writes=writes).run("stdio")


def serve_http(
    place: str | None,
    *,
    port: int,
    writes: bool,
    token: str | None,
    ready: Callable[[str, str], None],
) -> None:
    """Serve clients of this machine that know the token, until the process is asked to end.

    ``ready`` is told the address and the token, which is made if none is given. Raises Unavailable
    if the port is taken.
    """
    import socket

    import uvicorn

    token = token or secrets.token_urlsafe(32)
    with Holdfast(place, redaction="mark") as hf, socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((_HOST, port))
            listening.listen()  # whoever is told the address may come at once
        except OSError as error:
            raise Unavailable(
                f"port {port} cannot be used: {error.strerror}", remedy="Choose another --port."
            ) from error
        config = uvicorn.Config(http_app(hf, writes=writes, token=token), log_level="warning")
        ready(f"http://{_HOST}:{listening.getsockname()[1]}{PATH}", token)
        uvicorn.Server(config).run(sockets=[listening])


def http_app(hf: Holdfast, *, writes: bool, token: str) -> Any:
    """The ASGI application; requests without the token, or of a web page elsewhere, are refused."""
    app = SessionServer(hf, writes=writes).streamable_http_app(
        streamable_http_path=PATH, host=_HOST, json_response=True, stateless_http=True
    )
    return _Guard(app, token)


class _Guard:
    """Lets only those in who know the token: other users of a machine can reach its ports too."""

    def __init__(self, app: Any, token: str) -> None:
        self._app = app
        self._wanted = f"Bearer {token}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._wanted):
                await _refuse(send)
                return
        await self._app(scope, receive, send)


async def _refuse(send: Any) -> None:
    body = b'{"error": "a bearer token is needed; the server said it when it started"}'
    headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body})
