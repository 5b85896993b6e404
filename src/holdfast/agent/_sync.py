"""Methods in both forms: a coroutine called without an event loop, and a blocking call awaited in one."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from functools import cache, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from holdfast.errors import UsageError
from holdfast.session import in_event_loop, uncancelled

S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")


def twin(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Return the coroutine for a blocking method; work that has begun is finished, also when it is cancelled."""
    owner, _, name = method.__qualname__.rpartition(".")

    @wraps(method)
    async def twin(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        # By name: a subclass may override it.
        work: Callable[P, T] = getattr(self, name)
        return await uncancelled(asyncio.to_thread(work, *args, **kwargs))

    twin.__name__, twin.__qualname__ = f"a{name}", f"{owner}.a{name}"
    twin.__doc__ = f"Do what ``{name}`` does, without blocking the event loop."
    return twin


def sync_twin(method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[S, P], T]:
    """Return the method that runs a coroutine method in code without an event loop.

    It raises UsageError inside of an event loop, with what to await instead.
    """
    owner, _, name = method.__qualname__.rpartition(".")

    @wraps(method)
    def sync_twin(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        work: Callable[P, Coroutine[Any, Any, T]] = getattr(self, name)
        with own_loop(f"await {owner.lower()}.{name}(…)") as runner:
            return runner.run(work(*args, **kwargs))

    sync_twin.__name__, sync_twin.__qualname__ = f"{name}_sync", f"{owner}.{name}_sync"
    sync_twin.__doc__ = f"Do what ``{name}`` does, from code without an event loop. Raises UsageError inside of one."
    return sync_twin


@contextlib.contextmanager
def own_loop(instead: str) -> Iterator[asyncio.Runner]:
    """Return the loop for sync calls in this thread. Raises UsageError inside another one."""
    if in_event_loop():
        raise UsageError("this was called inside an event loop", remedy=f"Use the async form instead: {instead}.")
    if threading.current_thread() is threading.main_thread():
        yield _main_runner()
        return
    with asyncio.Runner() as runner:
        yield runner


@cache
def _main_runner() -> asyncio.Runner:
    """Return the main thread's one loop for sync calls: a model's connections belong to the loop that made them."""
    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    atexit.register(_end_loop, runner)
    return runner


def _end_loop(runner: asyncio.Runner) -> None:
    """Close the loop at exit, when Python 3.12 starts no thread any more: a runner waits for its own in another one."""
    loop = runner.get_loop()
    if left := asyncio.all_tasks(loop):
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
