"""Limits on the bytes of a body and on the requests of one client."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.apps.gate.responses import header, refuse

_CLIENTS_MAX = 10_000
_PART_S = 30.0
_SLOWEST_BYTES_PER_S = 1 << 10
_TOGETHER_BYTES_MAX = 512 << 20


class BodyLimit:
    """Refuses bodies of more than ``bytes_max`` with 413, whatever length they claim to have.

    ``bytes_max`` may be a function of the ASGI scope, where paths differ. A body of which nothing more comes for
    ``part_s`` seconds is refused with 408: waiting costs a client nothing. So is one that was waited for twice as
    long, and a second more for each KiB that came of it. When the bodies of all requests together have more than
    ``together_max`` bytes, who adds to them is refused with 503: otherwise a few clients could fill the memory.
    """

    def __init__(
        self,
        app: ASGIApp,
        bytes_max: int | Callable[[Scope], int],
        *,
        part_s: float = _PART_S,
        together_max: int = _TOGETHER_BYTES_MAX,
    ) -> None:
        self._app = app
        self._bytes_max = bytes_max
        self._limits = _Limits(part_s, together_max)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI request or connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = self._bytes_max
        bytes_max = given if isinstance(given, int) else given(scope)
        counted = _Counted(scope, receive, send, bytes_max, self._limits)
        if counted.is_ambiguous() or counted.claims_too_much():
            await counted.refuse()
            return
        try:
            await self._app(scope, counted.receive, counted.send)
        # What it raises then only means that its body ended early.
        except Exception:
            if not counted.is_over:
                raise
        finally:
            counted.forget()
        if counted.is_over:
            await counted.refuse()


@dataclass
class _Limits:
    """The state that all requests share; ``held`` is how many bytes of bodies are in memory."""

    part_s: float
    together_max: int
    held: int = 0


class _TooMuch(Exception):
    """Raised to an application that reads on after a limit."""


class _Counted:
    """One request whose body is counted; once it is refused its application is not heard."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, bytes_max: int, limits: _Limits) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._bytes_max = bytes_max
        self._limits = limits
        self._bytes = 0
        self._waited = 0.0
        self._whole = False
        self._answered = False
        self._why = (
            413, "too_large",
            f"the body has more than {bytes_max:,} bytes", "Send it in smaller parts.",
        )  # fmt: skip
        self.is_over = False

    def is_ambiguous(self) -> bool:
        """Return whether two headers disagree about the end of the body: a proxy might see another request there."""
        both = (b"content-length", b"transfer-encoding")
        if any(header(self._scope, name) is None for name in both):
            return False
        self._why = (
            400, "ambiguous_length",
            "the request has both Content-Length and Transfer-Encoding", "Send one of the two.",
        )  # fmt: skip
        return True

    def claims_too_much(self) -> bool:
        claimed = header(self._scope, b"content-length")
        if claimed is None:
            return False
        # More digits than any body has, so that no huge number is made of them.
        is_number = claimed.isascii() and claimed.isdecimal() and len(claimed) < 20
        return not is_number or int(claimed) > self._bytes_max

    async def receive(self) -> Message:
        part_s, began = self._limits.part_s, time.monotonic()
        # One byte now and then is not nothing, and would keep a connection for ever.
        left = 2 * part_s + self._bytes / _SLOWEST_BYTES_PER_S - self._waited
        try:
            # After the body only the end of the connection comes, and that may take its time.
            async with asyncio.timeout(None if self._whole else min(part_s, left)):
                message = await self._receive()
        except TimeoutError:
            detail = f"nothing of the body came for {part_s:g} seconds"
            if left < part_s:
                detail = f"less than {_SLOWEST_BYTES_PER_S:,} bytes of the body came in a second"
            self._why = (408, "too_slow", detail, "Send it again.")
            self.is_over = True
            raise _TooMuch from None
        self._waited += time.monotonic() - began
        self._whole = not message.get("more_body", False)
        self._count(len(message.get("body", b"")))
        return message

    def _count(self, size: int) -> None:
        self._bytes += size
        self._limits.held += size
        if self._bytes > self._bytes_max:
            self.is_over = True
        elif size and self._limits.held > self._limits.together_max:
            self._why = (503, "busy", "too much is being sent at once", "Try again in a moment.")
            self.is_over = True
        if self.is_over:
            raise _TooMuch

    def forget(self) -> None:
        """Note that the body is no longer in memory."""
        self._limits.held -= self._bytes
        self._bytes = 0

    async def send(self, message: Message) -> None:
        if self.is_over and not self._answered:
            return
        self._answered = True
        await self._send(message)

    async def refuse(self) -> None:
        if self._answered:  # half an answer is on its way; it stays what it is
            return
        headers = {"connection": "close"} | ({"retry-after": "1"} if self._why[0] == 503 else {})
        await refuse(self._scope, self._receive, self._send, *self._why, headers)


class Buckets:
    """For each of the newest keys ``burst`` things at once, and ``per_second`` of them in the long run."""

    def __init__(
        self,
        per_second: float,
        burst: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        clients_max: int = _CLIENTS_MAX,
    ) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._clients_max = clients_max
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> float:
        """Count one; 0 if it may be, else after how many seconds the next one may be."""
        now = self._clock()
        level, since = self._levels.pop(key, (float(self._burst), now))
        level = min(self._burst, level + (now - since) * self._per_second)
        may = level >= 1
        self._levels[key] = (level - 1 if may else level, now)
        # Whoever was not heard of for longest has a full bucket again anyway.
        if len(self._levels) > self._clients_max:
            self._levels.popitem(last=False)
        return 0.0 if may else (1 - level) / self._per_second


class RateLimit:
    """Refuses requests and WebSockets of a client that asks too often: 429 with Retry-After.

    ``client_of`` names the client of a scope; without it the address it comes from does.
    """

    def __init__(self, app: ASGIApp, buckets: Buckets, client_of: Callable[[Scope], str] | None = None) -> None:
        self._app = app
        self._buckets = buckets
        self._client_of = client_of or address_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI request or connection."""
        wait = self._buckets.take(self._client_of(scope)) if scope["type"] in {"http", "websocket"} else 0
        if wait > 0:
            told = ("too_many", "these are too many requests", "Wait as long as Retry-After says.")
            await refuse(scope, receive, send, 429, *told, {"retry-after": str(math.ceil(wait))})
        else:
            await self._app(scope, receive, send)


def address_of(scope: Scope) -> str:
    """Return the address that a request comes from."""
    client = scope.get("client")
    return str(client[0]) if client else ""
