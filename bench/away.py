"""How long a flush of a session blocks its event loop."""

from __future__ import annotations

import asyncio
import os
import selectors
import time
from collections.abc import Awaitable, Callable
from typing import Any

import holdfast
from bench.figures import Line, high, line_of, median, ratios_of
from bench.floor import SlowDisk, open_plain
from bench.workload import step
from holdfast.storage import Disk, FileStore

__all__ = ["Away"]

_SESSIONS = 8
_SHARE = 0.999
_SLOW_S = 0.02

Step = Callable[[str], Awaitable[Any]]


class Away:
    """p99.9 of the time between two looks of the loop at what is ready, in milliseconds.

    The floor is a plain file for each session, written in the loop and synced by `to_thread`.
    """

    def __init__(self, *, quick: bool) -> None:
        self._each = 60 if quick else 250
        self._slow_each = 10 if quick else 25
        self._found: dict[str, list[float]] = {name: [] for name in ("ours", "floor", "slow", "slow-floor")}
        self._sync_ms: list[float] = []

    def measure(self, folder: str) -> None:
        """Run one round: the floor, ours, and both on a disk whose syncs take 20 ms."""
        for name, disk, each in (("", Disk(), self._each), ("slow", SlowDisk(_SLOW_S), self._slow_each)):
            bare = [_bare_step(folder, disk) for _ in range(_SESSIONS)]
            self._found[f"{name}-floor" if name else "floor"].append(_away_ms(bare, each))
            store = FileStore(os.path.join(folder, f"store{name}"), disk=disk)
            with holdfast.open(store) as hf:
                sessions = [hf.session(f"s{number}") for number in range(_SESSIONS)]
                for session in sessions:
                    session.user("the first flush makes the directories safe as well")
                    session.flush()
                ours = [_our_step(session) for session in sessions]
                self._found[name or "ours"].append(_away_ms(ours, each))
                for session in sessions:
                    session.close()

    def lines(self) -> list[Line]:
        """Return the table's lines."""
        found = []
        for name, floor, goal, said in (
            ("ours", "floor", "stall", f"{_SESSIONS} sessions"),
            ("slow", "slow-floor", "stall-slow", "20 ms for a sync"),
        ):
            ours, bare = self._found[name], self._found[floor]
            what = f"aflush: p99.9 ms that the loop is away, {said} (files synced by to_thread)"
            times = {"ours": f"{median(ours):.2f} ms", "floor": f"{median(bare):.2f} ms"}
            found.append(line_of(what, ours, None, **times).shows(goal))
            found.append(line_of(f"{what}, as a ratio", ratios_of(ours, bare), None, **times))
        return found


def _bare_step(folder: str, disk: Disk) -> Step:
    descriptor = open_plain(folder)

    async def work(text: str) -> None:
        os.write(descriptor, text.encode() + b"\n")
        await asyncio.to_thread(disk.sync, descriptor)

    return work


def _our_step(session: Any) -> Step:
    async def work(text: str) -> None:
        session.assistant(text)
        await session.aflush()

    return work


class _Watched(selectors.DefaultSelector):  # type: ignore[misc, valid-type]  # chosen by the system
    """A selector that records how long the loop was away from it."""

    def __init__(self) -> None:
        super().__init__()
        self.away_ns: list[int] = []
        self._asked = 0

    def select(self, timeout: float | None = None) -> Any:
        if self._asked:
            self.away_ns.append(time.perf_counter_ns() - self._asked)
        found = super().select(timeout)
        self._asked = time.perf_counter_ns()
        return found


def _away_ms(steps: list[Step], each: int) -> float:
    """Run all of them at once, with a number of steps each, in an observed loop."""
    selector = _Watched()
    texts = [step(number * 4 + 1).text for number in range(each)]

    async def talk(one: Step) -> None:
        for text in texts:
            await one(text)

    async def everyone() -> None:
        await asyncio.gather(*map(talk, steps))

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(asyncio.sleep(0))
        selector.away_ns.clear()
        runner.run(everyone())
        return high(selector.away_ns, _SHARE) / 1e6
