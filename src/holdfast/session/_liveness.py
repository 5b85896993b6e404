"""Whether the process that opened a session last is still at it."""

from __future__ import annotations

import os

from holdfast.replay import State
from holdfast.storage.disk import is_running

__all__ = ["is_alive"]


def is_alive(state: State) -> bool:
    """Whether the last writer may still be running, by what it said when it opened the session.

    A log alone cannot tell a turn that goes on from one whose process is gone. A process of another
    machine cannot be seen from here and counts as gone: on files there is no such writer.
    """
    last = state.last_open
    if last is None or last.closed or last.host != os.uname().nodename:
        return False
    return is_running(last.pid)
