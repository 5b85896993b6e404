"""Work that outlasts the task around it: finished though it is cancelled, or given up."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def uncancelled(work: Awaitable[T]) -> T:
    """Await ``work`` to its end; a cancellation that came meanwhile is delivered afterwards."""
    import asyncio

    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
        except BaseException:  # noqa: BLE001 - the task holds it; it is raised below
            break
    if cancelled is not None:
        raise cancelled
    return task.result()


def was_cancelled(error: BaseException) -> bool:
    """Whether an exception means that someone gave up waiting, not that something failed."""
    return type(error).__name__ in ("CancelledError", "KeyboardInterrupt", "GeneratorExit")


async def in_thread(function: Callable[[], T], *, name: str) -> T:
    """Call a sync function in a daemon thread of its own.

    Unlike a pool's thread it can be given up: one that never returns holds nothing else back, not
    even the end of the process.
    """
    import asyncio
    import contextvars

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
