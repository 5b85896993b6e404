"""The delay until an event of a burst can be found."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import holdfast
from bench.figures import Line, high, line_of, median
from bench.workload import record, step

__all__ = ["Lag"]


class Lag:
    """Milliseconds from recording a word to a search that finds it, while other events are recorded.

    A session is written at full speed by a thread of its own; the word is recorded into it by the
    same thread, and looked for again and again until it is found.
    """

    _PAUSE_S = 0.002
    _BURST = 20

    def __init__(self, *, quick: bool) -> None:
        self._words = 5 if quick else 20
        self._ms: list[float] = []
        self._worst: list[float] = []
        self._events: list[int] = []

    def measure(self, folder: str) -> None:
        """Run one round."""
        with holdfast.open(os.path.join(folder, "lag")) as hf, hf.session("burst") as session:
            session.user("the first event opens the file")
            burst = _Burst(session, self._BURST, self._PAUSE_S)
            burst.start()
            try:
                spent = [self._look(hf, burst, f"marker{number:03d}") for number in range(self._words)]
            finally:
                burst.end()
        self._ms.append(median(spent))
        self._worst.append(high(spent, 1.0))
        self._events.append(burst.recorded)

    def _look(self, hf: Any, burst: _Burst, word: str) -> float:
        recorded_at = burst.say(word)
        while not hf.search(word, limit=1):
            pass
        return (time.perf_counter() - recorded_at) * 1e3

    def lines(self) -> list[Line]:
        """Return the table's lines."""
        count = f"{median(self._events):,.0f} events meanwhile"
        what = "ms until an event of a burst is found"
        return [
            line_of(f"{what}, the slowest of {self._words}", self._worst, None, ours=count).shows("lag"),
            line_of(f"{what}, the median", self._ms, None, ours=count),
        ]


class _Burst(threading.Thread):
    """Records, almost without pause, until it is stopped."""

    def __init__(self, session: Any, burst: int, pause_s: float) -> None:
        super().__init__(daemon=True)
        self._session = session
        self._burst, self._pause_s = burst, pause_s
        self._ended = threading.Event()
        self._word = ""
        self._said = threading.Event()
        self._said_at = 0.0
        self.recorded = 0

    def run(self) -> None:
        call: Any = None
        while not self._ended.is_set():
            for _ in range(self._burst):
                call = record(self._session, step(self.recorded), call)
                self.recorded += 1
            if self._word:
                self._session.user(f"here is {self._word}")
                self._said_at, self._word = time.perf_counter(), ""
                self._said.set()
            time.sleep(self._pause_s)

    def say(self, word: str) -> float:
        """Have a word recorded, and return the time."""
        self._said.clear()
        self._word = word
        self._said.wait(30)
        return self._said_at

    def end(self) -> None:
        self._ended.set()
        self.join()
