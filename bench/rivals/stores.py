"""Stores of others, each used as its documentation shows: one message after another.

Imports are made when a store is first asked for; nothing of Holdfast is imported unless it is asked
for. `bench.rivals.serving` drives them.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["MODE", "STORES", "Step", "Store"]

Step = Callable[[str, str], Any]
"""Stores one message, given its role and its text; may return an awaitable."""


class _Mode:
    """The durability of the stores: True if they wait for the disk."""

    is_durable = True


MODE = _Mode()


class Store(NamedTuple):
    """One rival: its name, its kind of store, its start function, and its package."""

    name: str
    kind: str
    begin: Callable[[str], Any]
    place: str = "frameworks"
    syncs: bool = True
    """True if it waits for the disk by default."""


# -- OpenAI Agents --------------------------------------------------------------------------------


def _items(session: Any) -> Step:
    return lambda role, text: session.add_items([{"role": role, "content": text}])


def openai_sqlite(folder: str) -> Step:
    from agents import SQLiteSession

    return _items(SQLiteSession("s", os.path.join(folder, "db")))


def openai_advanced(folder: str) -> Step:
    from agents.extensions.memory import AdvancedSQLiteSession

    path = os.path.join(folder, "db")
    return _items(AdvancedSQLiteSession(session_id="s", db_path=path, create_tables=True))


def openai_sqlalchemy(folder: str) -> Step:
    from agents.extensions.memory import SQLAlchemySession

    url = f"sqlite+aiosqlite:///{folder}/db"
    return _items(SQLAlchemySession.from_url("s", url=url, create_tables=True))


def openai_postgres(url: str) -> Step:
    from agents.extensions.memory import SQLAlchemySession

    url = url.replace("postgresql://", "postgresql+asyncpg://")
    return _items(SQLAlchemySession.from_url("s", url=url, create_tables=True))


# -- LangGraph ------------------------------------------------------------------------------------


def _checkpoints(saver: Any) -> Step:
    """Return a step that stores a checkpoint with all messages for each added one, as a graph's step does."""
    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.base.id import uuid6

    messages: list[Any] = []
    config: Any = {"configurable": {"thread_id": "s", "checkpoint_ns": ""}}

    def step(role: str, text: str) -> None:
        nonlocal config
        number = len(messages) + 1
        said = (HumanMessage if role == "user" else AIMessage)(text, id=f"m{number}")
        if number > 1:
            saver.put_writes(config, [("messages", [said])], f"task-{number}")
        messages.append(said)
        checkpoint = {
            **empty_checkpoint(),
            "id": str(uuid6(clock_seq=number)),
            "channel_values": {"messages": list(messages)},
            "channel_versions": {"messages": number},
        }
        about: Any = {"source": "loop", "step": number}
        config = saver.put(config, checkpoint, about, {"messages": number})

    return step


def langgraph_sqlite(folder: str) -> Step:
    from langgraph.checkpoint.sqlite import SqliteSaver

    connection = sqlite3.connect(os.path.join(folder, "db"), check_same_thread=False)
    return _checkpoints(SqliteSaver(connection))


def langgraph_postgres(url: str) -> Step:
    import psycopg
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg.rows import dict_row

    saver = PostgresSaver(psycopg.connect(url, autocommit=True, prepare_threshold=0, row_factory=dict_row))
    saver.setup()
    return _checkpoints(saver)


def langgraph_delta(folder: str) -> Step:
    """Return a step that calls a graph whose messages are a delta channel, once for each message."""
    from typing import Annotated, TypedDict

    from langchain_core.messages import HumanMessage
    from langgraph.channels.delta import DeltaChannel
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph

    def joined(state: list[Any] | None, writes: list[Any]) -> list[Any]:
        return [*(state or []), *(one for write in writes for one in write)]

    state: Any = TypedDict("state", {"messages": Annotated[list, DeltaChannel(joined)]})
    builder = StateGraph(state)
    builder.add_node("nothing", lambda _: {})
    builder.add_edge(START, "nothing")
    builder.add_edge("nothing", END)
    connection = sqlite3.connect(os.path.join(folder, "db"), check_same_thread=False)
    graph = builder.compile(checkpointer=SqliteSaver(connection))
    config: Any = {"configurable": {"thread_id": "s"}}

    def step(_role: str, text: str) -> None:
        graph.invoke({"messages": [HumanMessage(text)]}, config, durability="sync")

    return step


