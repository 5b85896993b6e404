"""A thread of its own for work that many ask for."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

from holdfast.storage.disk import forks

__all__ = ["Worker"]


class Worker(ABC):
    """One thread that works for everyone who asks.

    It starts when there is something to do, never keeps a process alive, and is made anew in a
    forked child. ``_run`` ends it, with the condition held, by setting ``_thread`` to None.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        # The lock of the condition by itself too: it is entered more quickly.
        self._lock = threading.RLock()
        self._condition = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._closed = False
        self._forks = forks.count

    def close(self) -> None:
        """Have the thread do what it does at the end, and wait for it."""
        self._renew_after_fork()
        with self._condition:
            self._closed = True
            self._condition.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _start(self) -> bool:
        """See to it that the thread runs; False if the interpreter is too far gone for threads."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False
            self._thread = thread
        return True

    def _renew_after_fork(self) -> None:
        """In a forked child there is no thread, and the condition may be locked for ever."""
        if self._forks != forks.count:
            self._forks = forks.count
            self._lock = threading.RLock()
            self._condition, self._thread = threading.Condition(self._lock), None
            self._forget()

    @abstractmethod
    def _run(self) -> None:
        """What the thread does."""

    @abstractmethod
    def _forget(self) -> None:
        """Let go, in a forked child, of what the parent is going to do."""
