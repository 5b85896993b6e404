"""A rest for the garbage collector while a great many values are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["MANY", "collector_paused"]

MANY = 2_000
"""From so many on it is worth while; for what does not tell how many it has."""


@contextmanager
def collector_paused(count: int) -> Iterator[None]:
    """No collection of cycles during a piece of work on ``count`` things, if those are many.

    The collector would walk over everything made so far again and again, find nothing, and make
    the work take more than linear time. It goes on afterwards if it was on before.
    """
    pause = count >= MANY and gc.isenabled()
    if pause:
        gc.disable()
    try:
        yield
    finally:
        if pause:
            gc.enable()
