"""The state that all requests share: the store, its spaces and tokens, open sessions and turns."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Iterator

from starlette.requests import HTTPConnection

from holdfast.agent import Kit
from holdfast.apps.gate.limits import Buckets, address_of
from holdfast.apps.http._call import EVENT_STREAM, Endpoint, Refused, audit
from holdfast.apps.http._inbox import Waker
from holdfast.apps.http._spaces import BoundedThreads, Spaces
from holdfast.apps.http._turns import RunningTurns
from holdfast.apps.http.tokens import Token, TokenBook
from holdfast.library import Holdfast
from holdfast.observe import Metrics, add_health

_STREAMS_MAX = 2000
_STREAMS_OF_SPACE_MAX = 1000
_SUBPROTOCOL = "bearer."
_LOOK_S = 5.0
_REST = 30.0


class Service:
    """One server on one store. ``rate`` is how many requests a token may make each second."""

    def __init__(
        self,
        hf: Holdfast,
        kit: Kit | None = None,
        *,
        rate: float = 100,
        idle_s: float = 2.0,
        threads: int = 16,
        root: str | None = None,
    ) -> None:
        self.hf = hf
        self.tokens = TokenBook(hf.store)
        self.threads = BoundedThreads(threads)
        self.spaces = Spaces(hf, self.threads, idle_s=idle_s)
        self.turns = RunningTurns(kit, self.spaces, self.threads, root=root)
        self.waker = Waker(self)
        self.stopping = asyncio.Event()
        self._buckets = Buckets(rate, max(int(rate * 4), 1))
        self._failures = Buckets(1, 30)
        self._streams: Counter[str] = Counter()
        self._stop: asyncio.Task[None] | None = None
        self._metrics = Metrics()
        self._look_again = float("-inf")
        self._end_metrics = hf.observe(self._metrics)

    def check_open(self) -> None:
        """Raise Refused once the server is about to end."""
        if self.stopping.is_set():
            raise Refused(503, "stopping", "the server is being stopped", "Ask again in a moment.")

    async def admit(self, connection: HTTPConnection) -> Token:
        """Return the token of the caller. Raises Refused (401, 429)."""
        given = _given_token(connection)
        find = self.tokens.find
        # Nearly always known; only once in a while is the store asked, and never on the event loop.
        token = find(given) if self.tokens.is_fresh else await self.threads.run(find, given)
        if token is None:
            try:
                self.count_guess(connection)
            except Refused:
                if connection.scope["type"] == "websocket":
                    audit("input_refused", connection, None, status=429)
                raise
            if connection.scope["type"] == "websocket":
                audit("input_refused", connection, None, status=401)
            remedy = "Make one with `holdfast serve token create`; send Authorization: Bearer <token>."
            raise Refused(401, "token", "a token is needed that is good here", remedy)
        self.count(token)
        return token

    def count_guess(self, connection: HTTPConnection) -> None:
        """Count a wrong token by its address, since it belongs to nobody. Raises Refused (429)."""
        if wait := self._failures.take(address_of(connection.scope)):
            raise Refused(429, "too_many", "too many requests without a good token", wait_s=wait)

    def count(self, token: Token) -> None:
        """Count one request or message. Raises Refused (429) when there are too many."""
        if wait := self._buckets.take(token.id):
            raise Refused(429, "too_many", "these are too many requests", wait_s=wait)

    async def is_still_good(self, token: Token) -> bool:
        """Return whether a token is still valid: otherwise streams would outlive revocations."""
        ask = self.tokens.is_good
        return ask(token.id) if self.tokens.is_fresh else await self.threads.run(ask, token.id)

    def check_streams(self, space: str) -> None:
        """Raise Refused when too many follow, in all or in one space: none takes all places."""
        of_space = self._streams[space]
        if of_space >= _STREAMS_OF_SPACE_MAX or self._streams.total() >= _STREAMS_MAX:
            raise Refused(503, "busy", "too many clients are following", "Try again later.")

    @contextlib.contextmanager
    def counted_stream(self, space: str) -> Iterator[None]:
        """Count what goes on for long."""
        self._streams[space] += 1
        try:
            yield
        finally:
            self._streams[space] -= 1
            # Or names of spaces that nobody follows any more would pile up.
            if not self._streams[space]:
                del self._streams[space]

    def count_answer(self, endpoint: Endpoint, status: int, seconds: float) -> None:
        """Count one request that was answered."""
        figures = self._metrics.figures
        figures.add("holdfast_http_requests_total", 1, endpoint.name, str(status))
        if endpoint.media != EVENT_STREAM:
            figures.observe("holdfast_http_request_seconds", seconds, endpoint.name)

    async def metrics(self) -> str:
        """Return the metrics for Prometheus; only the spaces in use are read."""
        libraries = [self.hf, *self.spaces.in_use]
        return await self.threads.run(self._metrics_text, libraries)

    def _metrics_text(self, libraries: list[Holdfast]) -> str:
        began = time.monotonic()
        if began >= self._look_again:
            add_health(self._metrics.figures, [one for one in libraries if not one.closed])
            ended = time.monotonic()
            # Where listing is expensive, as in a bucket, it is done less often.
            self._look_again = ended + max(_LOOK_S, (ended - began) * _REST)
        return self._metrics.text()

    def begin_stop(self) -> None:
        """Put turns off and end streams; called when the process is asked to end."""
        if self._stop is None:
            # In this order: clients that listen hear how their turn ended before the stream does.
            self._stop = asyncio.ensure_future(self.spaces.host.put_off())
            self._stop.add_done_callback(lambda _: self.stopping.set())

    async def close(self) -> None:
        """Close everything that is open; what was acknowledged is safe."""
        await self.waker.stop()
        self.begin_stop()
        assert self._stop is not None
        await asyncio.wait([self._stop])
        await self.spaces.host.aclose()
        self._end_metrics()
        await self.threads.run(self.spaces.close)
        self.threads.close()


def _given_token(connection: HTTPConnection) -> str:
    """Return the token from the header, or from the protocols of a WebSocket, for which browsers set no header."""
    kind, _, token = connection.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return token.strip()
    if connection.scope["type"] == "websocket":
        for name in connection.scope.get("subprotocols", ()):
            if name.startswith(_SUBPROTOCOL):
                return str(name[len(_SUBPROTOCOL) :])
    return ""