# -- Agent Development Kit ------------------------------------------------------------------------


async def _events(service: Any) -> Step:
    from google.adk.events.event import Event
    from google.genai import types

    session = await service.create_session(app_name="app", user_id="u", session_id="s")

    async def step(role: str, text: str) -> None:
        content = types.Content(role=role, parts=[types.Part(text=text)])
        author = "user" if role == "user" else "agent"
        await service.append_event(session, Event(author=author, content=content))

    return step


def adk_sqlite(folder: str) -> Any:
    from google.adk.sessions.sqlite_session_service import SqliteSessionService

    return _events(SqliteSessionService(os.path.join(folder, "db")))


def adk_database(folder: str) -> Any:
    from google.adk.sessions import DatabaseSessionService

    return _events(DatabaseSessionService(f"sqlite+aiosqlite:///{folder}/db"))


def adk_postgres(url: str) -> Any:
    from google.adk.sessions import DatabaseSessionService

    return _events(DatabaseSessionService(url.replace("postgresql://", "postgresql+asyncpg://")))


# -- Strands --------------------------------------------------------------------------------------


def strands_files(folder: str) -> Step:
    from strands.session.file_session_manager import FileSessionManager
    from strands.types.session import SessionAgent, SessionMessage

    manager = FileSessionManager("s", storage_dir=folder)
    manager.create_agent("s", SessionAgent("a", {}, {}))
    number = -1

    def step(role: str, text: str) -> None:
        nonlocal number
        number += 1
        message: Any = {"role": role, "content": [{"text": text}]}
        manager.create_message("s", "a", SessionMessage.from_message(message, number))

    return step


# -- agno, llm, LangChain -------------------------------------------------------------------------


def agno_sqlite(folder: str) -> Step:
    """Return a step that stores a run of four messages after each of them."""
    from agno.db.sqlite import SqliteDb
    from agno.models.message import Message
    from agno.run.agent import RunOutput
    from agno.session.agent import AgentSession

    db = SqliteDb(db_file=os.path.join(folder, "db"))
    db.upsert_session(AgentSession(session_id="s", agent_id="a", created_at=1, updated_at=1))
    messages: list[Any] = []
    number = 0

    def step(role: str, text: str) -> None:
        nonlocal number
        if len(messages) == 4:
            messages.clear()
            number += 1
        messages.append(Message(role=role, content=text))
        run = RunOutput(run_id=f"r{number}", agent_id="a", session_id="s", messages=list(messages))
        db.upsert_run(run, "s", run_index=number)

    return step


def llm_logs(folder: str) -> Step:
    import sqlite_utils
    from llm import Message
    from llm.logs import LogStore
    from llm.parts import TextPart

    store = LogStore(sqlite_utils.Database(os.path.join(folder, "db")))
    store.ensure_thread("s", name="s")

    def step(role: str, text: str) -> None:
        store.append("s", [Message(role=role, parts=[TextPart(text)])])

    return step


def _history(history: Any) -> Step:
    from langchain_core.messages import AIMessage, HumanMessage

    def step(role: str, text: str) -> None:
        history.add_messages([(HumanMessage if role == "user" else AIMessage)(text)])

    return step


def langchain_sql(folder: str) -> Step:
    from langchain_community.chat_message_histories import SQLChatMessageHistory

    return _history(SQLChatMessageHistory("s", connection=f"sqlite:///{folder}/db"))


def langchain_file(folder: str) -> Step:
    from langchain_community.chat_message_histories import FileChatMessageHistory

    return _history(FileChatMessageHistory(os.path.join(folder, "messages.json")))


# -- Pydantic AI's harness, Agent Framework, a file by hand ---------------------------------------


def _snapshots(store: Any) -> Step:
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart
    from pydantic_ai_harness.step_persistence import ContinuableSnapshot

    messages: list[Any] = []

    async def step(role: str, text: str) -> None:
        if role == "user":
            messages.append(ModelRequest(parts=[UserPromptPart(text)]))
        else:
            messages.append(ModelResponse(parts=[TextPart(text)]))
        said = ContinuableSnapshot(run_id="s", step_index=len(messages), messages=list(messages))
        await store.save_snapshot(said)

    return step


