"""The web app: its addresses, who may come in, and what a failure looks like."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.apps.gate.callers import LOOPBACK, SAFE_METHODS, guarded
from holdfast.apps.gate.limits import address_of
from holdfast.apps.gate.server import run
from holdfast.apps.watched import watch
from holdfast.apps.web import _actions, _session
from holdfast.apps.web._actions import Talks
from holdfast.apps.web._inbox import answer, questions_part, waiting_page
from holdfast.apps.web._list import list_page, trash_page
from holdfast.apps.web._page import Site, going_on, page, site_of, wants_part
from holdfast.apps.web._stats import figures_page, store_page
from holdfast.errors import HoldfastError
from holdfast.library import Holdfast
from holdfast.model import is_id
from holdfast.security import neutralise
from holdfast.session import now_ms
from holdfast.storage import shown_url

if TYPE_CHECKING:
    from holdfast.agent import Kit
    from holdfast.session import Follower

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'"
"""The content policy of our pages: their own scripts, styles and pictures, and nothing else."""
_BODY_BYTES_MAX = 1 << 20


def make_app(site: Site, *, hosts: tuple[str, ...] = LOOPBACK) -> ASGIApp:
    """Return the app behind every guard."""
    app = Starlette(
        routes=_routes(),
        middleware=[Middleware(_Entrance, site=site)],
        exception_handlers=dict.fromkeys((HoldfastError, HTTPException, Exception), _failed),
        lifespan=_lifespan,
    )
    app.state.site = site
    return guarded(app, hosts=hosts, need_origin=True, policy=POLICY, body_bytes_max=_BODY_BYTES_MAX)


class _Entrance:
    """Lets in who has the cookie, or a link that was not used yet; of others only the styles."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app = app
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI request."""
        # The page that says that the door is closed has styles too.
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
        value = door.enter(request.query_params.get("token", "")) if scope["path"] == "/in" else None
        if value is None:
            response = await asyncio.to_thread(page, request, "closed.html", 401)
        else:
            # The cookie for the link, and an address without it. No script reads it, and no other site sends it.
            response = RedirectResponse("/", 303)
            response.set_cookie(door.cookie, value, httponly=True, samesite="strict", path="/")
        await response(scope, receive, send)


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
        Route("/trash/undelete", _actions.undelete, methods=["POST"]),
        Route("/waiting", waiting_page),
        Route("/waiting/live", inbox_stream),
        Route("/waiting/{ask}", answer, methods=["POST"]),
        Route("/activity", figures_page),
        Route("/store", store_page),
        Route("/invite", _actions.invite, methods=["POST"]),
        Route("/compare", _session.compare_page),
        Route("/merge", _actions.merge, methods=["POST"]),
        Route("/new", lambda request: page(request, "new.html"), methods=["GET"]),
        Route("/new", _actions.begin, methods=["POST"]),
        Route(session, _session.conversation_page),
        Route(f"{session}/earlier", _session.earlier_part),
        Route(f"{session}/tail", _session.tail_part),
        Route(f"{session}/questions", questions_part),
        Route(f"{session}/live", live_stream),
        Route(f"{session}/timeline", _session.timeline_page),
        Route(f"{session}/event/{{seq:number}}", _session.event_page),
        Route(f"{session}/event/{{seq:number}}/file", _session.event_json),
        Route(f"{session}/media/{{seq:number}}/{{index:number}}", _session.media_file),
        Route(f"{session}/state", _session.state_page),
        Route(f"{session}/branches", _session.branches_page),
        Route(f"{session}/health", _session.health_page),
        Route(f"{session}/export", _session.export_file),
        *(Route(f"{session}/{what}", _actions.talk, methods=["POST"]) for what in ("say", "continue", "stop")),
        Route(f"{session}/do/{{deed}}", _actions.act, methods=["POST"]),
        Mount("/static", _Static(packages=[("holdfast.apps.web", "static")])),
    ]


class _Static(StaticFiles):
    """Our own files; a browser may keep them for as long as they are the same."""

    def file_response(self, *args: object, **more: object) -> Response:
        response = super().file_response(*args, **more)  # type: ignore[arg-type]  # handed on as they came
        response.headers["cache-control"] = "no-cache"
        return response


async def _failed(request: Request, error: Exception) -> Response:
    """Tell a failure as a page for people; as a sentence for the scripts of our pages, which show it."""
    match error:
        case HoldfastError():
            status, message, remedy = error.status, error.message, error.remedy
        case HTTPException(status_code=404):
            status, message, remedy = 404, "there is no such page", "Go to the list, and choose a session there."
        case HTTPException():
            status, message, remedy = error.status_code, error.detail, "Go back to the page before."
        case _:
            status, message = 500, "something went wrong in Holdfast itself"
            remedy = "Your sessions are as they were. Try again; the terminal tells what happened."
    # Without a guest there is no page to show: it would tell strangers about the store.
    is_script = "x-form-token" in request.headers or wants_part(request)
    if is_script or not hasattr(request.state, "guest"):
        return PlainTextResponse(f"{message}. {remedy}", status)
    return await asyncio.to_thread(page, request, "failed.html", status, message=message, remedy=remedy, status=status)


# Running the web app until the process is asked to end.
def serve_web(
    place: str | None,
    make_kit: Callable[[], Kit],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    checks: Callable[[], Sequence[Any]] = tuple,
    ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve the pages. ``ready`` gets the address with a token that works once.

    ``make_kit`` is called at the first message to an agent. Raises as ``holdfast.open`` does,
    and Unavailable if the port is taken.
    """
    with Holdfast(place, redaction="mark") as hf:
        watch(hf)
        where = str(getattr(hf.store, "path", shown_url(hf.store.url)))
        site = Site(hf=hf, where=where, talks=Talks(hf, make_kit), checks=checks)
        app = make_app(site, hosts=(*LOOPBACK, host))

        def tell(address: str) -> None:
            ready(f"{address}/in?token={site.door.link()}")

        # Streams would go on for ever otherwise.
        run(app, host=host, port=port, ready=tell, stopping=site.streams.ending.set, grace_seconds=5)


