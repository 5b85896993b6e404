"""A disk on which a chosen call fails at a chosen time."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from holdfast.errors import StoreError, Unavailable
from holdfast.storage import Capabilities, Disk, Log, MemoryLog, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DISK_CALLS = tuple(name for name in vars(Disk) if not name.startswith("_"))
"""Every call that a disk has."""

ANY_CALL = "*"


class FaultyDisk(Disk):
    """Another disk whose ``call`` fails at its ``nth`` use (from 1), once or from then on.

    It fails with ``errno``; or, if ``short`` is given, a write takes only that many bytes (a number, or a part such
    as 0.5); or, if ``interrupt`` is given, the call is done and then that exception comes, as when a key press
    interrupts a program. ``call`` may be "*" for any call. ``fired`` counts the failures: a test raises ``nth`` until
    it stays 0. ``counts`` has how often each call was used.
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


# All calls are wrapped by name, so that a call added to the disk later can fail too.
for _call in DISK_CALLS:
    setattr(FaultyDisk, _call, _guarded(_call))


# A store that accepts everything at once and fails later, as one that sends over a network may.
class DeferredStore(MemoryStore):
    """Accepts appends now and stores them with the next sync, or not at all.

    ``fail_after`` is how many more appends (of all logs together) will reach the store; what comes after is accepted
    too, and lost. The next append or sync then raises, and so does every one after it: the log is dead. ``unsaved()``
    still has what was accepted and never stored. None means that nothing fails; the value can be changed at any time.
    """

    capabilities = Capabilities(defers=True, archives=True, unique=True)
    url = "deferred:"

    def __init__(self, fail_after: int | None = None) -> None:
        super().__init__()
        self.fail_after = fail_after

    def log(self, key: str) -> Log:
        super().log(key)
        return DeferredLog(self, key)

    def sync(self, logs: Mapping[str, Log]) -> Future[None]:
        """Send what is waiting; the future has the first error."""
        result: Future[None] = Future()
        result.set_running_or_notify_cancel()
        errors = []
        for log in logs.values():
            try:
                log.sync()
            except StoreError as error:
                errors.append(error)
        if errors:
            result.set_exception(errors[0])
        else:
            result.set_result(None)
        return result

    def take_one(self) -> bool:
        """Return whether one more append reaches the store."""
        with self.guard:
            if self.fail_after is None:
                return True
            self.fail_after -= 1
            return self.fail_after >= 0


class DeferredLog(MemoryLog):
    """A log with a queue before it."""

    def __init__(self, store: DeferredStore, key: str) -> None:
        super().__init__(store, key)
        self._deferred = store
        self._queue: list[tuple[bytes, int, int, int]] = []
        self._failed: StoreError | None = None

    def append(self, data: bytes, first_seq: int, count: int, epoch: int) -> None:
        """Accept data. Data accepted before is sent first, so this call may raise for it."""
        self._send()
        self._queue.append((bytes(data), first_seq, count, epoch))

    def sync(self) -> None:
        self._send()

    def cut(self, offset: int, epoch: int) -> None:
        self._send()
        super().cut(offset, epoch)

    def replace(self, chunks: Iterable[bytes], epoch: int) -> None:
        self._send()
        super().replace(chunks, epoch)

    def size(self) -> int:
        """Return the size of stored and waiting bytes: a log reads its own appends."""
        return super().size() + len(self.unsaved())

    def unsaved(self) -> bytes:
        return b"".join(data for data, *_ in self._queue)

    def _bytes(self, start: int, stop: int) -> bytes:
        # A reader on the same object sees what it appended, stored or not.
        stored = super().size()
        queued = self.unsaved()[max(0, start - stored) : max(0, stop - stored)]
        return super()._bytes(start, min(stop, stored)) + queued

    def _send(self) -> None:
        if self._failed is not None:
            # The same error again, without the frames of earlier raises.
            raise self._failed.with_traceback(None)
        while self._queue:
            if not self._deferred.take_one():
                self._failed = Unavailable("the store did not take what it had accepted")
                raise self._failed
            super().append(*self._queue[0])
            del self._queue[0]
