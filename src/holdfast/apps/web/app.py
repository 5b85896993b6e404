"""The web app: its addresses, who may come in, and what a failure looks like."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.apps.gate.callers import LOOPBACK
from holdfast.apps.gate.guarding import guarded
from holdfast.apps.web import _doing, _reading
from holdfast.apps.web._audit import audited
from holdfast.apps.web._figures import figures_page, store_page
from holdfast.apps.web._listing import list_page, trash_page
from holdfast.apps.web._live import Streams, live_stream
from holdfast.apps.web._page import Site, page
from holdfast.errors import (
    AgentError,
    DataError,
    HoldfastError,
    InvalidId,
    Locked,
    NotFound,
    SecurityError,
    StoreError,
    TooLarge,
    UsageError,
)

__all__ = ["POLICY", "WebApp", "make_app"]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'"
)
"""What our pages may load: their own scripts, styles and pictures, and nothing else."""
_BODY_BYTES_MAX = 1 << 20
_STATUS: tuple[tuple[type[HoldfastError], int], ...] = (
    (NotFound, 404),
    (InvalidId, 404),
    (Locked, 409),
    (TooLarge, 413),
    (UsageError, 400),
    (DataError, 422),
    (SecurityError, 403),
    (StoreError, 503),
    (AgentError, 502),
)


def make_app(site: Site, *, hosts: tuple[str, ...] = LOOPBACK) -> WebApp:
    """The app behind every guard."""
    app = Starlette(
        routes=_routes(),
        middleware=[Middleware(_Entrance, site=site)],
        exception_handlers={
            HoldfastError: _failed,
            HTTPException: _missing,
            Exception: _broken,
        },
        lifespan=_lifespan,
    )
    app.state.site = site
    app.state.streams = Streams()
    return WebApp(
        guarded(app, hosts=hosts, need_origin=True, policy=POLICY, body_bytes_max=_BODY_BYTES_MAX),
        app.state.streams,
    )


class WebApp:
    """The guarded app, and the ``streams`` that have to end before the server does."""

    def __init__(self, app: ASGIApp, streams: Streams) -> None:
        self._app = app
        self.streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, as ASGI has it."""
        await self._app(scope, receive, send)


class _Entrance:
    """Lets in who has the cookie, or a link that was not used yet; of others only the styles."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app = app
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, as ASGI has it."""
        if scope["type"] != "http" or scope["path"].startswith("/static/"):
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        send = audited(request, send)
        door = self._site.door
        guest = door.guest(request.cookies.get(door.cookie))
        if guest is not None and scope["path"] != "/in":
            request.state.guest = guest
            await self._app(scope, receive, send)
            return
        response = self._enter(request) if scope["path"] == "/in" else None
        if response is None:
            scope["app"] = _Stand(self._site)
            response = await asyncio.to_thread(page, request, "closed.html", 401)
        await response(scope, receive, send)

    def _enter(self, request: Request) -> Response | None:
        """The cookie for a link, and an address without it; None if it was used."""
        door = self._site.door
        value = door.enter(request.query_params.get("token", ""))
        if value is None:
            return None
        response = RedirectResponse("/", 303)
        response.set_cookie(door.cookie, value, httponly=True, samesite="strict", path="/")
        return response


class _Stand:
    """As much of an app as a page needs before anyone is let in."""

    def __init__(self, site: Site) -> None:
        from starlette.datastructures import State

        self.state = State()
        self.state.site = site


@contextlib.asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await app.state.site.talks.close()


class _Number(Convertor[int]):
    """A number in an address; of more digits than any of ours has there is no page."""

    regex = "[0-9]{1,15}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("number", _Number())


def _routes() -> list[Route | Mount]:
    session = "/s/{id}"
    return [
        Route("/", list_page),
        Route("/trash", trash_page),
        Route("/trash/undelete", _doing.undelete, methods=["POST"]),
        Route("/activity", figures_page),
        Route("/store", store_page),
        Route("/invite", _doing.invite, methods=["POST"]),
        Route("/compare", _reading.compare_page),
        Route("/merge", _doing.merge, methods=["POST"]),
        Route("/new", _new_page, methods=["GET"]),
        Route("/new", _doing.begin, methods=["POST"]),
        Route(session, _reading.conversation_page),
        Route(f"{session}/earlier", _reading.earlier_part),
        Route(f"{session}/tail", _reading.tail_part),
        Route(f"{session}/live", live_stream),
        Route(f"{session}/timeline", _reading.timeline_page),
        Route(f"{session}/event/{{seq:number}}", _reading.event_page),
        Route(f"{session}/event/{{seq:number}}/file", _reading.event_json),
        Route(f"{session}/media/{{seq:number}}/{{index:number}}", _reading.media_file),
        Route(f"{session}/state", _reading.state_page),
        Route(f"{session}/branches", _reading.branches_page),
        Route(f"{session}/health", _reading.health_page),
        Route(f"{session}/export", _reading.export_file),
        Route(f"{session}/say", _doing.say, methods=["POST"]),
        Route(f"{session}/stop", _doing.stop, methods=["POST"]),
        Route(f"{session}/answer", _doing.answer, methods=["POST"]),
        Route(f"{session}/do/{{deed}}", _doing.act, methods=["POST"]),
        Mount("/static", _Static(packages=[("holdfast.apps.web", "static")])),
    ]


class _Static(StaticFiles):
    """Our own files; a browser may keep them for as long as they are the same."""

    def file_response(self, *args: object, **more: object) -> Response:
        response = super().file_response(*args, **more)  # type: ignore[arg-type]  # handed on as they came
        response.headers["cache-control"] = "no-cache"
        return response


def _new_page(request: Request) -> Response:
    return page(request, "new.html")


async def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HoldfastError)
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
    return await _told(request, status, error.message, error.remedy)


async def _missing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.NOT_FOUND:
        return await _told(
            request, 404, "there is no such page", "Go to the list, and choose a session there."
        )
    return await _told(request, error.status_code, error.detail, "Go back to the page before.")


async def _broken(request: Request, _: Exception) -> Response:
    return await _told(
        request, 500, "something went wrong in Holdfast itself",
        "Your sessions are as they were. Try again; the terminal tells what happened.",
    )  # fmt: skip


async def _told(request: Request, status: int, message: str, remedy: str) -> Response:
    """A page for people; a sentence for the scripts of our pages, which show it."""
    is_script = "x-form-token" in request.headers or request.headers.get("hx-request") == "true"
    if is_script or not hasattr(request.state, "guest"):
        return PlainTextResponse(f"{message}. {remedy}", status)
    return await asyncio.to_thread(
        page, request, "failed.html", status, message=message, remedy=remedy, status=status
    )
