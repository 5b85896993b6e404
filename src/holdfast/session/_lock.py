"""Waiting for a session that another process has."""

from __future__ import annotations

import math
import sys
import time
from typing import Any

from holdfast.errors import UsageError
from holdfast.replay import State
from holdfast.storage import Store, is_at_work

# Asking a store on this machine costs microseconds, one on another a round trip or more; but a
# server that tells of the release ends the pause at once.
_NEAR_S = (0.001, 0.025)
_FAR_S = (0.02, 0.25)


def check_wait(wait_ms: Any) -> None:
    """Raise UsageError for what is no time to wait: a number of milliseconds, 0 for not at all."""
    is_number = isinstance(wait_ms, (int, float)) and not isinstance(wait_ms, bool)
    if not is_number or not math.isfinite(wait_ms) or wait_ms < 0:
        raise UsageError(
            f"wait_ms is a number of milliseconds, and not {wait_ms!r}",
            remedy="Give how long to wait at the most, such as wait_ms=10_000; 0 does not wait.",
        )


class Patience:
    """How long to wait for a session, in steps that grow. Any thread may end it."""

    def __init__(self, store: Store, key: str, wait_ms: float) -> None:
        check_wait(wait_ms)
        self._store = store
        self._key = key
        self._until = time.monotonic() + wait_ms / 1000
        self._step, self._longest = _FAR_S if store.capabilities.defers else _NEAR_S

    def pause(self) -> bool:
        """Wait a little, or until the store hears something of the session; False if it is over."""
        left = self._until - time.monotonic()
        if left <= 0:
            return False
        self._store.wait(self._key, min(self._step, left))
        self._step = min(2 * self._step, self._longest)
        return True

    def stop(self) -> None:
        """Wait no longer than the step that is going on."""
        self._until = 0.0


def in_event_loop() -> bool:
    """Whether waiting here would stop an event loop of asyncio."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


# Whether the process that opened a session last is still at it.


def is_alive(state: State) -> bool:
    """Whether the last writer may still be running, by what it said when it opened the session.

    A log alone cannot tell a turn that goes on from one whose process is gone.
    """
    last = state.last_open
    return last is not None and not last.closed and is_at_work(last.pid, last.host)
