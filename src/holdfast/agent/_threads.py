"""Coroutines run from sync code, with a loop of their own."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from holdfast.errors import UsageError

__all__ = ["run_to_end"]

T = TypeVar("T")
_main_runner: list[asyncio.Runner] = []


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
