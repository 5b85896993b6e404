"""Sync code next to an event loop: in a thread that can be given up, or with a loop of its own."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from holdfast.errors import UsageError

__all__ = ["in_thread", "run_to_end"]

T = TypeVar("T")
_main_runner: list[asyncio.Runner] = []


async def in_thread(function: Callable[[], T], *, name: str) -> T:
    """Call a sync function in a daemon thread of its own.

    Unlike a pool's thread it can be given up: one that never returns holds nothing else back, not
    even the end of the process.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # it is a T where there is no error

    def work() -> None:
        try:
            outcome: tuple[Any, BaseException | None] = (context.run(function), None)
        except StopIteration as error:  # a future cannot hold one
            outcome = (None, RuntimeError(f"StopIteration: {error}"))
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
            outcome = (None, error)
        try:
            loop.call_soon_threadsafe(settle, *outcome)
        except RuntimeError:
            pass  # the loop was closed meanwhile: nobody waits any more

    threading.Thread(target=work, name=name, daemon=True).start()
    return await future


def run_to_end(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine from sync code. Raises UsageError inside an event loop.

    The main thread keeps one loop for all its calls, because the connections that a model keeps
    open belong to the loop in which they were made.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise UsageError(
            "this was called inside an event loop",
            remedy="Await the async form instead: await agent.run(…).",
        )
    if threading.current_thread() is not threading.main_thread():
        return asyncio.run(work())
    if not _main_runner:
        _main_runner.append(asyncio.Runner(loop_factory=asyncio.new_event_loop))
        atexit.register(_close_main_runner)
    return _main_runner[0].run(work())


def _close_main_runner() -> None:
    while _main_runner:
        _main_runner.pop().close()
