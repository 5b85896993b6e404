"""Dicts that take half the memory: those that are made alike share what their keys take.

The interpreter does so for the attributes of a class's instances, and for copies of such a dict. It
is a plain dict to everyone, and becomes an ordinary one when its members change.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# The interpreter leaves each instance room for attributes to come, and a little less than the last.
_INSTANCES = 40


def template(**members: Any) -> dict[str, Any]:
    """A dict with these members whose copies share their keys, for what is kept in numbers."""
    kind = type("Members", (), {})
    found: dict[str, Any] = {}
    for _ in range(_INSTANCES):
        one = kind()
        for name, value in members.items():
            setattr(one, name, value)
        found = vars(one)
    return found


# A rest for the garbage collector while a great many values are made that all stay.


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
