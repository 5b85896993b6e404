"""What a session's log says, kept from one reading to the next: only what is new is read again."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from holdfast.integrations._place import Place
from holdfast.model import Event

__all__ = ["Reader"]


class Reader(ABC):
    """Takes the events of a place one after the other, each of them once.

    A log that is another one than before (begun anew, repaired, redacted) is read from its
    beginning. Keep ``lock`` while looking at what was read, or acting on it.
    """

    _log: tuple[Any, ...] | None
    _next: int
    _taking: int

    def __init__(self, place: Place) -> None:
        self.place = place
        self.lock = threading.RLock()
        self._turn_to(None)

    def catch_up(self) -> None:
        """Take in what is new in the log."""
        with self.lock:
            # What is held here is written here alone: there may be nothing new to be read.
            held = self.place.held()
            if held is not None and held == (self._taking, self._next - 1):
                return
            log = self.place.log_id()
            if log != self._log:
                self._turn_to(log)
            for event in self.place.events(self._next):
                self._next = event.seq + 1
                self._take(event)
            self._taking = held[0] if held else -1

    def take(self, recorded: Iterable[Event]) -> None:
        """Take in what was just written, so that it need not be read."""
        with self.lock:
            held = self.place.held()
            if held is None or held[0] != self._taking:
                return  # others may have written since the last reading: the next one sees it all
            for event in self.place.whole(recorded):
                if event.seq == self._next:
                    self._next += 1
                    self._take(event)

    @abstractmethod
    def _begin_again(self) -> None:
        """Forget everything: the log is read from its beginning."""

    @abstractmethod
    def _take(self, event: Event) -> None:
        """Take in the next event of the log."""

    def _turn_to(self, log: tuple[Any, ...] | None) -> None:
        self._log = log
        self._next = 0
        self._taking = -1
        self._begin_again()
