"""One thread of a store that syncs for everyone who waits."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future

from holdfast.storage.base import Log
from holdfast.storage.disk import forks

__all__ = ["Flusher"]


class Flusher:
    """Collects requests while a sync is under way and serves them all with the next one.

    The thread starts with the first request, never keeps a process alive, and is made anew in a
    forked child.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[Log, list[Future[None]]]] = {}
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._forks = forks.count
        self._closed = False

    def sync(self, logs: Mapping[str, Log]) -> Future[None]:
        """A future that is done once all these logs are synced, or holds the first error."""
        result: Future[None] = Future()
        parts = _Parts(result, len(logs))
        with self._condition:
            for log in logs.values():
                part: Future[None] = Future()
                part.add_done_callback(parts.one_done)
                self._waiting.setdefault(id(log), (log, []))[1].append(part)
            self._start()
            self._condition.notify()
        if not logs:
            result.set_result(None)
        return result

    def close(self) -> None:
        """Serve what is waiting, then stop."""
        with self._condition:
            self._closed = True
            self._condition.notify()
            thread = self._thread
        if thread is not None and self._forks == forks.count:
            thread.join()

    def _start(self) -> None:
        if self._thread is None or self._forks != forks.count or not self._thread.is_alive():
            self._forks = forks.count
            self._closed = False
            self._thread = threading.Thread(target=self._run, name="holdfast-flusher", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._waiting and not self._closed:
                    self._condition.wait()
                batch, self._waiting = self._waiting, {}
                if not batch:
                    return
            for log, parts in batch.values():
                _serve(log, parts)


def _serve(log: Log, parts: list[Future[None]]) -> None:
    try:
        log.sync()
    except BaseException as error:  # noqa: BLE001 - it belongs to those who wait
        for part in parts:
            part.set_exception(error)
    else:
        for part in parts:
            part.set_result(None)


class _Parts:
    """Turns the ends of several syncs into the end of one."""

    def __init__(self, result: Future[None], count: int) -> None:
        self._result = result
        self._left = count
        self._error: BaseException | None = None
        self._lock = threading.Lock()

    def one_done(self, part: Future[None]) -> None:
        with self._lock:
            self._error = self._error or part.exception()
            self._left -= 1
            if self._left:
                return
        if self._error is not None:
            self._result.set_exception(self._error)
        else:
            self._result.set_result(None)
