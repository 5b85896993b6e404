"""Running the web app until the process is asked to end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.apps.gate.callers import LOOPBACK
from holdfast.apps.gate.serving import run
from holdfast.apps.watched import watch
from holdfast.apps.web._page import Site
from holdfast.apps.web._talks import Talks
from holdfast.apps.web.app import make_app
from holdfast.library import Holdfast
from holdfast.storage import shown_url

if TYPE_CHECKING:
    from holdfast.agent._kit import Kit

__all__ = ["serve_web"]


def serve_web(
    place: str | None,
    make_kit: Callable[[], Kit],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    checks: Callable[[], Sequence[Any]] = tuple,
    ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve the pages. ``ready`` is told the address with a token that works once.

    ``make_kit`` is called when somebody first talks to an agent. Raises as ``holdfast.open`` does,
    and Unavailable if the port is taken.
    """
    with Holdfast(place, redaction="mark") as hf:
        watch(hf)
        where = str(getattr(hf.store, "path", shown_url(hf.store.url)))
        site = Site(hf=hf, where=where, talks=Talks(hf, make_kit), checks=checks)
        app = make_app(site, hosts=(*LOOPBACK, host))

        def tell(address: str) -> None:
            ready(f"{address}/in?token={site.door.link()}")

        run(app, host=host, port=port, ready=tell, stopping=app.streams.end, grace_seconds=5)
