"""Google ADK: ``SqliteSessionService.list_sessions``, which has no pages and gives all sessions."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from google.adk.sessions.sqlite_session_service import SqliteSessionService

from bench.rivals import Task, serve

_OF = {"app_name": "bench", "user_id": "bench"}


async def work(task: Task) -> Any:
    """Fill a database, list it."""
    service = SqliteSessionService(os.path.join(task["folder"], "adk.db"))
    for number, turns in enumerate(task["sessions"]):
        # Without events: the list does not read them, and appending takes a minute.
        state = {"title": turns[0][0][:60]}
        await service.create_session(**_OF, session_id=f"session-{number:07d}", state=state)
    spent = []
    for _ in range(21):
        begin = time.perf_counter_ns()
        found = await service.list_sessions(**_OF)
        newest = sorted(found.sessions, key=lambda one: -one.last_update_time)[: task["page"]]
        spent.append(time.perf_counter_ns() - begin)
        assert len(newest) == task["page"]
    return {"list_ns": sorted(spent[1:])[len(spent) // 2]}


if __name__ == "__main__":
    serve(lambda task: asyncio.run(work(task)))
