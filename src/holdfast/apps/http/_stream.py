"""Following events: those from a position on, then new ones as they are recorded by any process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from functools import partial
from typing import TYPE_CHECKING

from starlette.responses import Response, StreamingResponse

from holdfast.apps.http._call import EVENT_STREAM, Call, Refused
from holdfast.apps.http.tokens import Token
from holdfast.library import Holdfast
from holdfast.library.answers import encoded
from holdfast.library.answers.events import EventRecord
from holdfast.model import Event, Notice
from holdfast.session import Follower, resolve_blobs

if TYPE_CHECKING:
    from holdfast.apps.http._service import Service

_PAGE = 500
_LOOK_S = 0.5
_HEARTBEAT_S = 15.0


def sse(name: str, data: bytes, id: int | None = None) -> bytes:
    """Return one server-sent event; JSON has no line ends in it."""
    numbered = b"" if id is None else b"id: %d\n" % id
    return b"%sevent: %s\ndata: %s\n\n" % (numbered, name.encode(), data)


async def follow(call: Call) -> Response:
    """Return a stream of the events of a session. Raises NotFound, Refused."""
    start, id = _start(call), call.id
    call.service.check_streams(call.space)
    await call.service.threads.run(lambda: call.hf.follow(id).close())  # there must be one
    if call.request.method == "HEAD":
        return Response(None, 200, media_type=EVENT_STREAM)
    assert call.token is not None
    return StreamingResponse(_stream(call.service, call.token, id, start), 200, media_type=EVENT_STREAM)


def _start(call: Call) -> int:
    last = call.request.headers.get("last-event-id")
    if last is None:
        return int(call.query.start)
    if not (last.isascii() and last.isdecimal() and len(last) < 16):
        raise Refused(400, "usage", "Last-Event-ID is the id of an event of this stream")
    return int(last) + 1


async def _stream(service: Service, token: Token, id: str, start: int) -> AsyncIterator[bytes]:
    with service.counted_stream(token.space):
        yield b"retry: 1000\n\n"
        async with contextlib.aclosing(Following(service, token, id, start).events()) as events:
            async for event in events:
                if event is None:
                    yield b": still here\n\n"
                else:
                    yield sse(event.type, encoded(event), event.seq)
        reason = "stopping"
        if not service.stopping.is_set():
            reason = "gone" if await service.is_still_good(token) else "token"
        yield sse("stream.end", encoded({"reason": reason}))


class Following:
    """The events of a session from a place on, until it is gone, the server stops or the token has been revoked."""

    def __init__(self, service: Service, token: Token, id: str, start: int) -> None:
        self._service = service
        self._token = token
        self._id = id
        self._next = start
        self._bell = asyncio.Event()
        self._follower: Follower | None = None

    async def events(self) -> AsyncGenerator[EventRecord | None]:
        """Yield each event; None now and then while there is none."""
        service = self._service
        loop = asyncio.get_running_loop()
        async with service.spaces.use(self._token.space) as hf:
            stop = hf.subscribe(partial(self._ring, loop))
            try:
                heard = loop.time()
                while not service.stopping.is_set() and await service.is_still_good(self._token):
                    # The bell only says that it is worth a look; another process rings nobody here.
                    found = await service.threads.run(self._look, hf)
                    if found is None:
                        return
                    for event in found:
                        yield event
                    if found:
                        heard = loop.time()
                        continue
                    if loop.time() - heard >= _HEARTBEAT_S:
                        heard = loop.time()
                        yield None
                    await self._wait()
            finally:
                stop()

    def _ring(self, loop: asyncio.AbstractEventLoop, id: str, what: Event | Notice) -> None:
        if id == self._id:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._bell.set)

    async def _wait(self) -> None:
        """Wait until something was recorded here, or it is time to check for other processes."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_S):
                await self._bell.wait()
        self._bell.clear()

    def _look(self, hf: Holdfast) -> list[EventRecord] | None:
        """Return the new events; None when the session is gone."""
        if not hf.exists(self._id):
            return None
        if self._follower is None:
            found = list(hf.events(self._id, self._next, limit=_PAGE))
            # At the end of what there was. From here on a follower reads only what is added.
            if len(found) < _PAGE:
                last = found[-1].seq + 1 if found else self._next
                self._follower = hf.follow(self._id, last)
        else:
            found = self._follower.poll()
        if found:
            self._next = found[-1].seq + 1
        documents = hf.store.documents(f"sessions/{self._id}")
        return [EventRecord.of(event) for event in resolve_blobs(found, documents)]
