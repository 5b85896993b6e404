"""How far long work has come: on a terminal only, and gone when it is done."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

from holdfast.apps.cli._screen import Screen

__all__ = ["progress"]

T = TypeVar("T")
_QUIET_SECONDS = 0.5


def progress(screen: Screen, items: Sequence[T], what: str) -> Iterator[T]:
    """The items one by one, with a bar once it takes long enough to wonder."""
    started = time.monotonic()
    for index, item in enumerate(items):
        if screen.is_terminal and time.monotonic() - started > _QUIET_SECONDS:
            yield from screen.track(items[index:], what, index, len(items))
            return
        yield item
