"""The lead over the fastest other library for one append, and for one that is on the medium."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

from bench.figures import Line, line_of, median, micros
from bench.rivals.asking import Rival, python_of
from bench.rivals.stores import STORES
from bench.workload import step

__all__ = ["Ahead"]

_SECONDS = 90
_OURS = "holdfast-files"
_TEXTS = [step(index).text for index in range(40)]


class _Found(NamedTuple):
    """The values of one rival for each round: the ratio to ours, and both in nanoseconds."""

    ratios: list[float]
    theirs: list[float]
    ours: list[float]


class Ahead:
    """The fastest stores of others, each as it is shipped and without its syncs.

    All are driven by the same few lines (`bench/rivals/stores.py`), in processes that stay for all
    rounds. `make bench-peers` measures more of them, once.
    """

    RIVALS = ("openai-sqlite", "strands", "langchain-sql", "agno")

    def __init__(self, *, quick: bool) -> None:
        self._count = 40 if quick else 100
        self._synced = 5 if quick else 15
        self._ours: Rival | None = None
        self._others: Rival | None = None
        # By store, and by whether it waits for the disk.
        self._found: dict[tuple[str, bool], _Found] = {}
        self._left_out: set[str] = set()

    def prepare(self, folder: str) -> None:
        """Start the processes of ours and theirs, each in its own environment."""
        self._ours = Rival(sys.executable)
        python = python_of("peers")
        if python is None:
            print("without others: python -m bench.recovery.peers installs them", file=sys.stderr)
        else:
            self._others = Rival(python)

    def finish(self) -> None:
        """Stop both."""
        for one in (self._ours, self._others):
            if one is not None:
                one.end()

    def measure(self, folder: str) -> None:
        """Run one round: ours before, between and after the others."""
        for is_durable in (False, True):
            for name in self.RIVALS:
                if self._others is None or name in self._left_out:
                    continue
                if is_durable and not STORES[name].syncs:
                    continue
                self._alternate(name, folder, is_durable=is_durable)

    def _alternate(self, name: str, folder: str, *, is_durable: bool) -> None:
        """Alternate between both; turns with syncs are short, since the speed of the disk changes all the time."""
        theirs: list[int] = []
        ours: list[int] = []
        turns, count = (self._synced, 2) if is_durable else (3, self._count)
        for turn in range(turns):
            for one, spent in ((name, theirs), (_OURS, ours))[:: 1 if turn % 2 else -1]:
                stay = f"{one}-for-{name}-{is_durable}"
                found = self._ask(one, folder, stay, count, is_durable=is_durable)
                if found is None:
                    return
                spent.extend(found)
        found_all = self._found.setdefault((name, is_durable), _Found([], [], []))
        found_all.ratios.append(median(theirs) / median(ours))
        found_all.theirs.append(median(theirs))
        found_all.ours.append(median(ours))

    def _ask(self, name: str, folder: str, stay: str, count: int, *, is_durable: bool) -> list[int] | None:
        who = self._ours if name == _OURS else self._others
        assert who is not None
        stay = f"{stay}-{os.path.basename(folder)}"
        task = {"store": name, "folder": folder, "texts": _TEXTS, "count": count, "stay": stay}
        found = who.ask({**task, "durable": is_durable}, _SECONDS)
        if "failed" in found:
            print(f"without {STORES[name].name}: {found['failed']}", file=sys.stderr)
            self._left_out.add(name)
            return None
        spent: list[int] = found["spent"]
        return spent

    def lines(self) -> list[Line]:
        """Return the table's lines: the time of the others as a multiple of ours."""
        return [*self._lines(is_durable=False), *self._lines(is_durable=True)]

    def _lines(self, *, is_durable: bool) -> list[Line]:
        what = "append and flush" if is_durable else "append"
        how = "as it is shipped" if is_durable else "without its syncs"
        found = [
            line_of(
                f"{what}: times that it takes longer ({STORES[name].name}, {how})",
                one.ratios,
                None,
                ours=micros(median(one.ours)),
                floor=micros(median(one.theirs)),
            )
            for (name, durable), one in self._found.items()
            if durable == is_durable
        ]
        if not found:
            return []
        found.sort(key=lambda line: line.ratio)
        goal = "flush-rival" if is_durable else "append-rival"
        found[0] = found[0].shows(goal)._replace(chart=self._chart(is_durable=is_durable))
        return found

    def _chart(self, *, is_durable: bool) -> tuple[tuple[str, float], ...]:
        found = {name: one for (name, durable), one in self._found.items() if durable == is_durable}
        rows = [(STORES[name].name, median(one.theirs) / 1e3) for name, one in found.items()]
        rows.append(("Holdfast", median([us for one in found.values() for us in one.ours]) / 1e3))
        return tuple(sorted(rows, key=lambda row: row[1]))
