"""Blocking work of the event loop's, on a bounded number of threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from holdfast.apps.http._problems import Refused

T = TypeVar("T")
_WAITING_MAX = 1000


class BoundedThreads:
    """Runs functions on threads; when too many wait, the next is refused at once."""

    def __init__(self, count: int = 16, waiting_max: int = _WAITING_MAX) -> None:
        self.pool = ThreadPoolExecutor(count, thread_name_prefix="holdfast-http")
        self._waiting_max = waiting_max
        self._waiting = 0

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """What ``work`` gives. Raises what it raises, and Refused (503) when too many wait."""
        if self._waiting >= self._waiting_max:
            raise Refused(503, "busy", "the server has too much to do", "Try again later.")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self.pool, lambda: work(*arguments))
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Wait for what runs, and end."""
        self.pool.shutdown()
