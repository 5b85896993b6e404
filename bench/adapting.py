"""``python -m bench.adapting``: frameworks on their own stores and on ours, step by step.

It runs in the environment of the frameworks and answers tasks, a line of JSON each; `bench.peers`
asks it. Steps of both sides alternate, so that both see the same machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

import holdfast
from bench.adapters import CASES, Case, Step
from bench.rivals.serving import answer, on_disk, written

__all__: list[str] = []

SAMPLES = (50, 100, 200, 400)


class Side:
    """One side: its steps, their times, and the bytes they wrote."""

    def __init__(self, name: str, step: Step, size: Callable[[], Awaitable[int]]) -> None:
        self.name = name
        self._step, self._size = step, size
        self._spent: list[int] = []
        self._written = 0
        self._sizes: dict[int, int] = {}
        self._empty = 0

    async def begin(self) -> None:
        """Take the first step, which is not counted because it also initialises the store."""
        await self._step(0)
        self._empty = await self._size()

    async def go(self, number: int) -> None:
        """Take one step."""
        before = written()
        begin = time.perf_counter_ns()
        await self._step(number)
        self._spent.append(time.perf_counter_ns() - begin)
        self._written += written() - before
        if number in SAMPLES:
            await self._look(number)

    async def _look(self, number: int) -> None:
        self._sizes[number] = await self._size() - self._empty

    async def figures(self) -> dict[str, Any]:
        """Return all figures."""
        await self._look(len(self._spent))
        return {"spent": self._spent, "sizes": self._sizes, "written": self._written}


async def _work(task: dict[str, Any]) -> dict[str, Any]:
    """Alternate steps of the chosen sides until the time is up."""
    case = CASES[task["case"]]
    sides = [await _side(case, name, where) for name, where in task["sides"].items()]
    until = time.monotonic() + task["seconds"]
    for side in sides:
        await side.begin()
    if task.get("in_turn"):  # one after the other, for who counts calls between the marks
        for side in sides:
            os.getppid()
            for number in range(1, task["steps"] + 1):
                await side.go(number)
            os.getppid()
        return {}
    for number in range(1, task["steps"] + 1):
        for side in sides[:: 1 if number % 2 else -1]:
            await side.go(number)
        if time.monotonic() > until:
            break
    return {side.name: await side.figures() for side in sides}


async def _side(case: Case, name: str, where: str) -> Side:
    """``theirs``, ``ours``, or ``ours-os``: ours without syncs of its own."""
    if case.kind == "postgres":

        async def size() -> int:
            return await _of_database(where)
    else:

        async def size() -> int:
            return on_disk(where)

    if name == "theirs":
        return Side(name, await case.theirs(where), size)
    url = f"sqlite:///{where}/db" if case.kind == "sqlite" else where
    config = {"durability": "os"} if name == "ours-os" else {}
    return Side(name, await case.ours(holdfast.open(url, config=config)), size)


_SIZES = """
    select sum(pg_total_relation_size(oid)) from pg_class
    where relkind = 'r' and relname not like 'catalog%'
    and relnamespace not in (select oid from pg_namespace where nspname like any ('{pg_%,info%}'))
"""


async def _of_database(url: str) -> int:
    import asyncpg

    connection = await asyncpg.connect(url)
    found = await connection.fetchval(_SIZES)
    await connection.close()
    return int(found or 0)


if __name__ == "__main__":
    answer(_work)
