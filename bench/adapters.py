"""Adapters against each framework's own best durable store, like against like, in one run.

Run in the environment of the frameworks: `make bench-peers`. A step is what the framework records
for one turn: a prompt of 200 bytes and an answer of 1,000. Times are the median of all steps; bytes
are those on disk at the end, divided by the steps.
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import sqlite3
import statistics
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

import asyncpg

import holdfast
from bench.server import Server, missing

STEPS = 150
EARLY = 50
PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ADAPTERS.md")
PROMPT, ANSWER = "p" * 200, "a" * 1_000

Step = Callable[[int], Awaitable[None]]
Begin = Callable[[Any], Awaitable[Step]]


class Case(NamedTuple):
    """A framework on one kind of store: how its own begins there, and how ours does."""

    framework: str
    kind: str
    rival: str
    theirs: Begin
    ours: Begin


class Figures(NamedTuple):
    """Of one side: median time of a step, bytes of a step, and how bytes grow with steps."""

    ms: float
    bytes: float
    exponent: float


# -- OpenAI Agents --------------------------------------------------------------------------------


def _items(n: int) -> list[Any]:
    part = {"type": "output_text", "text": ANSWER, "annotations": [], "logprobs": []}
    said = {"id": f"m{n}", "type": "message", "role": "assistant", "status": "completed"}
    return [{"role": "user", "content": PROMPT}, {**said, "content": [part]}]


def _items_into(session: Any) -> Step:
    async def step(n: int) -> None:
        await session.get_items()
        await session.add_items(_items(n))

    return step


async def openai_sqlite(place: str) -> Step:
    from agents import SQLiteSession

    return _items_into(SQLiteSession("s", os.path.join(place, "db")))


async def openai_postgres(place: str) -> Step:
    from agents.extensions.memory import SQLAlchemySession

    url = place.replace("postgresql://", "postgresql+asyncpg://")
    return _items_into(SQLAlchemySession.from_url("s", url=url, create_tables=True))


async def openai_ours(hf: holdfast.Holdfast) -> Step:
    from holdfast.integrations.openai_agents import HoldfastSession

    return _items_into(HoldfastSession("s", hf))


# -- LangGraph ------------------------------------------------------------------------------------


def _graph_on(saver: Any) -> Step:
    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.graph import END, START, MessagesState, StateGraph

    def answer(state: Any) -> Any:
        return {"messages": [AIMessage(ANSWER, id=f"a{len(state['messages'])}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    graph = builder.compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "s"}}

    async def step(n: int) -> None:
        graph.invoke({"messages": [HumanMessage(PROMPT, id=f"h{n}")]}, config, durability="sync")

    return step


async def langgraph_sqlite(place: str) -> Step:
    from langgraph.checkpoint.sqlite import SqliteSaver

    connection = sqlite3.connect(os.path.join(place, "db"), check_same_thread=False)
    return _graph_on(SqliteSaver(connection))


async def langgraph_postgres(place: str) -> Step:
    import psycopg
    from langgraph.checkpoint.postgres import PostgresSaver

    connection = psycopg.connect(
        place, autocommit=True, prepare_threshold=0, row_factory=psycopg.rows.dict_row
    )
    saver = PostgresSaver(connection)
    saver.setup()
    return _graph_on(saver)


async def langgraph_ours(hf: holdfast.Holdfast) -> Step:
    from holdfast.integrations.langgraph import HoldfastSaver

    return _graph_on(HoldfastSaver(hf))


# -- Agent Development Kit ------------------------------------------------------------------------


async def _events_into(service: Any) -> Step:
    from google.adk.events.event import Event
    from google.genai import types

    who: Any = {"app_name": "app", "user_id": "u"}
    session = await service.create_session(**who, session_id="s")

    async def step(_: int) -> None:
        for author, text in (("user", PROMPT), ("agent", ANSWER)):
            content = types.Content(role="user", parts=[types.Part(text=text)])
            await service.append_event(session, Event(author=author, content=content))

    return step


async def adk_sqlite(place: str) -> Step:
    from google.adk.sessions.sqlite_session_service import SqliteSessionService

    return await _events_into(SqliteSessionService(os.path.join(place, "db")))


async def adk_postgres(place: str) -> Step:
    from google.adk.sessions import DatabaseSessionService

    url = place.replace("postgresql://", "postgresql+asyncpg://")
    return await _events_into(DatabaseSessionService(url))


async def adk_ours(hf: holdfast.Holdfast) -> Step:
    from holdfast.integrations.adk import HoldfastSessionService

    return await _events_into(HoldfastSessionService(hf))


# -- Strands --------------------------------------------------------------------------------------


def _messages_into(repository: Any, session: Any) -> Step:
    from strands.types.session import SessionAgent, SessionMessage

    if session is not None:
        repository.create_session(session)
    repository.create_agent("s", SessionAgent("a", {}, {}))

    async def step(n: int) -> None:
        for place, (role, text) in enumerate((("user", PROMPT), ("assistant", ANSWER))):
            message: Any = {"role": role, "content": [{"text": text}]}
            number = 2 * n + place
            repository.create_message("s", "a", SessionMessage.from_message(message, number))
        repository.update_agent("s", SessionAgent("a", {"n": n}, {}))

    return step


async def strands_files(place: str) -> Step:
    from strands.session.file_session_manager import FileSessionManager

    return _messages_into(FileSessionManager("s", storage_dir=place), None)


async def strands_ours(hf: holdfast.Holdfast) -> Step:
    from strands.types.session import Session, SessionType

    from holdfast.integrations.strands import HoldfastSessionRepository

    return _messages_into(HoldfastSessionRepository(hf), Session("s", SessionType.AGENT))


# -- Pydantic AI's harness ------------------------------------------------------------------------


def _snapshots_into(store: Any) -> Step:
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart
    from pydantic_ai_harness.step_persistence import ContinuableSnapshot

    messages: list[Any] = []

    async def step(n: int) -> None:
        messages.append(ModelRequest(parts=[UserPromptPart(PROMPT)]))
        messages.append(ModelResponse(parts=[TextPart(ANSWER)]))
        snapshot = ContinuableSnapshot(run_id="s", step_index=n, messages=list(messages))
        await store.save_snapshot(snapshot)

    return step


async def pydantic_files(place: str) -> Step:
    from pydantic_ai_harness.step_persistence import FileStepStore

    return _snapshots_into(FileStepStore(place))


async def pydantic_sqlite(place: str) -> Step:
    from pydantic_ai_harness.step_persistence import SqliteStepStore

    return _snapshots_into(SqliteStepStore(database=os.path.join(place, "db")))


async def pydantic_postgres(place: str) -> Step:
    from pydantic_ai_harness.step_persistence import PostgresStepStore

    return _snapshots_into(PostgresStepStore(await asyncpg.create_pool(place)))


async def pydantic_ours(hf: holdfast.Holdfast) -> Step:
    from holdfast.integrations.pydantic_ai import HoldfastStepStore

    return _snapshots_into(HoldfastStepStore(hf))


# -- Agent Framework ------------------------------------------------------------------------------


def _history_into(provider: Any) -> Step:
    from agent_framework import Message

    async def step(_: int) -> None:
        await provider.get_messages("s")
        said = [Message("user", [PROMPT]), Message("assistant", [ANSWER])]
        await provider.save_messages("s", said)

    return step


async def agent_framework_files(place: str) -> Step:
    from agent_framework import FileHistoryProvider

    return _history_into(FileHistoryProvider(place))


async def agent_framework_ours(hf: holdfast.Holdfast) -> Step:
    from holdfast.integrations.agent_framework import HoldfastHistoryProvider

    return _history_into(HoldfastHistoryProvider(hf))


CASES = [
    Case("OpenAI Agents", "sqlite", "SQLiteSession", openai_sqlite, openai_ours),
    Case("OpenAI Agents", "postgres", "SQLAlchemySession", openai_postgres, openai_ours),
    Case("LangGraph", "sqlite", "SqliteSaver", langgraph_sqlite, langgraph_ours),
    Case("LangGraph", "postgres", "PostgresSaver", langgraph_postgres, langgraph_ours),
    Case("ADK", "sqlite", "SqliteSessionService", adk_sqlite, adk_ours),
    Case("ADK", "postgres", "DatabaseSessionService", adk_postgres, adk_ours),
    Case("Strands", "files", "FileSessionManager", strands_files, strands_ours),
    Case("Pydantic AI", "files", "FileStepStore", pydantic_files, pydantic_ours),
    Case("Pydantic AI", "sqlite", "SqliteStepStore", pydantic_sqlite, pydantic_ours),
    Case("Pydantic AI", "postgres", "PostgresStepStore", pydantic_postgres, pydantic_ours),
    Case(
        "Agent Framework",
        "files",
        "FileHistoryProvider",
        agent_framework_files,
        agent_framework_ours,
    ),
]


# -- measuring ------------------------------------------------------------------------------------


async def measured(begin: Begin, place: Any, size: Callable[[], Awaitable[int]]) -> Figures:
    """One conversation of STEPS steps."""
    step = await begin(place)
    empty, spent, early = await size(), [], 1
    for n in range(STEPS):
        started = time.perf_counter()
        await step(n)
        spent.append(time.perf_counter() - started)
        if n + 1 == EARLY:
            early = await size() - empty
    whole = await size() - empty
    exponent = math.log(max(whole, 1) / max(early, 1), STEPS / EARLY)
    return Figures(statistics.median(spent) * 1000, whole / STEPS, exponent)


async def on_disk(begin: Begin, folder: str, place: Any) -> Figures:
    """A side whose bytes are files."""

    async def size() -> int:
        found = 0
        for base, _, names in os.walk(folder):
            if "db" in names:
                connection = sqlite3.connect(os.path.join(base, "db"), timeout=0.1)
                with suppress(sqlite3.OperationalError):
                    connection.execute("pragma wal_checkpoint(truncate)")
                connection.close()
            for name in names:
                with suppress(FileNotFoundError):
                    if name.startswith("catalog"):
                        continue
                    found += os.stat(os.path.join(base, name)).st_size
        return found

    return await measured(begin, place, size)


_SIZES = """
    select sum(pg_total_relation_size(oid)) from pg_class
    where relkind = 'r' and relname not like 'catalog%'
    and relnamespace not in (select oid from pg_namespace where nspname like any ('{pg_%,info%}'))
