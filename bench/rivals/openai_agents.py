"""OpenAI Agents: ``SQLiteSession.add_items``, one item at a time, as a run adds them."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from agents import SQLiteSession

from bench.rivals import Task, serve


async def work(task: Task) -> Any:
    """Run one session; then many at once."""
    path = os.path.join(task["folder"], "sessions.db")
    session = SQLiteSession("one", path)
    spent = []
    for text in task["texts"]:
        begin = time.perf_counter_ns()
        await session.add_items([{"role": "user", "content": text}])
        spent.append(time.perf_counter_ns() - begin)
    many = [SQLiteSession(f"many-{number}", path) for number in range(task["sessions"])]
    begin = time.perf_counter_ns()
    await asyncio.gather(*(_talk(one, task["texts"][: task["each"]]) for one in many))
    seconds = (time.perf_counter_ns() - begin) / 1e9
    return {"append_ns": sorted(spent)[len(spent) // 2], "many_per_s": task["sessions"] * task["each"] / seconds}


async def _talk(session: SQLiteSession, texts: list[str]) -> None:
    for text in texts:
        await session.add_items([{"role": "user", "content": text}])


if __name__ == "__main__":
    serve(lambda task: asyncio.run(work(task)))
