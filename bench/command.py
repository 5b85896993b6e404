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
        self._long: list[float] = []
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
            for command in self._commands():
                self._run(*command)

    def measure(self, folder: str) -> None:
        """One round."""
        turns = [[self._run(*each) for each in self._commands()] for _ in range(self._starts)]
        medians = [median(times) for times in zip(*turns, strict=True)]
        for kept, found in zip((self._floor, self._ours, self._long), medians, strict=True):
            kept.append(found)

    def lines(self) -> list[Line]:
        """The table's lines: a plain list, and one that loads the whole command."""
        plain = f"holdfast list, {self._count:,} sessions (python -c pass)"
        return [
            self._line(plain, self._ours).shows("command"),
            self._line("the same with --sort, which loads the whole command", self._long),
        ]

    def _line(self, what: str, found: list[float]) -> Line:
        return line_of(
            what, ratios_of(found, self._floor), None, ours=millis(median(found)), floor=millis(median(self._floor))
        )

    def _commands(self) -> tuple[list[str], ...]:
        """A bare start, a plain list, and a list that goes the long way."""
        listing = [_HOLDFAST, "--store", self._store, "list"]
        return [sys.executable, "-c", "pass"], listing, [*listing, "--sort", "created"]

    def _run(self, *command: str) -> float:
        begin = time.perf_counter_ns()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=self._environment)
        return time.perf_counter_ns() - begin
