"""Work that outlasts the task around it: finished despite a cancellation, or abandoned."""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from _thread import allocate_lock, start_new_thread
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from asyncio import Future as AsyncFuture
    from concurrent.futures import Future

T = TypeVar("T")
_MESSAGE_CHARS_MAX = 10_000
_PATIENCE_S = 1.0


async def uncancelled(work: Awaitable[T]) -> T:
    """Await ``work`` to its end; a cancellation in between is delivered afterwards."""
    import asyncio

    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
        except Exception:  # noqa: BLE001 - the task holds it; it is raised below
            break
    if cancelled is not None:
        raise cancelled
    return task.result()


async def settled(future: Future[T]) -> T:
    """Await another thread's work to its end; a cancellation in between is delivered afterwards."""
    import asyncio

    loop = asyncio.get_running_loop()
    cancelled: asyncio.CancelledError | None = None
    # Checked again whenever it wakes: an interrupt may have removed the wake-up from the loop.
    while not future.done():
        woken = loop.create_future()
        future.add_done_callback(partial(_wake_in, loop, woken))
        try:
            await woken
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return future.result()


async def shielded(future: Future[None]) -> None:
    """Await another thread's work; a caller that stops waiting does not end the wait of the others."""
    import asyncio

    await asyncio.shield(asyncio.wrap_future(future))


def _wake_in(loop: AbstractEventLoop, woken: AsyncFuture[None], _: object) -> None:
    with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: there is no waiter left
        loop.call_soon_threadsafe(_wake, woken)


def _wake(woken: AsyncFuture[None]) -> None:
    if not woken.done():
        woken.set_result(None)


def was_cancelled(error: BaseException) -> bool:
    """Return whether an exception means that the caller stopped waiting, not that something failed."""
    return type(error).__name__ in ("CancelledError", "KeyboardInterrupt", "GeneratorExit")


def in_event_loop() -> bool:
    """Return whether waiting here would block an event loop of asyncio."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def message_of(error: BaseException) -> str:
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - an exception whose own text fails is told by its class
        said = ""
    text = said.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    return f"{type(error).__name__}: {text[:_MESSAGE_CHARS_MAX]}"


async def in_thread(function: Callable[[], T], *, name: str) -> T:
    """Call a sync function in a daemon thread of its own.

    Unlike a pool's thread it can be abandoned: a function that never returns holds nothing else up,
    not even the end of the process.
    """
    import asyncio
    import contextvars

    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: T | None, error: BaseException | None) -> None:
        if error is not None and not future.done():
            future.set_exception(error)
        elif not future.done():
            future.set_result(result)  # type: ignore[arg-type]  # it is a T where there is no error

    def work() -> None:
        try:
            outcome: tuple[Any, BaseException | None] = (context.run(function), None)
        except StopIteration as error:  # a future cannot hold one
            outcome = (None, RuntimeError(f"StopIteration: {error}"))
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
            outcome = (None, error)
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: there is no waiter left
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=work, name=name, daemon=True).start()
    return await future


class WhenForgotten(weakref.finalize):  # type: ignore[type-arg]  # it takes none when it runs
    """Calls a function once: when it is called itself, when its owner is collected, or at the exit.

    The collector may run at any moment, also under a lock that the function needs, and in the very
    thread that holds it. So a thread of its own does the work then. The collector waits for it only
    briefly, which nearly always suffices.
    """

    __slots__ = ()

    def __call__(self, dead: object = None) -> Any:
        """Do it now, unless it was done; ``dead`` is the collector's reference."""
        if dead is None:
            return super().__call__()
        finish, done = super().__call__, allocate_lock()
        done.acquire()

        def work() -> None:
            try:
                finish()
            finally:
                done.release()

        # If no thread can be started any more, it is done at the exit.
        with contextlib.suppress(RuntimeError):
            start_new_thread(work, ())
            done.acquire(timeout=_PATIENCE_S)
        return None
