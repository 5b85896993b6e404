"""Whether the process that opened a session last is still at it."""

from __future__ import annotations

from holdfast.replay import State
from holdfast.storage.disk import is_at_work

__all__ = ["is_alive"]


def is_alive(state: State) -> bool:
    """Whether the last writer may still be running, by what it said when it opened the session.

    A log alone cannot tell a turn that goes on from one whose process is gone.
    """
    last = state.last_open
    return last is not None and not last.closed and is_at_work(last.pid, last.host)
