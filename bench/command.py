"""The command: a list against a Python that does nothing, and every verb against one that loads its libraries."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time

from bench.crowd import shared_crowd
from bench.figures import Line, line_of, median, millis, ratios_of

__all__ = ["Command"]

_HOLDFAST = os.path.join(os.path.dirname(sys.executable), "holdfast")
# What every command needs: the floor of a verb, in processor time.
_LIBRARIES = "import click, msgspec, sqlite3"
# The verbs without input, none of which waits for anything. {id} and {other} are sessions.
_READING = (
    "show {id}",
    "search word",
    "stats",
    "snapshots {id}",
    "recover {id}",
    "export {id}",
    "waiting",
    "compare {id} {other}",
    "title {id}",
    "tag {id}",
    "verify {id}",
    "keys list",
    "config show",
    "doctor",
    "metrics",
    "schema list",
    "help",
    "completion bash",
    "man list",
    "--version",
    "show --help",
    "acp doctor --help",
    "bridge --schema",
    "serve token list",
    "man",
)
_WRITING = (
    "fork {id}",
    "merge {id} {other} --yes",
    "restore {id} --at 1",
    "title {id} new",
    "tag {id} new",
    "pin {id}",
    "archive {id}",
    "repair {id}",
    "prune --dry-run",
    "redact {id} --dry-run",
    "reindex",
    "run --model guide --session {id} hello",
    "import {bundle}",
    "copy {id} --to {target}",
    "approve none",
    "deny none",
    "erase none --yes",
    "delete {other} --yes",
    "undelete {other}",
)
# Verbs that read every session. Their start is measured in a store of two sessions; their work over many has no mark.
_OF_ALL = ("keys list", "doctor", "redact {id} --dry-run", "reindex")
# The limit of a verb, as a multiple of loading the libraries alone.
_READING_MARK, _WRITING_MARK = 1.5, 1.9
# Commands that undo the changes of a verb, untimed, so that the next run starts with the same state.
_BACK = {"delete {other} --yes": "undelete {other}", "undelete {other}": "delete {other} --yes"}


class Command:
    """``holdfast list`` against ``python -c pass``, in turn."""

    def __init__(self, *, quick: bool) -> None:
        self._count = 200 if quick else 1_000
        self._starts = 5 if quick else 9
        self._store = self._own = self._few = ""
        self._environment: dict[str, str] = {}
        self._ours: list[float] = []
        self._long: list[float] = []
        self._floor: list[float] = []
        self._asked = _READING[:2] + _WRITING[:1] if quick else _READING + _WRITING
        self._verbs: dict[tuple[str, str], list[float]] = {}

    def prepare(self, folder: str) -> None:
        """Create a store; run each program once, so that it is compiled as after an installation."""
        self._store = shared_crowd(folder, self._count)
        # Each verb that writes has its own copy.
        self._own = shutil.copytree(self._store, os.path.join(folder, "command"), dirs_exist_ok=True)
        self._few = f"{self._own}-few"
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
        """Run one round."""
        turns = [[self._run(*each) for each in self._commands()] for _ in range(self._starts)]
        medians = [median(times) for times in zip(*turns, strict=True)]
        for kept, found in zip((self._floor, self._ours, self._long), medians, strict=True):
            kept.append(found)
        self._measure_verbs()

    def _measure_verbs(self) -> None:
        """Run every verb in turn with the mere loading of its libraries, by processor time."""
        listed = [_HOLDFAST, "--store", self._own, "list", "--json", "--limit", "2"]
        found = subprocess.run(listed, check=True, capture_output=True, env=self._environment).stdout
        first, second = (row["session_id"] for row in json.loads(found)["sessions"])
        ours = [_HOLDFAST, "--store", self._own]
        words = {"id": first, "other": second} | {name: f"{self._own}-{name}" for name in ("bundle", "target")}
        self._processor_s(*ours, "export", first, "--format", "bundle", "--force", "-o", words["bundle"])
        self._processor_s(*ours, "copy", first, second, "--to", self._few)
        for verb in self._asked:
            for store in (self._few, self._own) if verb in _OF_ALL else (self._own,):
                found = self._ratio([_HOLDFAST, "--store", store], verb, words)
                self._verbs.setdefault((verb, store), []).append(found)

    def _ratio(self, ours: list[str], verb: str, words: dict[str, str]) -> float:
        """Return how much longer a verb takes than the loading of its libraries, both run in turn."""
        command, back = ([*ours, *each.format(**words).split()] for each in (verb, _BACK.get(verb, "")))
        ratios = []
        for _ in range(self._starts + 1):
            # The index includes the changes of the previous verb, as it does after any list.
            self._processor_s(*ours, "list", "--sort", "created")
            ratios.append(self._processor_s(*command) / self._processor_s(sys.executable, "-c", _LIBRARIES))
            if verb in _BACK:
                self._processor_s(*back)
        return median(ratios[1:])  # the first run compiled the modules

    def _processor_s(self, *command: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self._environment,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    def lines(self) -> list[Line]:
        """Return the table's lines: a plain list, and one that loads the whole command."""
        plain = f"holdfast list, {self._count:,} sessions (python -c pass)"
        return [
            self._line(plain, self._ours).shows("command"),
            self._line("the same with --sort, which loads the whole command", self._long),
            *(self._verb_line(verb, store, ratios) for (verb, store), ratios in self._verbs.items()),
        ]

    def _verb_line(self, verb: str, store: str, ratios: list[float]) -> Line:
        mark = _WRITING_MARK if verb in _WRITING else _READING_MARK
        sessions = f"{self._count:,}" if store == self._own else "two"
        where = f", {sessions} sessions" if verb in _OF_ALL else ""
        return line_of(
            f"holdfast {verb}{where}, processor time (Python with click, msgspec and sqlite3)",
            ratios,
            None if where and store == self._own else mark,
        )

    def _line(self, what: str, found: list[float]) -> Line:
        return line_of(
            what, ratios_of(found, self._floor), None, ours=millis(median(found)), floor=millis(median(self._floor))
        )

    def _commands(self) -> tuple[list[str], ...]:
        """Return the commands: a bare start, a plain list, and a list that needs the whole command."""
        listing = [_HOLDFAST, "--store", self._store, "list"]
        return [sys.executable, "-c", "pass"], listing, [*listing, "--sort", "created"]

    def _run(self, *command: str) -> float:
        begin = time.perf_counter_ns()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=self._environment)
        return time.perf_counter_ns() - begin
