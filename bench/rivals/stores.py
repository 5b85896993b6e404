"""Stores of others, each driven as its documentation shows: one message after the other.

``python -m bench.rivals.stores`` answers tasks, a line of JSON each, until its input ends. Imports
are made when a store is first asked for; nothing of Holdfast is imported unless it is asked for.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sqlite3
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["STORES", "Store"]

Step = Callable[[str, str], Any]
"""Stores one message, given its role and its text; what it returns is awaited if it can be."""


class Store(NamedTuple):
    """One rival: what people call it, on what it stores, how it begins, and where it can be had."""

    name: str
    kind: str
    begin: Callable[[str], Any]
    place: str = "frameworks"
    syncs: bool = True
    """Whether it waits for the disk as it is shipped."""


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
    """A checkpoint with all messages for each one that is added, as a graph's step writes it."""
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

    saver = PostgresSaver(
        psycopg.connect(url, autocommit=True, prepare_threshold=0, row_factory=dict_row)
    )
    saver.setup()
    return _checkpoints(saver)


def langgraph_delta(folder: str) -> Step:
    """A graph whose messages are a delta channel; one call of it for each message."""
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
    """A run of four messages, stored after each of them."""
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
    """All messages as one JSON document, written beside and moved, as many programs do it."""
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
    """The floor: a line of JSON, written; and synced, if it is to be."""
    path = os.path.join(folder, "lines")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

    def step(role: str, text: str) -> None:
        os.write(descriptor, encode({"role": role, "content": text}).encode() + b"\n")
        if _is_durable:
            os.fdatasync(descriptor)

    return step


def ours(where: str) -> Step:
    import holdfast

    session = holdfast.open(where).session("s")

    def step(role: str, text: str) -> None:
        (session.user if role == "user" else session.assistant)(text)
        if _is_durable:
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
    "agent-framework": Store(
        "Agent Framework, FileHistoryProvider", "files", agent_framework_files, syncs=False
    ),
    "harness-files": Store("Pydantic AI, FileStepStore", "files", harness_files, syncs=False),
    "langchain-file": Store(
        "LangChain, FileChatMessageHistory", "files", langchain_file, "peers", syncs=False
    ),
    "whole-file": Store("the whole history as one JSON file", "files", whole_file, syncs=False),
    "openai-sqlite": Store("OpenAI Agents, SQLiteSession", "sqlite", openai_sqlite, "both"),
    "openai-advanced": Store(
        "OpenAI Agents, AdvancedSQLiteSession", "sqlite", openai_advanced, "both"
    ),
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

_is_durable = True


def _without_syncs() -> None:
    """Every SQLite connection from now on waits for nothing: kinder than anybody is in earnest."""
    really = sqlite3.connect

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = really(*arguments, **options)
        if not _is_durable:
            connection.execute("pragma synchronous=off")
        return connection

    sqlite3.connect = sqlite3.dbapi2.connect = connect  # type: ignore[assignment]


async def _work(task: dict[str, Any]) -> dict[str, Any]:
    """Store messages until there are so many, or the time is up."""
    global _is_durable  # noqa: PLW0603 - what is patched asks for it
    _is_durable = task["durable"]
    with tempfile.TemporaryDirectory(dir=task["folder"], ignore_cleanup_errors=True) as folder:
        step = STORES[task["store"]].begin(task.get("url") or folder)
        if inspect.isawaitable(step):
            step = await step
        return await _measured(step, task, folder)


async def _measured(step: Step, task: dict[str, Any], folder: str) -> dict[str, Any]:
    texts = task["texts"]
    roles = ("user", "assistant")
    spent: list[int] = []
    sizes: dict[int, tuple[int, int, int]] = {}
    payload = 0
    until = time.monotonic() + task["seconds"]
    await _one(step, "user", "the first message makes what is needed")
    begin_written, begin_disk = _written(), _on_disk(folder)
    os.getppid()  # seen by who counts calls
    for number in range(task["count"]):
        role, text = roles[number % 2], texts[number % len(texts)]
        begin = time.perf_counter_ns()
        await _one(step, role, text)
        spent.append(time.perf_counter_ns() - begin)
        payload += len(text.encode())
        if number + 1 in (100, 200, 500, 1_000):
            now = (_written() - begin_written, _on_disk(folder) - begin_disk, payload)
            sizes[number + 1] = now
        if time.monotonic() > until:
            break
    os.getppid()
    sizes[len(spent)] = (_written() - begin_written, _on_disk(folder) - begin_disk, payload)
    return {"spent": spent, "sizes": sizes}


async def _one(step: Step, role: str, text: str) -> None:
    done = step(role, text)
    if inspect.isawaitable(done):
        await done


def _written() -> int:
    with open("/proc/self/io", "rb") as file:
        rows = dict(row.split(b":") for row in file)
    return int(rows[b"wchar"])


def _on_disk(folder: str) -> int:
    """The bytes of all files; of a SQLite database those of its pages, wherever they are now."""
    found = 0
    for base, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(base, name)
            if name == "db":
                found += _pages(path)
            elif not name.startswith(("db-", "catalog")):
                try:
                    found += os.stat(path).st_size
                except FileNotFoundError:
                    continue
    return found


def _pages(path: str) -> int:
    connection = sqlite3.connect(path, timeout=2)
    try:
        counts = ("page_count", "freelist_count", "page_size")
        pages, free, size = (connection.execute(f"pragma {name}").fetchone()[0] for name in counts)
        return (pages - free) * size
    finally:
        connection.close()


def main() -> None:
    """Answer until the input ends."""
    warnings.simplefilter("ignore")
    _without_syncs()
    # Libraries like to print; the answers must stay readable.
    answers, sys.stdout = sys.stdout, sys.stderr
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            try:
                found = runner.run(_work(json.loads(line)))
            except Exception as error:  # noqa: BLE001 - whoever asked is told
                found = {"failed": f"{type(error).__name__}: {error}"[:300]}
            answers.write(json.dumps(found) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
    os._exit(0)  # threads of libraries must not keep it
