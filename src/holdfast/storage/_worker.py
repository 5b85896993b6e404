"""Worker threads."""

from __future__ import annotations

import threading
import time
from _thread import allocate_lock, start_new_thread
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.storage.base import Log, Store
from holdfast.storage.disk import forks

if TYPE_CHECKING:
    from concurrent.futures import Future


class Signal(threading.Condition):
    """A condition whose waiters may be interrupted: its lock is neither leaked nor released twice.

    It is entered and left in C: Python's own condition, being Python code, can be interrupted while it returns, with
    the lock held and no one left to release it. A waiter must hold the lock exactly once.
    """

    __enter__ = property(attrgetter("lock.__enter__"))  # looked up by `with`, and called
    __exit__ = property(attrgetter("lock.__exit__"))

    def __init__(self) -> None:
        self.lock = threading.RLock()
        super().__init__(self.lock)

    def wait(self, timeout: float | None = None) -> bool:
        """Release the lock until another thread notifies or the time is up; return whether one did."""
        waiter, waiting = allocate_lock(), self._waiters  # type: ignore[attr-defined]  # of the class above
        waiter.acquire()
        woken = False
        try:
            waiting.append(waiter)
            self.lock.release()
            woken = waiter.acquire(timeout=-1 if timeout is None else max(timeout, 0))
        finally:
            try:
                self._take_back()
            finally:
                self._take_back()  # in case that was interrupted
                # The notifier may have been interrupted before it did this; the next one would notify nobody.
                with suppress(ValueError):
                    waiting.remove(waiter)
        return woken

    def _take_back(self) -> None:
        if not self.lock._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001 - as conditions ask
            self.lock.acquire()


def new_outcome() -> Future[Any]:
    """Return a future whose waiters may be interrupted, so that setting it never blocks on its lock."""
    from concurrent.futures import Future

    made: Future[Any] = Future()
    made._condition = Signal()  # noqa: SLF001 - entered by all that a future does
    return made


