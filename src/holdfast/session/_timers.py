"""One daemon thread that does what is due: saving what is dirty, taking snapshots.

It holds its sessions weakly and never keeps a process alive.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakMethod

from holdfast.storage import forks

__all__ = ["Timers"]


class Timers:
    """Calls methods after a while, again and again or once."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._due: list[tuple[float, int, WeakMethod[Any], float]] = []
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._forks = forks.count
        self._closed = False

    def every(self, interval_ms: int, method: Callable[[], None]) -> None:
        """Call a bound method every ``interval_ms`` for as long as its object lives."""
        self._add(interval_ms / 1000, method, repeat=True)

    def soon(self, method: Callable[[], None], delay_ms: int = 0) -> None:
        """Call a bound method once, on the timer thread."""
        self._add(delay_ms / 1000, method, repeat=False)

    def close(self) -> None:
        """Stop the thread. What was due is not called any more."""
        with self._condition:
            self._closed = True
            self._due.clear()
            self._condition.notify()
            thread = self._thread
        alive = thread is not None and self._forks == forks.count
        if thread is not None and alive and thread is not threading.current_thread():
            thread.join()

    def _add(self, delay: float, method: Callable[[], None], *, repeat: bool) -> None:
        with self._condition:
            if self._closed:
                return
            when = time.monotonic() + delay
            item = (when, next(self._numbers), WeakMethod(method), delay if repeat else 0.0)
            heapq.heappush(self._due, item)
            self._start()
            self._condition.notify()

    def _start(self) -> None:
        if self._thread is None or self._forks != forks.count:
            thread = threading.Thread(target=self._run, name="holdfast-timers", daemon=True)
            # At the end of the interpreter there are no more threads, and nothing left to do.
            with contextlib.suppress(RuntimeError):
                thread.start()
                self._forks, self._thread = forks.count, thread

    def _run(self) -> None:
        while True:
            with self._condition:
                if self._closed:
                    return
                reference = self._next_due()
            method = reference() if reference else None
            if method is not None:
                method()

    def _next_due(self) -> WeakMethod[Any] | None:
        """Wait until something is due, or until what is due changes."""
        if not self._due:
            self._condition.wait()
            return None
        when, _, reference, interval = self._due[0]
        left = when - time.monotonic()
        if left > 0:
            self._condition.wait(left)
            return None
        heapq.heappop(self._due)
        if interval and reference() is not None:
            again = (time.monotonic() + interval, next(self._numbers), reference, interval)
            heapq.heappush(self._due, again)
        return reference
