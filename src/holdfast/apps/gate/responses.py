"""Answers of the gate itself, the same for a request and for a WebSocket that wants to begin."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PROBLEM = "application/problem+json"


def header(scope: Scope, name: bytes) -> str | None:
    """Return the one header of that name (in small letters); None for none. Twice counts as two lines."""
    found = [value for key, value in scope["headers"] if key == name]
    return b"\n".join(found).decode("latin-1") if found else None


def problem_body(status: int, code: str, detail: str, remedy: str = "", **more: Any) -> bytes:
    """Return a problem as RFC 9457 has it, with our code and what to do about it."""
    from http import HTTPStatus

    fields = {
        "type": f"urn:holdfast:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": detail,
        "remedy": remedy,
        **more,
    }
    return msgspec.json.encode({name: value for name, value in fields.items() if value != ""})


async def refuse(  # noqa: PLR0917 - an ASGI application's three, and what is to be said
    scope: Scope,
    receive: Receive,
    send: Send,
    status: int,
    code: str,
    detail: str,
    remedy: str = "",
    headers: dict[str, str] | None = None,
) -> None:
    """Answer a request, or the handshake of a WebSocket, with a problem."""
    body = problem_body(status, code, detail, remedy)
    given = {"content-type": PROBLEM, "content-length": str(len(body)), **(headers or {})}
    lines = [(name.encode(), value.encode("latin-1")) for name, value in given.items()]
    kind = "http"
    if scope["type"] == "websocket":
        await receive()  # websocket.connect
        if "websocket.http.response" not in (scope.get("extensions") or {}):
            await send({"type": "websocket.close", "code": 1008, "reason": code})
            return
        kind = "websocket.http"
    await send({"type": f"{kind}.response.start", "status": status, "headers": lines})
    await send({"type": f"{kind}.response.body", "body": body})


# Headers of every response for browsers: run nothing, guess nothing, tell nobody, keep nothing.
NOTHING_RUNS = "default-src 'none'"  # the policy for answers that are no pages
_FRAMES = "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
_ALWAYS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class SafeHeaders:
    """Adds the headers to every response; ``policy`` is the app's content security policy.

    A response may bring a policy or a ``cache-control`` of its own, such as for a picture that may
    be kept; nothing of the rest can be taken back. What says nothing is stored nowhere.
    """

    def __init__(self, app: ASGIApp, policy: str = NOTHING_RUNS) -> None:
        self._app = app
        self._policy = f"{policy.rstrip('; ')}; {_FRAMES}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI request or connection."""

        async def send_safely(message: Message) -> None:
            if message["type"].endswith("response.start"):
                headers = MutableHeaders(raw=message["headers"])
                for name, value in _ALWAYS.items():
                    headers[name] = value
                headers.setdefault("content-security-policy", self._policy)
                headers.setdefault("cache-control", "no-store")
                message["headers"] = headers.raw
            await send(message)

        await self._app(scope, receive, send_safely)
