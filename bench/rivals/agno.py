"""agno: ``SqliteDb.get_sessions``, the newest first, with and without their runs."""

from __future__ import annotations

import os
from typing import Any

from agno.db.base import SessionType
from agno.db.sqlite import SqliteDb
from agno.models.message import Message
from agno.run.agent import RunOutput
from agno.session.agent import AgentSession

from bench.rivals import Task, median_ns, serve


def work(task: Task) -> Any:
    """Fill a database, list a page of it."""
    db = SqliteDb(db_file=os.path.join(task["folder"], "agno.db"))
    for number, turns in enumerate(task["sessions"]):
        db.upsert_session(_session(number, turns))

    def page(*, runs: bool) -> list[Any]:
        return db.get_sessions(
            session_type=SessionType.AGENT,
            limit=task["page"],
            page=1,
            sort_by="updated_at",
            sort_order="desc",
            include_runs=runs,
        )

    assert len(page(runs=False)) == task["page"]
    return {"list_ns": median_ns(lambda: page(runs=False))}


def _session(number: int, turns: list[list[str]]) -> AgentSession:
    id = f"session-{number:07d}"
    runs = [
        RunOutput(
            run_id=f"{id}-{turn}",
            agent_id="bench",
            session_id=id,
            content=said[1],
            messages=[Message(role="user", content=said[0]), Message(role="assistant", content=said[1])],
        )
        for turn, said in enumerate(turns)
    ]
    return AgentSession(
        session_id=id,
        agent_id="bench",
        session_data={"session_name": turns[0][0][:60]},
        runs=runs,
        created_at=1_700_000_000 + number,
        updated_at=1_700_000_000 + number,
    )


if __name__ == "__main__":
    serve(work)
