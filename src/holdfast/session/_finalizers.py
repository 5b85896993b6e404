"""What is given back when nobody refers to its owner any more."""

from __future__ import annotations

import contextlib
import weakref
from _thread import allocate_lock, start_new_thread
from typing import Any

_PATIENCE_S = 1.0


class WhenForgotten(weakref.finalize):  # type: ignore[type-arg]  # it takes none when it runs
    """Calls a function once: when it is called itself, when its owner is gone, or at the exit.

    The collector finds an owner that is gone at any moment, also in the middle of something under a
    lock that the function needs, and in the very thread that holds it. So a thread of its own does
    the work then. It is waited for, as nearly always nothing is in its way, but not for long.
    """

    __slots__ = ()

    def __call__(self, dead: object = None) -> Any:
        """Do it now, unless it was done; ``dead`` is what the collector gives."""
        if dead is None:
            return super().__call__()
        finish, done = super().__call__, allocate_lock()
        done.acquire()

        def work() -> None:
            try:
                finish()
            finally:
                done.release()

        # Where no thread can be started any more, it is done at the exit.
        with contextlib.suppress(RuntimeError):
            start_new_thread(work, ())
            done.acquire(timeout=_PATIENCE_S)
        return None
