"""A disk on which one call fails, whichever and whenever a test wants it."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

from holdfast.storage.disk import Disk

__all__ = ["DISK_CALLS", "FaultyDisk"]

DISK_CALLS = tuple(name for name in vars(Disk) if not name.startswith("_"))
"""Every call that a disk has."""

ANY_CALL = "*"


class FaultyDisk(Disk):
    """Another disk whose ``call`` fails at its ``nth`` use (from 1), once or from then on.

    It fails with ``errno``; or, if ``short`` is given, a write takes only that many bytes (a
    number, or a part such as 0.5); or, if ``interrupt`` is given, the call is done and then that
    exception comes, as when a key press interrupts a program. ``call`` may be "*" for any call.
    ``fired`` counts the failures: a test raises ``nth`` until it stays 0. ``counts`` has how often
    each call was used.
    """

    def __init__(
        self,
        disk: Disk | None = None,
        *,
        call: str = ANY_CALL,
        nth: int = 0,
        errno: int = 5,
        persistent: bool = False,
        short: float | None = None,
        interrupt: type[BaseException] | None = None,
    ) -> None:
        self.inner = disk or Disk()
        self.call = call
        self.nth = nth
        self.errno = errno
        self.persistent = persistent
        self.short = short
        self.interrupt = interrupt
        self.fired = 0
        self.counts: Counter[str] = Counter()

    def _is_due(self, call: str) -> bool:
        self.counts[call] += 1
        if self.interrupt is not None and call == "close":
            return False  # it may be the collector that closes, which nothing can interrupt
        self.counts[ANY_CALL] += 1
        if self.call not in (call, ANY_CALL):
            return False
        count = self.counts[self.call]
        due = count == self.nth or (self.persistent and 0 < self.nth < count)
        self.fired += due
        return due

    def _fail(self, call: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        do = getattr(self.inner, call)
        if self.interrupt is not None:
            do(*arguments, **options)
            raise self.interrupt
        if self.short is not None and call == "write":
            descriptor, data = arguments
            size = int(len(data) * self.short) if isinstance(self.short, float) else self.short
            return do(descriptor, data[:size]) if size else 0
        if call == "close":
            do(*arguments)  # what is closed with an error is closed all the same
        raise OSError(self.errno, os.strerror(self.errno))


def _guarded(call: str) -> Any:
    def guarded(self: FaultyDisk, *arguments: Any, **options: Any) -> Any:
        if self._is_due(call):
            return self._fail(call, arguments, options)
        return getattr(self.inner, call)(*arguments, **options)

    guarded.__name__ = call
    guarded.__doc__ = f"``{call}`` of the disk below, unless it is to fail."
    return guarded


for _call in DISK_CALLS:
    setattr(FaultyDisk, _call, _guarded(_call))
