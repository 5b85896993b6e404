"""The spaces in use: their libraries, and the sessions of them that the server has open."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from holdfast.agent import Host
from holdfast.apps.http._call import Refused
from holdfast.library import Holdfast
from holdfast.session import Patience, Session, uncancelled

LEASE_MS = 10_000  # after this time others may take over what a machine that died had open


class Spaces:
    """The libraries of the spaces in use; the longest unused are closed when there are many.

    Sessions are opened for writing once, and given back when nobody used them for a moment. What
    another server has open is waited for a while, since that one gives it back soon as well.
    """

    def __init__(
        self, hf: Holdfast, threads: BoundedThreads, *, spaces_max: int = 200, idle_s: float = 2, lock_wait_s: float = 4
    ) -> None:
        idle_ms = int(idle_s * 1000)
        self.host: Host[tuple[str, str], Session] = Host(idle_ms=idle_ms, run=threads.run, executor=threads.pool)
        self._hf = hf
        self._threads = threads
        self._lock_wait_ms = lock_wait_s * 1000
        self._spaces_max = spaces_max
        self._open: OrderedDict[str, Holdfast] = OrderedDict()
        self._users: dict[str, int] = {}
        self._making = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def use(self, name: str) -> AsyncIterator[Holdfast]:
        """Yield the library of a space; not closed while the block lasts."""
        # Before it is opened: the cleanup must not close it meanwhile.
        self._users[name] = self._users.get(name, 0) + 1
        try:
            if name not in self._open:
                # A client that leaves must not leave a library half open for the next one.
                await uncancelled(self._make(name))
            self._open.move_to_end(name)
            yield self._open[name]
        finally:
            self._users[name] -= 1
            if not self._users[name]:
                del self._users[name]
            extra = max(len(self._open) - self._spaces_max, 0)
            # A session that rests keeps its space: closing the library would close it too.
            kept = self._users.keys() | {space for space, _ in self.host.held()} if extra else set()
            idle = [name for name in self._open if name not in kept][:extra]
            for gone in [self._open.pop(name) for name in idle]:
                await uncancelled(self._threads.run(gone.close))

    @contextlib.asynccontextmanager
    async def session(
        self, space: str, id: str, opening: Callable[[Holdfast, str], Session] | None = None
    ) -> AsyncIterator[Session]:
        """Yield the session for the block, open for writing. Raises as ``Holdfast.session`` does.

        ``opening`` opens it in another way than to go on with one that is there.
        """
        async with self.use(space) as hf:
            patience = Patience(hf.store, f"sessions/{id}", self._lock_wait_ms)
            opens = partial(opening or _go_on, hf, id)
            async with self.host.ause((space, id), opens, patience) as session:
                yield session

    async def let_go(self, space: str, id: str) -> None:
        """Close a session that nobody here uses now, so that it can be moved or deleted."""
        await self._threads.run(self.host.let_go, (space, id))

    @property
    def in_use(self) -> list[Holdfast]:
        """The libraries that are open now."""
        return list(self._open.values())

    async def _make(self, name: str) -> None:
        """Create it on a thread, since it asks the store; once for all waiters."""
        async with self._making:
            if name not in self._open:
                self._open[name] = await self._threads.run(self._hf.space, name)

    def close(self) -> None:
        """Close them all, with every session that is open."""
        with contextlib.ExitStack() as stack:
            for library in self._open.values():
                stack.callback(library.close)


def _go_on(library: Holdfast, id: str) -> Session:
    return library.session(id, resume="always", lease_ms=LEASE_MS)


# Blocking work of the event loop's, on a bounded number of threads.
T = TypeVar("T")


class BoundedThreads:
    """Runs functions on threads; when too many wait, the next is refused at once."""

    def __init__(self, count: int = 16, waiting_max: int = 1000) -> None:
        self.pool = ThreadPoolExecutor(count, thread_name_prefix="holdfast-http")
        self._waiting_max = waiting_max
        self._waiting = 0

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run ``work`` in a thread and return its result. Raises its errors, and Refused (503) when too many wait."""
        # Refused at once and not queued: the client can tell, and try another server.
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
