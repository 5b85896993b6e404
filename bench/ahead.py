"""How far ahead of the fastest others one append is, and one that is on the medium."""

from __future__ import annotations

import sys

from bench.figures import Line, line_of, median, micros
from bench.rivals.asking import Rival, python_of
from bench.rivals.stores import STORES
from bench.workload import step

__all__ = ["Ahead"]

_SECONDS = 90
_TEXTS = [step(index).text for index in range(40)]


class Ahead:
    """The stores of others that are fastest, each as it is shipped and without its syncs.

    All are driven by the same few lines (`bench/rivals/stores.py`), in processes that stay for all
    rounds. `make bench-peers` measures more of them, once.
    """

    RIVALS = ("openai-sqlite", "strands", "langchain-sql", "agno")

    def __init__(self, *, quick: bool) -> None:
        self._count = 100 if quick else 300
        self._synced = 20 if quick else 60
        self._ours: Rival | None = None
        self._others: Rival | None = None
        # By store and whether it waits for the disk: the median of each round.
        self._spent: dict[tuple[str, bool], list[float]] = {}
        self._left_out: set[str] = set()

    def prepare(self, folder: str) -> None:
        """Ours and theirs, each in its own environment."""
        self._ours = Rival(sys.executable)
        python = python_of("peers")
        if python is None:
            print("without others: python -m bench.recovery.peers installs them", file=sys.stderr)
        else:
            self._others = Rival(python)

    def finish(self) -> None:
        """End both."""
        for one in (self._ours, self._others):
            if one is not None:
                one.end()

    def measure(self, folder: str) -> None:
        """One round: ours before, between and after the others."""
        for is_durable in (False, True):
            ours = [self._median("holdfast-files", folder, is_durable=is_durable)]
            for name in self.RIVALS:
                if self._others is None or name in self._left_out:
                    continue
                if is_durable and not STORES[name].syncs:
                    continue
                spent = self._median(name, folder, is_durable=is_durable)
                ours.append(self._median("holdfast-files", folder, is_durable=is_durable))
                if spent is not None:
                    self._spent.setdefault((name, is_durable), []).append(spent)
            known = [one for one in ours if one is not None]
            self._spent.setdefault(("holdfast-files", is_durable), []).append(median(known))

    def _median(self, name: str, folder: str, *, is_durable: bool) -> float | None:
        who = self._ours if name.startswith("holdfast") else self._others
        assert who is not None
        count = self._synced if is_durable else self._count
        task = {"store": name, "folder": folder, "texts": _TEXTS, "count": count}
        found = who.ask({**task, "durable": is_durable, "seconds": _SECONDS / 3}, _SECONDS)
        if "failed" in found:
            print(f"without {STORES[name].name}: {found['failed']}", file=sys.stderr)
            self._left_out.add(name)
            return None
        return median(found["spent"])

    def lines(self) -> list[Line]:
        """The table's lines: how many times longer the others take."""
        return [*self._lines(is_durable=False), *self._lines(is_durable=True)]

    def _lines(self, *, is_durable: bool) -> list[Line]:
        what = "append and flush" if is_durable else "append"
        how = "as it is shipped" if is_durable else "without its syncs"
        ours = self._spent["holdfast-files", is_durable]
        found = []
        for (name, durable), theirs in self._spent.items():
            if durable != is_durable or name == "holdfast-files" or len(theirs) != len(ours):
                continue
            line = line_of(
                f"{what}: times that it takes longer ({STORES[name].name}, {how})",
                [other / one for other, one in zip(theirs, ours, strict=True)],
                None,
                ours=micros(median(ours)),
                floor=micros(median(theirs)),
            )
            found.append(line)
        if not found:
            return []
        found.sort(key=lambda line: line.ratio)
        goal = "flush-rival" if is_durable else "append-rival"
        found[0] = found[0].shows(goal)._replace(chart=self._chart(is_durable=is_durable))
        return found

    def _chart(self, *, is_durable: bool) -> tuple[tuple[str, float], ...]:
        rows = [
            (name, median(spent) / 1e3)
            for (name, durable), spent in self._spent.items()
            if durable == is_durable
        ]
        said = {
            name: STORES[name].name.lower() if "holdfast" in name else STORES[name].name
            for name, _ in rows
        }
        return tuple((said[name], value) for name, value in sorted(rows, key=lambda row: row[1]))
