"""Serving on this process's own input and output, until they end or someone ends the process."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable

from holdfast.apps.wire.pipes import Pipe, own_pipes

__all__ = ["ENDING", "serve"]

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""What asks a process to end."""


def serve(work: Callable[[Pipe], Awaitable[None]], *, line_bytes_max: int | None = None) -> None:
    """Run something on standard input and output; a request to end ends it in good order."""
    asyncio.run(_serve(work, line_bytes_max))


async def _serve(work: Callable[[Pipe], Awaitable[None]], line_bytes_max: int | None) -> None:
    pipe = await own_pipes(line_bytes_max=line_bytes_max)
    running = asyncio.ensure_future(work(pipe))
    loop = asyncio.get_running_loop()
    for number in ENDING:
        loop.add_signal_handler(number, running.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await running
    pipe.close()