def harness_files(folder: str) -> Step:
    from pydantic_ai_harness.step_persistence import FileStepStore

    return _snapshots(FileStepStore(folder))


def harness_sqlite(folder: str) -> Step:
    from pydantic_ai_harness.step_persistence import SqliteStepStore

    return _snapshots(SqliteStepStore(database=os.path.join(folder, "db")))


def agent_framework_files(folder: str) -> Step:
    from agent_framework import FileHistoryProvider, Message

    provider = FileHistoryProvider(folder)
    return lambda role, text: provider.save_messages("s", [Message(role, [text])])


def whole_file(folder: str) -> Step:
    """Return a step that replaces one JSON document with all messages, as many programs do."""
    messages: list[Any] = []
    path = os.path.join(folder, "messages.json")

    def step(role: str, text: str) -> None:
        messages.append({"role": role, "content": text})
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump(messages, file)
        os.replace(f"{path}.new", path)

    return step


# -- ours, and what any store must do -------------------------------------------------------------


def plain(folder: str) -> Step:
    """Return the step of the floor: a line of JSON, written; and synced if required."""
    path = os.path.join(folder, "lines")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

    def step(role: str, text: str) -> None:
        os.write(descriptor, encode({"role": role, "content": text}).encode() + b"\n")
        if MODE.is_durable:
            os.fdatasync(descriptor)

    return step


def ours(where: str) -> Step:
    import holdfast

    session = holdfast.open(where).session("s")

    def step(role: str, text: str) -> None:
        (session.user if role == "user" else session.assistant)(text)
        if MODE.is_durable:
            session.flush()

    return step


def ours_sqlite(folder: str) -> Step:
    return ours(f"sqlite:///{folder}/db")


STORES: dict[str, Store] = {
    "plain": Store("a line written (the floor)", "files", plain),
    "holdfast-files": Store("Holdfast", "files", ours),
    "holdfast-sqlite": Store("Holdfast", "sqlite", ours_sqlite),
    "holdfast-postgres": Store("Holdfast", "postgres", ours),
    "strands": Store("Strands, FileSessionManager", "files", strands_files, syncs=False),
    "agent-framework": Store("Agent Framework, FileHistoryProvider", "files", agent_framework_files, syncs=False),
    "harness-files": Store("Pydantic AI, FileStepStore", "files", harness_files, syncs=False),
    "langchain-file": Store("LangChain, FileChatMessageHistory", "files", langchain_file, "peers", syncs=False),
    "whole-file": Store("the whole history as one JSON file", "files", whole_file, syncs=False),
    "openai-sqlite": Store("OpenAI Agents, SQLiteSession", "sqlite", openai_sqlite, "both"),
    "openai-advanced": Store("OpenAI Agents, AdvancedSQLiteSession", "sqlite", openai_advanced, "both"),
    "openai-sqlalchemy": Store("OpenAI Agents, SQLAlchemySession", "sqlite", openai_sqlalchemy),
    "langgraph-sqlite": Store("LangGraph, SqliteSaver", "sqlite", langgraph_sqlite),
    "langgraph-delta": Store("LangGraph, SqliteSaver, delta channel", "sqlite", langgraph_delta),
    "adk-sqlite": Store("Google ADK, SqliteSessionService", "sqlite", adk_sqlite),
    "adk-database": Store("Google ADK, DatabaseSessionService", "sqlite", adk_database),
    "harness-sqlite": Store("Pydantic AI, SqliteStepStore", "sqlite", harness_sqlite),
    "agno": Store("agno, SqliteDb", "sqlite", agno_sqlite, "peers"),
    "llm": Store("llm, LogStore", "sqlite", llm_logs, "peers"),
    "langchain-sql": Store("LangChain, SQLChatMessageHistory", "sqlite", langchain_sql, "peers"),
    "openai-postgres": Store("OpenAI Agents, SQLAlchemySession", "postgres", openai_postgres),
    "langgraph-postgres": Store("LangGraph, PostgresSaver", "postgres", langgraph_postgres),
    "adk-postgres": Store("Google ADK, DatabaseSessionService", "postgres", adk_postgres),
}