"""


async def on_server(
    begin: Begin, server: Server, name: str, opened: Callable[[str], Any]
) -> Figures:
    """A side whose bytes are those of a database."""
    admin = await asyncpg.connect(server.url)
    await admin.execute(f"create database {name}")
    await admin.close()
    url = server.url.rpartition("/")[0] + f"/{name}"

    async def size() -> int:
        inside = await asyncpg.connect(url)
        found = await inside.fetchval(_SIZES)
        await inside.close()
        return int(found or 0)

    place = opened(url)
    try:
        return await measured(begin, place, size)
    finally:
        if isinstance(place, holdfast.Holdfast):
            place.close()


async def compare(case: Case, number: int, server: Server | None) -> tuple[Figures, Figures] | None:
    """Theirs and ours, one after the other in the same minute."""
    if case.kind == "postgres":
        if server is None:
            return None
        theirs = await on_server(case.theirs, server, f"theirs{number}", lambda url: url)
        return theirs, await on_server(case.ours, server, f"ours{number}", holdfast.open)
    folder = tempfile.mkdtemp(prefix="holdfast-adapters-")
    try:
        mine, other = os.path.join(folder, "ours"), os.path.join(folder, "theirs")
        os.makedirs(mine)
        os.makedirs(other)
        theirs = await on_disk(case.theirs, other, other)
        url = f"sqlite:///{mine}/db" if case.kind == "sqlite" else mine
        with holdfast.open(url) as hf:
            return theirs, await on_disk(case.ours, mine, hf)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_HEAD = """\
