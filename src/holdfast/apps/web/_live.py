"""Following a session: a page is told that something came, and asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from holdfast.apps.web._page import site_of
from holdfast.security import neutralise

if TYPE_CHECKING:
    from holdfast.apps.web._page import Site
    from holdfast.session import Follower

__all__ = ["Streams", "live_stream"]

_PAUSE_MIN_S = 0.1
_PAUSE_MAX_S = 0.5
_HEARTBEAT_S = 15.0
_STREAMS_MAX = 64


class Streams:
    """How many pages follow something, and whether they are to end."""

    def __init__(self) -> None:
        self.count = 0
        self.ending = asyncio.Event()

    def end(self) -> None:
        """The server ends; streams would go on for ever."""
        self.ending.set()


async def live_stream(request: Request) -> Response:
    """Server-sent events: ``news`` with the newest event's number, ``ask``, ``state``."""
    site, streams = site_of(request), request.app.state.streams
    id = str(request.path_params["id"])
    given = request.query_params.get("after", "")
    after = int(given) if given.isdecimal() and len(given) < 17 else 0
    if streams.count >= _STREAMS_MAX:
        return Response("too many pages follow sessions", 503, headers={"retry-after": "10"})
    follower = await asyncio.to_thread(site.hf.follow, id, after)
    return StreamingResponse(
        _told(site, streams, id, follower),
        media_type="text/event-stream",
        headers={"x-accel-buffering": "no"},
    )


async def _told(site: Site, streams: Streams, id: str, follower: Follower) -> AsyncIterator[str]:
    streams.count += 1
    told: tuple[Any, ...] = ()
    quiet, pause = 0.0, _PAUSE_MIN_S
    try:
        yield "retry: 1000\n\n"
        while not streams.ending.is_set():
            events = await asyncio.to_thread(follower.poll)
            if events:
                yield _message("news", {"seq": events[-1].seq})
            now = _situation(site, id)
            if now != told:
                told = now
                yield _message("state", dict(now))
            if events:
                quiet, pause = 0.0, _PAUSE_MIN_S
            elif quiet >= _HEARTBEAT_S:
                quiet = 0.0
                yield ": still here\n\n"
            await _wait(streams, pause)
            quiet, pause = quiet + pause, min(pause * 1.5, _PAUSE_MAX_S)
    finally:
        streams.count -= 1
        follower.close()


async def _wait(streams: Streams, seconds: float) -> None:
    try:
        await asyncio.wait_for(streams.ending.wait(), seconds)
    except TimeoutError:
        return


def _situation(site: Site, id: str) -> tuple[Any, ...]:
    """What the page shows beside the conversation: whether it answers, what waits, what failed."""
    questions = [
        {
            "id": one.id,
            "tool": neutralise(one.tool),
            "about": neutralise(one.description),
            "arguments": neutralise(one.arguments),
        }
        for one in site.talks.questions(id)
    ]
    trouble = neutralise(site.talks.trouble(id))
    running = site.talks.is_running(id)
    return (("running", running), ("questions", questions), ("trouble", trouble))


def _message(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {msgspec.json.encode(data).decode()}\n\n"
