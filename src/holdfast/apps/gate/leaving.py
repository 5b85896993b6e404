"""What every response says to a browser: run nothing, guess nothing, tell nobody, keep nothing."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["NOTHING_RUNS", "SafeHeaders"]

NOTHING_RUNS = "default-src 'none'"
"""The policy for answers that are no pages."""
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
        """One request or connection, as ASGI has it."""

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
