"""Serving until the process is asked to end."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection
from typing import Any

from starlette.types import Receive, Scope, Send

from holdfast.agent._kit import Kit
from holdfast.apps.gate.callers import LOOPBACK
from holdfast.apps.gate.serving import run
from holdfast.apps.http import _audit
from holdfast.apps.http._service import Service
from holdfast.apps.http.server import http_app
from holdfast.apps.http.tokens import TokenBook
from holdfast.apps.watched import watch
from holdfast.library import Holdfast

__all__ = ["serve"]


def serve(
    place: str | None,
    kit: Kit | None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    hosts: Collection[str] = (),
    origins: Collection[str] = (),
    rate: float = 100,
    root: str | None = None,
    ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve the spaces of a store. Raises as ``holdfast.open`` does, and Unavailable.

    Turns that run when the process is asked to end are put off: another server, or this one when
    it is there again, goes on with them.
    """
    _say_audit()
    with Holdfast(place, redaction="mark") as hf:
        watch(hf, level="info")
        TokenBook(hf.store)  # told before anybody is let in
        names = (*LOOPBACK, host, *hosts)
        app = _Late(lambda: Service(hf, kit, rate=rate, root=root), hosts=names, origins=origins)
        run(app, host=host, port=port, ready=ready, stopping=app.stop)


class _Late:
    """The application, made on the event loop that it runs on."""

    def __init__(self, make: Callable[[], Service], **options: Any) -> None:
        self._make = make
        self._options = options
        self._service: Service | None = None
        self._app: Any = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection, as ASGI has it."""
        if self._app is None:
            self._service = self._make()
            self._app = http_app(self._service, **self._options)
        await self._app(scope, receive, send)

    def stop(self) -> None:
        """Put off what would go on for long."""
        if self._service is not None:
            self._service.begin_stop()


def _say_audit() -> None:
    """Audit lines on standard error, each by itself."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    _audit.LOGGER.addHandler(handler)
    _audit.LOGGER.setLevel(logging.INFO)
    _audit.LOGGER.propagate = False
