"""What takes time to make, made in a thread while what came before is still being used."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable

__all__ = ["made_ahead"]

_AHEAD = 2


async def made_ahead(make: Callable[[], bytes]) -> AsyncGenerator[bytes, None]:
    """What ``make`` gives, called again and again in one thread until it gives nothing.

    A few are made before they are asked for, and no more. Close it (``contextlib.aclosing``): then
    nothing more is made. Raises what ``make`` raises, after what it gave before.
    """
    loop = asyncio.get_running_loop()
    made: asyncio.Queue[bytes] = asyncio.Queue()
    room = threading.Semaphore(_AHEAD)
    is_over = threading.Event()

    def work() -> None:
        try:
            while not is_over.is_set() and (found := make()):
                loop.call_soon_threadsafe(made.put_nowait, found)
                room.acquire()
        finally:
            loop.call_soon_threadsafe(made.put_nowait, b"")

    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        while found := await made.get():
            yield found
            room.release()
        await working
    finally:
        is_over.set()
        room.release()
