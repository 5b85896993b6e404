"""A store that takes everything at once and fails later, as one that sends over a network may."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

from holdfast.errors import StoreError, Unavailable
from holdfast.storage.base import Capabilities, Log
from holdfast.storage.memory import MemoryLog, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["DeferredStore"]


class DeferredStore(MemoryStore):
    """Accepts appends now and stores them with the next sync, or not at all.

    ``fail_after`` is how many more appends (of all logs together) will reach the store; what comes
    after is accepted too, and lost. The next append or sync then raises, and so does every one
    after it: the log is dead. ``unsaved()`` still has what was accepted and never stored.
    None means that nothing fails; the value can be changed at any time.
    """

    capabilities = Capabilities(defers=True, archives=True)
    url = "deferred:"

    def __init__(self, fail_after: int | None = None) -> None:
        super().__init__()
        self.fail_after = fail_after

    def log(self, key: str) -> Log:
        """The key's log."""
        super().log(key)
        return DeferredLog(self, key)

    def sync(self, logs: Mapping[str, Log]) -> Future[None]:
        """Send what is waiting; the future has the first error."""
        result: Future[None] = Future()
        result.set_running_or_notify_cancel()
        errors = [error for log in logs.values() if (error := _sync_error(log)) is not None]
        if errors:
            result.set_exception(errors[0])
        else:
            result.set_result(None)
        return result

    def take_one(self) -> bool:
        """Whether one more append reaches the store."""
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
        """Accept; what was accepted before is sent first, so that this one may raise for it."""
        self._send()
        self._queue.append((bytes(data), first_seq, count, epoch))

    def sync(self) -> None:
        """Send everything."""
        self._send()

    def cut(self, offset: int, epoch: int) -> None:
        """Send everything, then cut."""
        self._send()
        super().cut(offset, epoch)

    def replace(self, chunks: Iterable[bytes], epoch: int) -> None:
        """Send everything, then replace."""
        self._send()
        super().replace(chunks, epoch)

    def size(self) -> int:
        """What is stored and what is waiting: a log reads what was appended through it."""
        return super().size() + len(self.unsaved())

    def unsaved(self) -> bytes:
        """What was accepted and is not stored."""
        return b"".join(data for data, *_ in self._queue)

    def _bytes(self, start: int, stop: int) -> bytes:
        stored = super().size()
        queued = self.unsaved()[max(0, start - stored) : max(0, stop - stored)]
        return super()._bytes(start, min(stop, stored)) + queued

    def _send(self) -> None:
        if self._failed is not None:
            raise self._failed.with_traceback(None)
        while self._queue:
            if not self._deferred.take_one():
                self._failed = Unavailable("the store did not take what it had accepted")
                raise self._failed
            super().append(*self._queue[0])
            del self._queue[0]


def _sync_error(log: Log) -> StoreError | None:
    try:
        log.sync()
    except StoreError as error:
        return error
    return None
