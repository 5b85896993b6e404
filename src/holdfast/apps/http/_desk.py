"""The sessions that the server has open: opened when needed, kept for a moment, given back."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from typing import Any

from holdfast.apps.http._threads import Threads
from holdfast.errors import Fenced, HoldfastError, Locked
from holdfast.library import Holdfast
from holdfast.session import Session, uncancelled

LEASE_MS = 10_000
"""After so long others may take over what a machine that died had open."""
_SPACES_MAX = 200
_IDLE_S = 2.0
_LOCK_WAIT_S = 4.0
_LOCK_STEP_S = 0.05


class Spaces:
    """The libraries of the spaces in use; the longest unused are closed when there are many."""

    def __init__(self, hf: Holdfast, *, spaces_max: int = _SPACES_MAX) -> None:
        self._hf = hf
        self._spaces_max = spaces_max
        self._open: OrderedDict[str, Holdfast] = OrderedDict()
        self._users: dict[str, int] = {}
        self._making = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def use(self, name: str, threads: Threads) -> AsyncIterator[Holdfast]:
        """The library of a space; not closed while the block lasts."""
        self._users[name] = self._users.get(name, 0) + 1
        try:
            if name not in self._open:
                await uncancelled(self._make(name, threads))
            self._open.move_to_end(name)
            yield self._open[name]
        finally:
            self._users[name] -= 1
            if not self._users[name]:
                del self._users[name]
            for gone in self._surplus():
                await uncancelled(threads.run(gone.close))

    @property
    def in_use(self) -> list[Holdfast]:
        """The libraries that are open now."""
        return list(self._open.values())

    async def _make(self, name: str, threads: Threads) -> None:
        """On a thread, since it asks the store; once, whoever waits for it."""
        async with self._making:
            if name not in self._open:
                self._open[name] = await threads.run(self._hf.space, name)

    def _surplus(self) -> list[Holdfast]:
        extra = len(self._open) - self._spaces_max
        idle = [name for name in self._open if name not in self._users]
        return [self._open.pop(name) for name in idle[: max(extra, 0)]]

    def close(self) -> None:
        """Close them all, with every session that is open."""
        with contextlib.ExitStack() as stack:
            for library in self._open.values():
                stack.callback(library.close)


class _Kept:
    """One session that is open, or about to be."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.session: Session | None = None
        self.users = 0
        self.closing: asyncio.TimerHandle | None = None
        self.release: contextlib.AsyncExitStack | None = None


class Desk:
    """Sessions opened for writing, each once, and closed when nobody used them for a moment.

    What another server has open is waited for a while, since that one gives it back soon as well.
    """

    def __init__(
        self,
        spaces: Spaces,
        threads: Threads,
        *,
        idle_s: float = _IDLE_S,
        lock_wait_s: float = _LOCK_WAIT_S,
    ) -> None:
        self._spaces = spaces
        self._threads = threads
        self._idle_s = idle_s
        self._lock_wait_s = lock_wait_s
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def session(
        self, space: str, id: str, opening: Callable[[Holdfast, str], Session] | None = None
    ) -> AsyncIterator[Session]:
        """The session for the block, open for writing. Raises as ``Holdfast.session`` does.

        ``opening`` opens it in another way than to go on with one that is there.
        """
        kept = self._kept.setdefault((space, id), _Kept())
        kept.users += 1
        if kept.closing is not None:
            kept.closing.cancel()
            kept.closing = None
        try:
            async with kept.lock:
                if kept.session is None or kept.session.closed:
                    await uncancelled(self._open(kept, space, id, opening or _go_on))
            assert kept.session is not None
            try:
                yield kept.session
            except Fenced:
                await uncancelled(self._close(kept))  # the next one opens it anew
                raise
        finally:
            kept.users -= 1
            if not kept.users:
                self._leave((space, id), kept)

    async def let_go(self, space: str, id: str) -> None:
        """Close a session that nobody here uses now, so that it can be moved or deleted."""
        kept = self._kept.get((space, id))
        if kept is not None and not kept.users:
            await self._close(kept)

    async def close(self) -> None:
        """Close all of them, whoever uses them."""
        for task in list(self._tasks):
            await asyncio.wait([task])
        for kept in list(self._kept.values()):
            with contextlib.suppress(HoldfastError):  # nobody is there to be told
                await self._close(kept)

    async def _open(
        self, kept: _Kept, space: str, id: str, opening: Callable[[Holdfast, str], Session]
    ) -> None:
        async with contextlib.AsyncExitStack() as stack:
            library = await stack.enter_async_context(self._spaces.use(space, self._threads))
            until = asyncio.get_running_loop().time() + self._lock_wait_s
            while True:
                try:
                    kept.session = await self._threads.run(opening, library, id)
                    break
                except Locked:
                    if asyncio.get_running_loop().time() >= until:
                        raise
                # Not by wait_ms: it would hold a thread, of which all requests together have few.
                await asyncio.sleep(_LOCK_STEP_S)
            kept.release = stack.pop_all()

    def _leave(self, name: tuple[str, str], kept: _Kept) -> None:
        if kept.session is None:
            self._kept.pop(name, None)
            return
        loop = asyncio.get_running_loop()
        kept.closing = loop.call_later(self._idle_s, self._put_away, name, kept)

    def _put_away(self, name: tuple[str, str], kept: _Kept) -> None:
        kept.closing = None
        task = asyncio.ensure_future(self._close_idle(name, kept))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _close_idle(self, name: tuple[str, str], kept: _Kept) -> None:
        async with kept.lock:
            if kept.users:
                return
            with contextlib.suppress(HoldfastError):  # what was acknowledged is safe already
                await self._close(kept)
            if not kept.users and self._kept.get(name) is kept:
                del self._kept[name]

    async def _close(self, kept: _Kept) -> None:
        session, kept.session = kept.session, None
        release, kept.release = kept.release, None
        if kept.closing is not None:
            kept.closing.cancel()
            kept.closing = None
        try:
            if session is not None:
                await self._threads.run(session.close)
        finally:
            if release is not None:
                await release.aclose()


def _go_on(library: Holdfast, id: str) -> Session:
    options: dict[str, Any] = {"resume": "always", "lease_ms": LEASE_MS}
    return library.session(id, **options)
