"""What must be finished even when the task around it is cancelled."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

__all__ = ["uncancelled", "was_cancelled"]

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
