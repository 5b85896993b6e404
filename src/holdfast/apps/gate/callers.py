"""Checks of callers: host names of this server, and pages that it made itself.

A page anywhere on the web can send requests to a server on this machine. ``HostCheck`` refuses
those for which a foreign name was made to point here (DNS rebinding), ``OriginCheck`` those that
another page sends in its visitor's name, also as a WebSocket, which no same-origin policy covers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.apps.gate.limits import BodyLimit, Buckets, RateLimit
from holdfast.apps.gate.responses import NOTHING_RUNS, SafeHeaders, header, refuse

LOOPBACK = ("127.0.0.1", "localhost", "::1")  # the names of this machine for itself
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})  # the methods that change nothing

_SHOWN_HEADERS = "location, retry-after"
# Clients are identified by a token in a header, which no page sends by accident: no cookies.
_PREFLIGHT = (
    (b"access-control-allow-methods", b"GET, HEAD, POST, PUT, PATCH, DELETE"),
    (b"access-control-allow-headers", b"authorization, content-type, accept, idempotency-key, last-event-id"),
    (b"access-control-max-age", b"600"),
)


class HostCheck:
    """Passes on what was sent to one of ``hosts`` (names without a port); 421 for the rest.

    ``"*"`` among them passes everything, for a server behind a proxy that checks.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str] = LOOPBACK) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI request or connection."""
        is_guarded = scope["type"] in ("http", "websocket") and "*" not in self._hosts
        if is_guarded and _host_name(header(scope, b"host") or "") not in self._hosts:
            remedy = "Use the address that the server said when it started."
            await refuse(scope, receive, send, 421, "host", "this server does not have that name", remedy)
        else:
            await self._app(scope, receive, send)


class OriginCheck:
    """Passes on unsafe requests and WebSockets of this server's own pages and of no page at all.

    ``origins`` are others that may come, such as ``https://app.example``. With ``need_origin`` an
    unsafe request has to say where it comes from: for an app whose users are known by a cookie.
    Browsers always say it; programs need not, and are known by a token.

    The pages of ``origins`` may read the answers too, and are told so before they ask (CORS).
    """

    def __init__(self, app: ASGIApp, origins: Collection[str] = (), *, need_origin: bool = False) -> None:
        self._app = app
        self._origins = frozenset(origin.lower() for origin in origins)
        self._need_origin = need_origin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI request or connection."""
        is_http = scope["type"] == "http"
        origin = header(scope, b"origin") if is_http else None
        is_unsafe = scope["type"] == "websocket" or (is_http and scope["method"] not in SAFE_METHODS)
        if origin is not None and origin.lower() in self._origins:
            await self._app_of_another_page(scope, receive, send, origin)
        elif is_unsafe and not self._may_come(scope):
            remedy = "Open this server's own page, or use a program with a token."
            await refuse(scope, receive, send, 403, "origin", "another page may not do this here", remedy)
        else:
            await self._app(scope, receive, send)

    async def _app_of_another_page(self, scope: Scope, receive: Receive, send: Send, origin: str) -> None:
        """Serve an allowed page of another origin; the browser shows it the answer if the headers permit it."""

        async def send_shown(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                headers["access-control-allow-origin"] = origin
                headers["access-control-expose-headers"] = _SHOWN_HEADERS
                headers.add_vary_header("origin")
                message["headers"] = headers.raw
            await send(message)

        wanted = header(scope, b"access-control-request-method")
        # A preflight asks for permission and must not reach the application, which wants a token.
        if scope["method"] != "OPTIONS" or wanted is None:
            await self._app(scope, receive, send_shown)
            return
        await send_shown({"type": "http.response.start", "status": 204, "headers": list(_PREFLIGHT)})
        await send_shown({"type": "http.response.body"})

    def _may_come(self, scope: Scope) -> bool:
        origin, site = header(scope, b"origin"), header(scope, b"sec-fetch-site")
        # Older browsers send only one of the two headers; programs send neither.
        if origin is not None:
            return origin.lower() in self._origins or _is_own(origin, header(scope, b"host"))
        if site is not None:
            return site in {"same-origin", "none"}
        return not self._need_origin


def _is_own(origin: str, host: str | None) -> bool:
    """Return whether an origin is the requested address; only a proxy knows which of the two schemes applies."""
    scheme, _, netloc = origin.partition("://")
    return scheme in {"http", "https"} and bool(host) and netloc.lower() == (host or "").lower()


def _host_name(host: str) -> str:
    """Return the name in a Host header, without port and brackets; empty if it is no such thing."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises for what is no port
    except ValueError:
        return ""
    is_bare = parts.netloc == host and "@" not in host and not parts.path
    return (parts.hostname or "") if is_bare else ""


# All guards around an application, in the order in which they belong.
def guarded(
    app: ASGIApp,
    *,
    hosts: Collection[str] = LOOPBACK,
    origins: Collection[str] = (),
    need_origin: bool = False,
    policy: str = NOTHING_RUNS,
    body_bytes_max: int | Callable[[Scope], int] = 1 << 20,
    buckets: Buckets | None = None,
    client_of: Callable[[Scope], str] | None = None,
) -> ASGIApp:
    """Return the application behind every guard; without ``buckets`` nobody is too quick.

    What is refused has the safe headers too, and is refused before a byte of the body is read.
    """
    # From the inside out: the last one here is the first to see a request.
    inner: ASGIApp = BodyLimit(app, body_bytes_max)
    inner = OriginCheck(inner, origins, need_origin=need_origin)
    if buckets is not None:
        inner = RateLimit(inner, buckets, client_of)
    return SafeHeaders(HostCheck(inner, hosts), policy)