# The audit log: one line of JSON for each admission and action, without any recorded text.
LOGGER = logging.getLogger("holdfast.audit")  # lines go here, as those of the service do


def audited(request: Request, send: Send) -> Send:
    """Return a ``send`` that notes what changes something, and every try at the door."""
    path = request.url.path
    if request.method in SAFE_METHODS and path != "/in":
        return send
    parts = path.strip("/").split("/")
    id = parts[1] if parts[0] == "s" and len(parts) > 1 else None

    async def send_noted(message: Message) -> None:
        if message["type"] == "http.response.start":
            line = {
                "at": now_ms(),
                "action": "enter" if path == "/in" else parts[-1][:40],
                "session": id if is_id(id) else None,
                "from": address_of(request.scope),
                "status": message["status"],
            }
            LOGGER.info(msgspec.json.encode(line).decode())
        await send(message)

    return send_noted


# Following a session: a page is notified of news, and requests them.
_PAUSE_MIN_S = 0.1
_PAUSE_MAX_S = 0.5
_INBOX_PAUSE_S = 1.0
_HEARTBEAT_S = 15.0
_STREAMS_MAX = 64


async def live_stream(request: Request) -> Response:
    """Return a stream of server-sent events: ``news`` with the newest event's number, ``ask``, ``state``."""
    site = site_of(request)
    id = str(request.path_params["id"])
    given = request.query_params.get("after", "")
    after = int(given) if given.isdecimal() and len(given) < 17 else 0
    if site.streams.count >= _STREAMS_MAX:
        return Response("too many pages follow sessions", 503, headers={"retry-after": "10"})
    follower = await asyncio.to_thread(site.hf.follow, id, after)
    return StreamingResponse(
        _stream(site, id, follower), media_type="text/event-stream", headers={"x-accel-buffering": "no"}
    )


async def inbox_stream(request: Request) -> Response:
    """Server-sent events: ``asks`` with the ids of the open questions, first and whenever they change."""
    site = site_of(request)
    if site.streams.count >= _STREAMS_MAX:
        return Response("too many pages follow sessions", 503, headers={"retry-after": "10"})
    headers = {"x-accel-buffering": "no"}
    return StreamingResponse(_inbox_news(site), media_type="text/event-stream", headers=headers)


async def _inbox_news(site: Site) -> AsyncIterator[str]:
    streams = site.streams
    streams.count += 1
    told: list[str] | None = None
    quiet = 0.0
    try:
        yield "retry: 1000\n\n"
        while not streams.ending.is_set():
            now = [one.id for one in await asyncio.to_thread(site.hf.waiting)]
            if now != told:
                told, quiet = now, 0.0
                yield _message("asks", {"questions": now})
            elif quiet >= _HEARTBEAT_S:
                quiet = 0.0
                yield ": still here\n\n"
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(streams.ending.wait(), _INBOX_PAUSE_S)
            quiet += _INBOX_PAUSE_S
    finally:
        streams.count -= 1


async def _stream(site: Site, id: str, follower: Follower) -> AsyncIterator[str]:
    streams = site.streams
    streams.count += 1
    told: dict[str, Any] = {}
    status = (await asyncio.to_thread(site.hf.info, id)).status
    quiet, pause = 0.0, _PAUSE_MIN_S
    try:
        yield "retry: 1000\n\n"
        while not streams.ending.is_set():
            events = await asyncio.to_thread(follower.poll)
            if events:
                yield _message("news", {"seq": events[-1].seq})
                status = (await asyncio.to_thread(site.hf.info, id)).status
            # Sent only when it changes: a page that follows for hours gets nearly nothing.
            now = await _situation(site, id, status)
            if now != told:
                told = now
                yield _message("state", now)
            if events:
                quiet, pause = 0.0, _PAUSE_MIN_S
            elif quiet >= _HEARTBEAT_S:
                quiet = 0.0
                yield ": still here\n\n"
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(streams.ending.wait(), pause)
            quiet, pause = quiet + pause, min(pause * 1.5, _PAUSE_MAX_S)
    finally:
        streams.count -= 1
        follower.close()


async def _situation(site: Site, id: str, status: str) -> dict[str, Any]:
    """Return the status beside the conversation: whether it answers, what waits, what failed."""
    waits = status in ("waiting", "suspended")
    questions = await asyncio.to_thread(site.hf.waiting, session=id) if waits else []
    # Whoever answered elsewhere, an answer that was begun here goes on.
    if waits and site.talks.has_talked(id) and not site.talks.is_running(id):
        await site.talks.wake(id)
    running = site.talks.is_running(id)
    goes_on = None if running else going_on(site, id, status, asks=bool(questions))
    # A recorded failure is shown in the conversation; any other below it.
    trouble = "" if goes_on else neutralise(site.talks.trouble(id))
    return {"running": running, "questions": [one.id for one in questions], "trouble": trouble, "goes_on": goes_on}


def _message(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {msgspec.json.encode(data).decode()}\n\n"
