"""Serving on this process's own input and output, until they end or someone ends the process."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable

from holdfast.apps.acp._pipes import AgentProcess, Pipe, own_pipes
from holdfast.apps.acp._telling import WINDOW_TOKENS
from holdfast.apps.acp.proxy import Proxy
from holdfast.library import Holdfast

__all__ = ["serve", "serve_proxy"]


def serve(work: Callable[[Pipe], Awaitable[None]]) -> None:
    """Run something on standard input and output; a request to end ends it in good order."""
    asyncio.run(_serve(work))


async def _serve(work: Callable[[Pipe], Awaitable[None]]) -> None:
    pipe = await own_pipes()
    running = asyncio.ensure_future(work(pipe))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, running.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await running
    pipe.close()


def serve_proxy(
    place: str | None,
    command: list[str],
    *,
    window_tokens: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Be the proxy of one agent on standard input and output. Raises as ``holdfast.open``."""
    with Holdfast(place) as hf:

        async def work(pipe: Pipe) -> None:
            proxy = Proxy(
                hf,
                pipe,
                lambda: AgentProcess.start(command),
                command=command,
                window_tokens=window_tokens or WINDOW_TOKENS,
                say=say,
            )
            await proxy.run()

        serve(work)
