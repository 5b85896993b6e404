"""What takes time to make, made and sent by one thread, while the event loop does other things."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Protocol

__all__ = ["Target", "pour"]

_AHEAD = 2


class Target(Protocol):
    """Who is sent something."""

    def offer(self, data: bytes) -> bool:
        """Send from any thread, without waiting; whether all of it was taken at once.

        What was not is sent before anything else is, with the next ``write``.
        """

    def write(self, data: bytes) -> None:
        """Send; what is not taken yet is kept."""

    async def drain(self) -> None:
        """Wait until enough was taken. Raises ConnectionError if nobody takes it any more."""


async def pour(make: Callable[[], bytes], target: Target) -> None:
    """Send what ``make`` gives, called again and again in one thread until it gives nothing.

    The event loop has nothing to do with it as long as the target takes all at once: handing
    pieces over would cost more than sending them. A few are made before they are taken, and no
    more. Once this has ended, in whatever way, nothing more is sent. Raises what ``make`` raises,
    after what it gave before was sent, and ConnectionError.
    """
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[bool] = asyncio.Queue()
    room = threading.Semaphore(_AHEAD - 1)
    sending = threading.Lock()
    is_over = False

    def send(made: bytes) -> bool:
        with sending:
            return is_over or target.offer(made)

    def work() -> None:
        try:
            while not is_over and (made := make()):
                if not send(made):
                    loop.call_soon_threadsafe(waiting.put_nowait, True)
                    room.acquire()
        finally:
            loop.call_soon_threadsafe(waiting.put_nowait, False)

    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        while await waiting.get():
            target.write(b"")
            await target.drain()
            room.release()
        await working
    finally:
        with sending:  # which never waits for the target
            is_over = True
        room.release()
        target.write(b"")