# Adapters and the frameworks' own stores

Written by `make bench-peers`; do not edit. {steps} steps of a prompt of 200 bytes and an answer of
1,000; times are medians of a step, bytes those on disk at the end for each step, the exponent how
bytes grow from {early} steps to {steps}. Ours is on the medium when a call returns; the frameworks'
stores on files do not sync. The catalogue, which can be made again at any time, is not counted.
Holdfast {version}.

| framework | store | theirs | ms: theirs | ours | bytes: theirs | ours | exponent: theirs | ours |
|---|---|---|--:|--:|--:|--:|--:|--:|
"""


def row(case: Case, theirs: Figures, ours: Figures) -> str:
    cells = [case.framework, case.kind, f"`{case.rival}`"]
    cells += [f"{theirs.ms:.2f}", f"{ours.ms:.2f}", f"{theirs.bytes:,.0f}", f"{ours.bytes:,.0f}"]
    cells += [f"{theirs.exponent:.2f}", f"{ours.exponent:.2f}"]
    return "| " + " | ".join(cells) + " |"


async def main() -> str:
    warnings.simplefilter("ignore")
    chosen = os.environ.get("ADAPTERS", "").lower()
    server = None if missing() else Server()
    if server is not None:
        server.start()
    head = _HEAD.format(steps=STEPS, early=EARLY, version=holdfast.__version__)
    print(head, end="")
    rows = []
    try:
        for number, case in enumerate(CASES):
            if chosen in f"{case.framework} {case.kind}".lower():
                found = await compare(case, number, server)
                if found is not None:
                    rows.append(row(case, *found))
                    print(rows[-1], flush=True)
    finally:
        if server is not None:
            server.stop()
    return "" if chosen else head + "\n".join(rows) + "\n"


if __name__ == "__main__":
    table = asyncio.run(main())
    if table:
        with open(PATH, "w", encoding="utf-8") as file:
            file.write(table)
