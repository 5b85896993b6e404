"""The adapters on our store against the frameworks on their own stores, driven by the same code.

A step is what the framework records for one turn: a prompt of 200 bytes and an answer of 1,000.
`bench.adapting` drives them, in the environment of the frameworks.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import holdfast

__all__ = ["CASES", "Case", "Step"]

PROMPT, ANSWER = "p" * 200, "a" * 1_000

Step = Callable[[int], Awaitable[None]]
Begin = Callable[[Any], Awaitable[Step]]


class Case(NamedTuple):
    """A framework on one kind of store: the functions that start its own store, and ours."""

    framework: str
    kind: str
    rival: str
    theirs: Begin
    ours: Begin
    syncs: bool = True
    """True if the framework's own store waits for the disk; if not, ours need not either."""


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


def _graph_on(saver: Any, state: Any = None) -> Step:
    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.graph import END, START, MessagesState, StateGraph

    def answer(state: Any) -> Any:
        return {"messages": [AIMessage(ANSWER, id=f"a{len(state['messages'])}")]}

    builder = StateGraph(state or MessagesState)
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

    connection = psycopg.connect(place, autocommit=True, prepare_threshold=0, row_factory=psycopg.rows.dict_row)
    saver = PostgresSaver(connection)
    saver.setup()
    return _graph_on(saver)


async def langgraph_ours(hf: holdfast.Holdfast) -> Step:
    from holdfast.integrations.langgraph import HoldfastSaver

    return _graph_on(HoldfastSaver(hf))


def _delta_state() -> Any:
    """Return a delta channel for messages: only new messages are stored at each step."""
    from typing import Annotated, TypedDict

    from langgraph.channels.delta import DeltaChannel

    def joined(state: list[Any] | None, writes: list[Any]) -> list[Any]:
        return [*(state or []), *(one for write in writes for one in write)]

    return TypedDict("state", {"messages": Annotated[list, DeltaChannel(joined)]})


async def delta_sqlite(place: str) -> Step:
    from langgraph.checkpoint.sqlite import SqliteSaver

    connection = sqlite3.connect(os.path.join(place, "db"), check_same_thread=False)
    return _graph_on(SqliteSaver(connection), _delta_state())


async def delta_ours(hf: holdfast.Holdfast) -> Step:
    from holdfast.integrations.langgraph import HoldfastSaver

    return _graph_on(HoldfastSaver(hf), _delta_state())


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
    import asyncpg
    from pydantic_ai_harness.step_persistence import PostgresStepStore

    return _snapshots_into(PostgresStepStore(await asyncpg.create_pool(place)))


async def pydantic_ours(hf: holdfast.Holdfast) -> Step:
    from holdfast.integrations.pydantic_ai import HoldfastStepStore

    return _snapshots_into(HoldfastStepStore(hf))


# -- Agent Framework ------------------------------------------------------------------------------


def _history_into(provider: Any) -> Step:
    from agent_framework import Message

    async def step(n: int) -> None:
        await provider.get_messages("s")
        # A new one at each step, since the framework's provider skips messages that it has already.
        said = [Message("user", [f"{n:08d}{PROMPT[8:]}"]), Message("assistant", [f"{n:08d}{ANSWER[8:]}"])]
        await provider.save_messages("s", said)

    return step


async def agent_framework_files(place: str) -> Step:
    from agent_framework import FileHistoryProvider

    return _history_into(FileHistoryProvider(place))


async def agent_framework_ours(hf: holdfast.Holdfast) -> Step:
    from holdfast.integrations.agent_framework import HoldfastHistoryProvider

    return _history_into(HoldfastHistoryProvider(hf))


CASES: dict[str, Case] = {
    "openai-sqlite": Case("OpenAI Agents", "sqlite", "SQLiteSession", openai_sqlite, openai_ours),
    "openai-postgres": Case("OpenAI Agents", "postgres", "SQLAlchemySession", openai_postgres, openai_ours),
    "langgraph-sqlite": Case("LangGraph", "sqlite", "SqliteSaver", langgraph_sqlite, langgraph_ours),
    "langgraph-delta": Case("LangGraph, delta channel", "sqlite", "SqliteSaver", delta_sqlite, delta_ours),
    "langgraph-postgres": Case("LangGraph", "postgres", "PostgresSaver", langgraph_postgres, langgraph_ours),
    "adk-sqlite": Case("ADK", "sqlite", "SqliteSessionService", adk_sqlite, adk_ours),
    "adk-postgres": Case("ADK", "postgres", "DatabaseSessionService", adk_postgres, adk_ours),
    "strands-files": Case("Strands", "files", "FileSessionManager", strands_files, strands_ours, syncs=False),
    "pydantic-files": Case("Pydantic AI", "files", "FileStepStore", pydantic_files, pydantic_ours, syncs=False),
    "pydantic-sqlite": Case("Pydantic AI", "sqlite", "SqliteStepStore", pydantic_sqlite, pydantic_ours),
    "pydantic-postgres": Case("Pydantic AI", "postgres", "PostgresStepStore", pydantic_postgres, pydantic_ours),
    "agent-framework-files": Case(
        "Agent Framework", "files", "FileHistoryProvider", agent_framework_files, agent_framework_ours, syncs=False
    ),
}
