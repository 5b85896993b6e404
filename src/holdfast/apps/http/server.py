"""The ASGI application: the rows of the table, the WebSocket, and the guards around them."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from holdfast.agent import Kit
from holdfast.apps.gate.callers import LOOPBACK, guarded
from holdfast.apps.gate.server import run
from holdfast.apps.http._call import JSON, LOGGER, Endpoint, Refused, answer, problem
from holdfast.apps.http._openapi import INPUT, describe
from holdfast.apps.http._operations import ENDPOINTS
from holdfast.apps.http._service import Service
from holdfast.apps.http._socket import serve_input
from holdfast.apps.http.tokens import TokenBook
from holdfast.apps.watched import watch
from holdfast.library import Holdfast

__all__ = ["DESCRIPTION", "INPUT", "http_app"]

DESCRIPTION = "/openapi.json"  # where the description is
_BODY_BYTES_MAX = 16 << 20
_IMPORT_BYTES_MAX = 128 << 20
_ANY = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "QUERY")


def http_app(service: Service, *, hosts: Collection[str] = LOOPBACK, origins: Collection[str] = ()) -> ASGIApp:
    """Return the application behind its guards; ``service`` is closed when its lifespan ends."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        service.waker.start()
        try:
            yield
        finally:
            await service.close()

    app = Starlette(
        routes=_routes(service), lifespan=lifespan, exception_handlers={HTTPException: _refused, Exception: _failed}
    )
    # A path with a slash too many is none of ours, and told as such.
    app.router.redirect_slashes = False
    return guarded(
        app,
        hosts=hosts,
        origins=origins,
        body_bytes_max=lambda scope: _IMPORT_BYTES_MAX if scope["path"] == "/v1/import" else _BODY_BYTES_MAX,
    )


def _routes(service: Service) -> list[BaseRoute]:
    by_path: dict[str, dict[str, Endpoint]] = {}
    for endpoint in ENDPOINTS:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    routes: list[BaseRoute] = [
        # Every method comes to us, so that the refusal of one is a problem like all others.
        Route(path, _dispatcher(service, methods), methods=[*_ANY])
        for path, methods in by_path.items()
    ]
    # Once: it is the same for everybody for as long as the process lives.
    description = msgspec.json.encode(describe(ENDPOINTS))

    async def tell_description(_: Request) -> Response:
        return Response(description, media_type=JSON)

    async def socket(connection: WebSocket) -> None:
        await serve_input(service, connection)

    routes.append(Route(DESCRIPTION, tell_description))
    routes.append(WebSocketRoute(INPUT, socket))
    return routes


def _dispatcher(service: Service, methods: dict[str, Endpoint]) -> Callable[[Request], Awaitable[Response]]:
    """Return the handler of one path: each method is its own row; other methods are refused with a list of these."""
    allowed = {*methods, "OPTIONS"} | ({"HEAD"} if "GET" in methods else set())
    allow = {"allow": ", ".join(sorted(allowed))}

    async def dispatch(request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(None, 204, allow)
        wanted = "GET" if request.method == "HEAD" else request.method
        endpoint = methods.get(wanted)
        if endpoint is None:
            return _method_refused(allow)
        return await answer(service, endpoint, request)

    return dispatch


def _method_refused(headers: dict[str, str]) -> Response:
    response = problem(Refused(405, "method", "this cannot be done here", "See Allow."))
    response.headers.update(headers)
    return response


async def _refused(_: Request, error: Exception) -> Response:
    """Answer requests that starlette refuses by itself: unknown paths and methods."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 405:
        return _method_refused(dict(getattr(error, "headers", None) or {}))
    code = "not_found" if status == 404 else "request"
    return problem(Refused(status, code, "there is nothing here", f"See {DESCRIPTION}."))


async def _failed(_: Request, _error: Exception) -> Response:
    """Return the response for an internal error, without its details, which are in the log."""
    return problem(Refused(500, "internal", "the server made a mistake", "Look at its log."))


# Serving until the process is asked to end.
def serve(
    place: str | None,
    kit: Kit | None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    hosts: Collection[str] = (),
    origins: Collection[str] = (),
    rate: float = 100,
    root: str | None = None,
    ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve the spaces of a store. Raises as ``holdfast.open`` does, and Unavailable.

    Turns that run when the process is asked to end are put off: another server, or this one when
    it is there again, goes on with them.
    """
    # Audit lines go to standard error, each by itself.
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
    with Holdfast(place, redaction="mark") as hf:
        watch(hf, level="info")
        TokenBook(hf.store)  # told before anybody is let in
        names = (*LOOPBACK, host, *hosts)
        service = Service(hf, kit, rate=rate, root=root)
        app = http_app(service, hosts=names, origins=origins)
        run(app, host=host, port=port, ready=ready, stopping=service.begin_stop)
