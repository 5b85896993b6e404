"""The web app: the cost of its pages with many sessions, compared with their queries of the library."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, ClassVar

import holdfast
from bench.crowd import rare_words, shared_crowd
from bench.figures import Line, line_of, median, millis

__all__ = ["Pages"]

_HOST = "127.0.0.1:8000"


class Pages:
    """Pages of the web app, requested in its own process, against the bare query."""

    ROUNDS = 3
    PAGES: ClassVar = {
        "list": "list of 50",
        "sorted": "list of 50 by cost",
        "search": "search as you type",
        "figures": "activity",
    }

    def __init__(self, *, quick: bool) -> None:
        self._count = 5_000 if quick else 100_000
        self._calls = 5 if quick else 20
        self._store = ""
        self._pages: dict[str, list[float]] = {name: [] for name in self.PAGES}
        self._bare: dict[str, list[float]] = {name: [] for name in self.PAGES}

    def prepare(self, folder: str) -> None:
        """Create a store with the given number of sessions."""
        self._store = shared_crowd(folder, self._count)

    def measure(self, folder: str) -> None:
        """Run one round: every page and its query in turn."""
        with holdfast.open(self._store) as hf:
            for name, spent in asyncio.run(_measured(hf, self._calls)).items():
                page, bare = spent
                self._pages[name].append(page)
                self._bare[name].append(bare)

    def lines(self) -> list[Line]:
        """Return the table's lines."""
        return [
            line_of(
                f"web app: {what}, {self._count:,} sessions (the bare question)",
                [a / b for a, b in zip(self._pages[name], self._bare[name], strict=True)],
                None,
                ours=millis(median(self._pages[name])),
                floor=millis(median(self._bare[name])),
            )
            for name, what in self.PAGES.items()
        ]


async def _measured(hf: Any, calls: int) -> dict[str, tuple[float, float]]:
    from holdfast.apps.web._actions import Talks
    from holdfast.apps.web._page import Site
    from holdfast.apps.web.app import make_app

    site = Site(hf=hf, where="a place", talks=Talks(hf, _no_kit))
    app = make_app(site)
    cookie = f"{site.door.cookie}={site.door.enter(site.door.link())}"
    words = rare_words(1_000)
    questions: dict[str, tuple[Callable[[int], str], Callable[[int], Any]]] = {
        "list": (lambda _: "/", lambda _: hf.list(50)),
        "sorted": (lambda _: "/?sort=cost", lambda _: hf.list(50, sort="cost")),
        "search": (
            lambda number: f"/?q={words[number % len(words)]}",
            lambda number: hf.search(words[-1 - number % len(words)], limit=120),
        ),
        "figures": (lambda _: "/activity?range=all", lambda _: hf.stats(by="month")),
    }
    found = {}
    for name, (url, ask) in questions.items():
        pages, bare = [], []
        for number in range(calls + 1):
            begin = time.perf_counter_ns()
            assert await _status(app, url(number), cookie) == 200
            pages.append(time.perf_counter_ns() - begin)
            begin = time.perf_counter_ns()
            await asyncio.to_thread(ask, number)
            bare.append(time.perf_counter_ns() - begin)
        found[name] = (median(pages[1:]), median(bare[1:]))
    return found


async def _status(app: Any, url: str, cookie: str) -> int:
    """Request a page from the app, and read all of it."""
    path, _, query = url.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", _HOST.encode()), (b"cookie", cookie.encode())],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
    }
    found: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            found.append(message["status"])

    await app(scope, receive, send)
    return found[0]


def _no_kit() -> Any:
    raise holdfast.errors.UsageError("there is no model here")
