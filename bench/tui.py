"""The terminal app: the time until its list is shown, and until a key takes effect."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from bench.child import ROOT, ask
from bench.crowd import shared_crowd
from bench.figures import Line, line_of, median, millis

__all__ = ["Painted", "Pressed"]

_FLOOR = """
import sys, textual, textual.app, textual.widgets
import holdfast
with holdfast.open(sys.argv[1]) as hf:
    hf.list(100)
"""
_OURS = "import sys; from bench.child import app_painted; app_painted(sys.argv[1])"


class Painted:
    """A process that shows the first rows against one that loads the toolkit and queries them."""

    ROUNDS = 3
    MARK = 1.5

    def __init__(self, *, quick: bool) -> None:
        self._count = 1_000 if quick else 10_000
        self._starts = 2 if quick else 4
        self._store = ""
        self._ours: list[float] = []
        self._floor: list[float] = []

    def prepare(self, folder: str) -> None:
        """Create a store with the given number of sessions; run each program once, so that it is compiled."""
        self._store = shared_crowd(folder, self._count)
        for code in (_FLOOR, _OURS):
            _started(code, self._store)

    def measure(self, folder: str) -> None:
        """Run one round, one of each in turn."""
        floor, ours = [], []
        for _ in range(self._starts):
            floor.append(_started(_FLOOR, self._store))
            ours.append(_started(_OURS, self._store))
        self._floor.append(median(floor))
        self._ours.append(median(ours))

    def lines(self) -> list[Line]:
        """Return the table's line."""
        return [
            line_of(
                f"terminal app: first paint of {self._count:,} sessions (its toolkit and one list)",
                [ours / floor for ours, floor in zip(self._ours, self._floor, strict=True)],
                self.MARK,
                ours=millis(median(self._ours)),
                floor=millis(median(self._floor)),
            )
        ]


class Pressed:
    """The time from a key in the list to the screen that shows it, against 50 ms."""

    ROUNDS = 2
    MARK = 1.0
    LIMIT_MS = 50.0

    def __init__(self, *, quick: bool) -> None:
        self._count = 5_000 if quick else 100_000
        self._keys = 40 if quick else 200
        self._store = ""
        self._spent: list[float] = []

    def prepare(self, folder: str) -> None:
        """Create a store with the given number of sessions."""
        self._store = shared_crowd(folder, self._count)

    def measure(self, folder: str) -> None:
        """Run one round: all rows fetched, then one key after the other."""
        self._spent.append(ask("app_pressed", self._store, str(self._keys))["median_ms"])

    def lines(self) -> list[Line]:
        """Return the table's line."""
        return [
            line_of(
                f"terminal app: a key at {self._count:,} sessions (50 ms)",
                [spent / self.LIMIT_MS for spent in self._spent],
                self.MARK,
                ours=f"{median(self._spent):.1f} ms",
                floor=f"{self.LIMIT_MS:.0f} ms",
            )
        ]


def _started(code: str, store: str) -> float:
    # Compiled files are read as after an installation, from the second time on.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": f"{store}-compiled"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    begin = time.perf_counter_ns()
    subprocess.run([sys.executable, "-c", code, store], cwd=ROOT, check=True, env=environment)
    return time.perf_counter_ns() - begin
