"""The cost of a durable step against an append and a flush, and the time in which a new process skips known steps."""

from __future__ import annotations

import itertools
import os
from typing import Any
from uuid import uuid4

import holdfast
from bench import server
from bench.child import ask
from bench.figures import Line, alternated, line_of, median, micros, millis, ratios_of
from holdfast.library import Holdfast

__all__ = ["KNOWN", "Steps", "result"]

KNOWN = "known"
_WORDS = "what a user says in a line or two " * 2
_LIMIT_NS = 1e9
# As programs do them, several in a row. One by one an append would find the processor's caches filled by the step just
# before it, while each step would find them as a sync leaves them.
_RUN = 10
_SAID = {
    "files": "files",
    "sqlite": "sqlite",
    "postgres": "postgres, the result synced too",
    "always": 'files, durability="always", the result synced too',
}


def result(number: int) -> dict[str, int]:
    """Do the work of a step."""
    return {"number": number}


class Steps:
    """On each store: alternating pairs, then a loop of known steps in a separate process."""

    def __init__(self, *, quick: bool) -> None:
        self._pairs = 60 if quick else 1_000
        self._known = 1_000 if quick else 10_000
        self._server: server.Server | None = None
        self._made: dict[str, str] = {}
        self._spent: dict[str, list[tuple[float, float]]] = {}
        self._passed: dict[str, list[float]] = {}

    def prepare(self, folder: str) -> None:
        """Create sessions with many known steps, without a sync for each, since that is not measured."""
        self._made = {"files": os.path.join(folder, "steps"), "sqlite": f"sqlite:///{folder}/steps.db"}
        if server.missing() is None:
            self._server = server.Server()
            self._server.start()
            self._made["postgres"] = self._server.url
        for url in self._made.values():
            with holdfast.open(url) as hf, hf.session(KNOWN, durability="os") as session:
                for number in range(self._known):
                    session.once(f"n{number}", result, number)

    def measure(self, folder: str) -> None:
        """Run one round."""
        for kind, url in self._made.items():
            # A store for each side: in one file of SQLite each would sync the pages of the other.
            beside = f"sqlite:///{folder}/appends.db" if kind == "sqlite" else url
            with holdfast.open(url) as hf, holdfast.open(beside) as other:
                self._note(kind, self._pair(other, hf, "barriers"))
                if kind == "files":
                    self._note("always", self._pair(other, hf, "always"))
            self._passed.setdefault(kind, []).append(ask("known_steps", url, str(self._known)))

    def finish(self) -> None:
        """Stop the server."""
        if self._server is not None:
            self._server.stop()

    def _pair(self, appending: Holdfast, stepping: Holdfast, durability: Any) -> tuple[float, float]:
        first, second = (hf.session(uuid4().hex, durability=durability) for hf in (appending, stepping))
        with first as said, second as done:
            said.user(_WORDS)
            said.flush()
            done.once("first", result, 0)
            numbers = itertools.count(1)

            def say() -> None:
                said.user(_WORDS)
                said.flush()

            def do() -> None:
                number = next(numbers)
                done.once(f"n{number}", result, number)

            least, ours = alternated(self._pairs, say, do, run=_RUN)
        return ours, least

    def _note(self, name: str, spent: tuple[float, float]) -> None:
        self._spent.setdefault(name, []).append(spent)

    def lines(self) -> list[Line]:
        """Return the table's lines."""
        return [*map(self._cost, self._spent), *map(self._pass, self._passed)]

    def _cost(self, name: str) -> Line:
        ours, least = ([pair[at] for pair in self._spent[name]] for at in (0, 1))
        shown = {"ours": micros(median(ours)), "floor": micros(median(least))}
        line = line_of(f"a step p50, {_SAID[name]} (append and flush)", ratios_of(ours, least), None, **shown)
        return line.shows(f"step-{name}")

    def _pass(self, name: str) -> Line:
        spent = self._passed[name]
        what = f"{self._known:,} known steps in a new process, {name} (a second)"
        line = line_of(what, [one / _LIMIT_NS for one in spent], None, ours=millis(median(spent)), floor="1,000 ms")
        return line.shows(f"step-known-{name}")
