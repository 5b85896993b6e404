"""Running an ASGI application until the process is asked to end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from holdfast.apps.wire.pipes import ENDING
from holdfast.errors import Unavailable

_GRACE_SECONDS = 10
_MESSAGE_BYTES_MAX = 1 << 20
_HEAD_S = 20.0


def run(
    app: ASGIApp,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    ready: Callable[[str], None] = lambda _: None,
    stopping: Callable[[], None] = lambda: None,
    grace_seconds: int = _GRACE_SECONDS,
    message_bytes_max: int | None = _MESSAGE_BYTES_MAX,
    head_s: float = _HEAD_S,
) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP; return when the last request was answered.

    ``ready`` is told the address once clients can come; port 0 is any that is free. When the process is asked to end
    nobody new is let in, and ``stopping`` is called on the event loop, to end what would go on for long; what still
    runs after ``grace_seconds`` is cancelled. Then the application's lifespan ends. A second signal does not wait.
    With ``message_bytes_max`` None there are no WebSockets. A connection on which no request is complete ``head_s``
    seconds after it was expected is closed. Raises Unavailable if the port is taken.
    """
    with listen(host, port) as listening:
        config = uvicorn.Config(
            app,
            access_log=False,  # addresses may hold a one-time token
            log_level="warning",
            lifespan="on",
            proxy_headers=False,  # anyone could say who they are
            server_header=False,
            timeout_graceful_shutdown=grace_seconds,
            ws="none" if message_bytes_max is None else "websockets-sansio",
            ws_max_size=message_bytes_max or 0,
        )
        server = _Server(config)
        server.head_s = head_s
        logging.getLogger("uvicorn.error").addFilter(_is_news)
        name, number = listening.getsockname()[:2]
        server.told_ready = lambda: ready(f"http://[{name}]:{number}" if ":" in name else f"http://{name}:{number}")
        server.told_stopping = stopping
        asyncio.run(server.serve([listening]))


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens there. Raises Unavailable."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    try:
        # A server that is started again must not wait for connections that have ended.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)  # clients may connect as soon as the address is published
    except (OSError, OverflowError) as error:
        listening.close()
        told = f"port {port} of {host} cannot be used: {getattr(error, 'strerror', None) or error}"
        raise Unavailable(told, remedy="Choose another port.") from error
    return listening


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether to log a record: refused WebSockets are not errors, as uvicorn takes them to be."""
    return "without completing handshake" not in record.msg


class _Heads:
    """Before uvicorn's protocol: closes a connection whose next request does not come to its point.

    uvicorn waits for ever for the first request, and for the rest of one that has begun: a few
    hundred clients that say a letter now and then would keep everybody else out.
    """

    head_s: float = _HEAD_S
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    cycle: Any
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)  # type: ignore[misc]  # of the class it is mixed into
        self._expect()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)  # type: ignore[misc]  # of the class it is mixed into
        if self.cycle is None or self.cycle.response_complete:
            self._expect()
        else:
            self._forget()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)  # type: ignore[misc]  # of the class it is mixed into

    def _expect(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(self.head_s, self._give_up)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        self._late = None
        now: object = self.transport.get_protocol()
        is_mine = now is self  # a WebSocket has one of its own
        if is_mine and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()


class _Server(uvicorn.Server):
    """One that leaves ``run`` in good order: uvicorn's own ends the process by the signal."""

    told_ready: Callable[[], None]
    told_stopping: Callable[[], None]
    head_s: float

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        # On the event loop, so that `stopping` may touch what requests touch.
        for number in ENDING:
            loop.add_signal_handler(number, self._end)
        try:
            yield
        finally:
            for number in ENDING:
                loop.remove_signal_handler(number)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        base = self.config.http_protocol_class
        self.config.http_protocol_class = type("Heads", (_Heads, base), {"head_s": self.head_s})
        await super().startup(sockets)
        self.told_ready()

    def _end(self) -> None:
        if self.should_exit:
            self.force_exit = True
            return
        self.should_exit = True
        self.told_stopping()
