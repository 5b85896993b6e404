"""The command line: a list on the screen against a Python that does nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from bench.crowd import shared_crowd
from bench.figures import Line, line_of, median, millis, ratios_of

__all__ = ["Command"]

_HOLDFAST = os.path.join(os.path.dirname(sys.executable), "holdfast")


class Command:
    """``holdfast list`` against ``python -c pass``, in turn."""

    def __init__(self, *, quick: bool) -> None:
        self._count = 200 if quick else 1_000
        self._starts = 5 if quick else 9
        self._store = ""
        self._environment: dict[str, str] = {}
        self._ours: list[float] = []
        self._floor: list[float] = []

    def prepare(self, folder: str) -> None:
        """A store; each program once, so that it is compiled as after an installation."""
        self._store = shared_crowd(folder, self._count)
        self._environment = {
            **os.environ,
            "PYTHONPYCACHEPREFIX": os.path.join(folder, "compiled"),
            "HOLDFAST_STORE": self._store,
        }
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for _ in range(2):
            self._run(*self._commands()[1])

    def measure(self, folder: str) -> None:
        """One round."""
        floor, ours = [], []
        bare, command = self._commands()
        for _ in range(self._starts):
            floor.append(self._run(*bare))
            ours.append(self._run(*command))
        self._floor.append(median(floor))
        self._ours.append(median(ours))

    def lines(self) -> list[Line]:
        """The table's line."""
        return [
            line_of(
                f"holdfast list, {self._count:,} sessions (python -c pass)",
                ratios_of(self._ours, self._floor),
                None,
                ours=millis(median(self._ours)),
                floor=millis(median(self._floor)),
            ).shows("command")
        ]

    def _commands(self) -> tuple[list[str], list[str]]:
        listing = [_HOLDFAST, "--store", self._store, "list"]
        return [sys.executable, "-c", "pass"], listing

    def _run(self, *command: str) -> float:
        begin = time.perf_counter_ns()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=self._environment)
        return time.perf_counter_ns() - begin
