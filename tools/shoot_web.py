"""Take pictures of the web app for the documentation: ``python tools/shoot_web.py [FOLDER]``.

The sessions in them are made up; Debian's Chromium takes the pictures.
"""

from __future__ import annotations

import datetime as dt
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import uvicorn
from demo_store import make_demo

import holdfast
from holdfast.apps.gate.server import listen
from holdfast.apps.web._actions import Talks
from holdfast.apps.web._page import Site
from holdfast.apps.web.app import make_app

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--font-render-hinting=none",
]
WIDE, PHONE = (1180, 800), (390, 800)


class Shot(NamedTuple):
    """One picture: its name, the page, and the settings of the browser."""

    name: str
    url: str
    scheme: str = "light"
    size: tuple[int, int] = WIDE
    script: str = ""
    whole: bool = False


TRIP = "/s/trip-to-lisbon"
SHOTS = (
    Shot("list", "/"),
    Shot("list-dark", "/", "dark"),
    Shot("search", "/?q=lisbon"),
    Shot("conversation", TRIP, script="scrollTo(0, 0)"),
    Shot("conversation-dark", TRIP, "dark"),
    Shot("phone", TRIP, size=PHONE, script="scrollTo(0, 0)"),
    Shot("phone-list-dark", "/", "dark", PHONE),
    Shot("timeline", f"{TRIP}/timeline"),
    Shot("state", f"{TRIP}/state?at=17&since=10"),
    Shot("branches", f"{TRIP}/branches"),
    Shot("compare", "/compare?a=trip-to-lisbon&b=trip-by-train"),
    Shot("activity", "/activity?range=year"),
    Shot("activity-dark", "/activity?range=year", "dark"),
    Shot("health", f"{TRIP}/health"),
)


def _no_kit() -> Any:
    raise holdfast.HoldfastError("pictures need no model")


def main(arguments: list[str]) -> int:
    """Write every picture; 0."""
    folder = Path(arguments[0] if arguments else "docs/howto/pictures")
    folder.mkdir(parents=True, exist_ok=True)
    wanted = set(arguments[1:])
    shots = [shot for shot in SHOTS if not wanted or shot.name in wanted]
    with tempfile.TemporaryDirectory() as place:
        make_demo(Path(place) / "store", dt.datetime.now(dt.UTC))
        with holdfast.open(Path(place) / "store") as hf, served(hf) as (origin, site), browser() as chromium:
            take(chromium, origin, site.door.link(), shots, folder)
    print(f"wrote {len(shots)} pictures into {folder}")
    return 0


@contextmanager
def served(
    hf: holdfast.Holdfast, make_kit: Callable[[], Any] = _no_kit, where: str = "~/.local/share/holdfast"
) -> Iterator[tuple[str, Site]]:
    """Serve the app on a library in a thread; yield its origin, and the values that its pages use."""
    site = Site(hf=hf, where=where, talks=Talks(hf, make_kit))
    app = make_app(site)
    with listen("127.0.0.1", 0) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2, ws="none"))
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", site
        finally:
            site.streams.ending.set()
            server.should_exit = True
            thread.join(20)


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium, without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        path = os.environ.get("CHROMIUM", CHROMIUM)
        yield play.chromium.launch(executable_path=path, args=FLAGS)


def take(chromium: Any, origin: str, token: str, shots: list[Shot], folder: Path) -> None:
    """Go to each page and take its picture."""
    context = chromium.new_context(device_scale_factor=1)
    page = context.new_page()
    page.goto(f"{origin}/in?token={token}")
    for shot in shots:
        page.emulate_media(color_scheme=shot.scheme, reduced_motion="reduce")
        page.set_viewport_size({"width": shot.size[0], "height": shot.size[1]})
        page.goto(f"{origin}{shot.url}", wait_until="load")
        page.wait_for_timeout(250)
        if shot.script:
            page.evaluate(shot.script)
        page.screenshot(path=str(folder / f"web-app-{shot.name}.png"), full_page=shot.whole)
    context.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