class Worker(ABC):
    """One thread that works for all callers.

    It starts when there is something to do, never keeps a process alive, and is created anew in a
    forked child. ``_run`` ends it, with the condition held, by setting ``_thread`` to None.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._condition = Signal()
        self._lock = self._condition.lock
        self._thread: threading.Thread | None = None
        self._closed = False
        self._forks = forks.count

    def close(self) -> None:
        """Let the thread finish, and wait for it."""
        self._renew_after_fork()
        with self._lock:
            self._closed = True
            self._condition.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _start(self) -> bool:
        """Make sure that the thread runs; return False if the interpreter can no longer start threads."""
        if self._thread is None:
            thread = threading.Thread(target=self._begin, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False
            self._thread = thread
        return True

    def _begin(self) -> None:
        with self._lock:
            me = threading.current_thread()
            # The starter may have been interrupted before it noted this one, and have started another since.
            self._thread = self._thread or me
            if self._thread is not me:
                return
        self._run()

    def _renew_after_fork(self) -> None:
        """Reset in a forked child, which has no thread, and in which the condition may stay locked."""
        if self._forks != forks.count:
            self._forks = forks.count
            self._condition = Signal()
            self._lock = self._condition.lock
            self._thread = None
            self._forget()

    @abstractmethod
    def _run(self) -> None:
        """Do the work of the thread."""

    @abstractmethod
    def _forget(self) -> None:
        """Drop, in a forked child, the work that the parent is going to do."""


# The same work for many things, by a few threads that wait for a disk or a server in parallel.

_SOME = 16
_HANDS = 16
T = TypeVar("T")


def do_each(work: Callable[[T], object], things: Collection[T]) -> None:
    """Do the work for every thing, in order; for many, some at a time.

    An error of one is raised when those that were begun have ended, and no other is begun; so is an interrupt.
    """
    if len(things) < _SOME:
        for thing in things:
            work(thing)
        return
    from queue import SimpleQueue

    waiting, hands = list(things), 0
    left, ended = iter(waiting), list[BaseException | None]()
    bell: SimpleQueue[None] = SimpleQueue()  # set after each end, so that one swallowed by an interrupt is not missed

    def hand() -> None:
        error: BaseException | None = None
        try:
            for thing in left:
                work(thing)
        except BaseException as raised:  # noqa: BLE001 - it belongs to who waits
            error = raised
            waiting.clear()
        ended.append(error)
        bell.put(None)

    try:
        # No pool of the standard library: an interrupt in its locks, which are Python code, would leave them held.
        with suppress(RuntimeError):  # if no more threads can be started, the existing ones do it
            while hands < _HANDS:
                start_new_thread(hand, ())
                hands += 1
        if not hands:
            hands = 1
            hand()
        while len(ended) < hands:
            bell.get()
    finally:
        waiting.clear()
        while len(ended) < hands:
            bell.get()
    for error in filter(None, ended):
        raise error


# One thread of a store that syncs for all waiters.
_BATCHES_REMEMBERED = 4
_GATHER_STEPS_MAX = 10


class Flusher(Worker):
    """Collects requests while a sync is running and serves them with the next one; when closed, it serves the rest."""

    def __init__(self, gather_s: float = 0.0) -> None:
        super().__init__("holdfast-flusher")
        # For a store where one sync serves all logs: recent callers are waited for, while one of them comes within so
        # many seconds. A single caller never waits.
        self._gather_s = gather_s
        self._served: deque[frozenset[int]] = deque(maxlen=_BATCHES_REMEMBERED)
        self._served_at = 0.0
        self._wanted = 1
        self._waiting: dict[int, tuple[Log, list[_Parts]]] = {}

    def sync(self, logs: Mapping[str, Log]) -> Future[None]:
        """Return a future that is done once all these logs are synced, or holds the first error."""
        self._renew_after_fork()
        result: Future[None] = new_outcome()
        # A requested sync is done: a waiter that gives up must not cancel it for others.
        result.set_running_or_notify_cancel()
        if not logs:
            result.set_result(None)
            return result
        parts = _Parts(result, len(logs))
        with self._lock:
            for log in logs.values():
                self._waiting.setdefault(id(log), (log, []))[1].append(parts)
            self._closed = False
            started = self._start()
            if len(self._waiting) >= self._wanted:
                self._condition.notify()
        if not started:
            self._serve_waiting()
        return result

    def _forget(self) -> None:
        self._waiting = {}

    def _run(self) -> None:
        while self._wait():
            self._gather()
            self._serve_waiting()
            self._served_at = time.monotonic()

    def _gather(self) -> None:
        """Wait a moment for recent callers, if there are others."""
        if not self._gather_s:
            return
        now = time.monotonic()
        longest = self._gather_s * _GATHER_STEPS_MAX
        with self._lock:
            if now - self._served_at > longest:
                self._served.clear()
            self._wanted = len(frozenset(self._waiting).union(*self._served))
            come = 0
            while come < len(self._waiting) < self._wanted and not self._closed:
                come = len(self._waiting)
                left = now + longest - time.monotonic()
                self._condition.wait(min(self._gather_s, max(0.0, left)))
            self._wanted = 1
            # A caller that came alone is not waited for; after some such batches there is no wait at all.
            self._served.append(frozenset(self._waiting if len(self._waiting) > 1 else ()))

    def _wait(self) -> bool:
        """Wait for work; return False if there will be none."""
        with self._lock:
            while not self._waiting:
                if self._closed:
                    self._thread = None
                    return False
                self._condition.wait()
        return True

    def _serve_waiting(self) -> None:
        with self._lock:
            batch, self._waiting = self._waiting, {}
        for log, waiting in batch.values():
            error: BaseException | None = None
            try:
                log.sync()
            except BaseException as failure:  # noqa: BLE001 - it belongs to those who wait
                error = failure
            for parts in waiting:
                parts.one_done(error)


class _Parts:
    """Combines the ends of several syncs into one."""

    def __init__(self, result: Future[None], count: int) -> None:
        self._result = result
        self._left = count
        self._error: BaseException | None = None
        self._lock = threading.Lock()

    def one_done(self, error: BaseException | None) -> None:
        with self._lock:
            self._error = self._error or error
            self._left -= 1
            if self._left:
                return
        if self._error is not None:
            self._result.set_exception(self._error)
        else:
            self._result.set_result(None)


class FlushingStore(Store):
    """A store that syncs on a thread of its own."""

    def __init__(self, gather_s: float = 0.0) -> None:
        self._flusher = Flusher(gather_s)

    def sync(self, logs: Mapping[str, Log]) -> Future[None]:
        return self._flusher.sync(logs)

    def close(self) -> None:
        self._flusher.close()
