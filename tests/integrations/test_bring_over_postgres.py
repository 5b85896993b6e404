"""Data of the frameworks' own tables in PostgreSQL, brought over through their own classes."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import asyncpg
import pytest
from agents.extensions.memory import SQLAlchemySession
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions import DatabaseSessionService
from google.genai import types
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel
from pydantic_ai_harness.step_persistence import PostgresStepStore, StepPersistence, continue_run

from holdfast.integrations import adk, langgraph, openai_agents, pydantic_ai

pytestmark = pytest.mark.filterwarnings("ignore")

WHO = {"app_name": "app", "user_id": "u1"}
THREAD = {"configurable": {"thread_id": "trip"}}


@pytest.fixture
def database(postgres_server):
    """The address of a database that has no tables yet."""
    name = f"framework_{uuid4().hex}"

    async def create():
        connection = await asyncpg.connect(postgres_server.url)
        await connection.execute(f"CREATE DATABASE {name}")
        await connection.close()

    asyncio.run(create())
    return f"{postgres_server.url.rpartition('/')[0]}/{name}"


def _with_driver(database):
    """The address as SQLAlchemy wants it."""
    return database.replace("postgresql://", "postgresql+asyncpg://", 1)


async def test_items_of_openai_agents(hf, database):
    """All items of a session, with calls and their results, once; then what is new."""
    source = SQLAlchemySession.from_url("trip", url=_with_driver(database), create_tables=True)
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"n": 1}'}
    result = {"type": "function_call_output", "call_id": "c1", "output": "a tree – grün"}
    await source.add_items([{"role": "user", "content": "Look"}, call, result])
    assert await openai_agents.bring_over(source, hf) == 3
    await source.add_items([{"role": "assistant", "content": "A tree."}])
    assert await openai_agents.bring_over(source, hf) == 1
    assert await openai_agents.bring_over(source, hf) == 0
    assert await openai_agents.HoldfastSession("trip", hf).get_items() == await source.get_items()
    assert hf.recover("trip").messages[-1]["content"] == "A tree."
    await source.engine.dispose()


def _graph(saver):
    builder = StateGraph(MessagesState)
    builder.add_node("say", lambda state: {"messages": [AIMessage(f"{len(state['messages'])}")]})
    builder.add_edge(START, "say")
    builder.add_edge("say", END)
    return builder.compile(checkpointer=saver)


def test_checkpoints_of_langgraph(hf, database):
    """Every state of two threads with its writes, once, and the graph goes on from the newest."""
    with PostgresSaver.from_conn_string(database) as source:
        source.setup()
        theirs, ours = _graph(source), _graph(langgraph.HoldfastSaver(hf))
        for word in ("a", "b"):
            theirs.invoke({"messages": [HumanMessage(word)]}, THREAD)
        theirs.invoke({"messages": [HumanMessage("c")]}, {"configurable": {"thread_id": "other"}})
        count = len(list(source.list(None)))
        assert langgraph.bring_over(source, hf) == count == 9
        assert langgraph.bring_over(source, hf) == 0
        for thread in ("trip", "other"):
            config = {"configurable": {"thread_id": thread}}
            kept = [(one.values, one.next, one.metadata) for one in ours.get_state_history(config)]
            assert kept == [(one.values, one.next, one.metadata) for one in theirs.get_state_history(config)]
            written = [one.pending_writes for one in langgraph.HoldfastSaver(hf).list(config)]
            assert written == [one.pending_writes for one in source.list(config)]
    state = ours.invoke({"messages": [HumanMessage("d")]}, THREAD)
    assert [message.content for message in state["messages"]] == ["a", "1", "b", "3", "d", "5"]


async def test_sessions_of_the_agent_development_kit(hf, database):
    """Events and all three kinds of state of each session, once; then what is new."""
    async with DatabaseSessionService(_with_driver(database)) as source:
        for name in ("trip", "other"):
            session = await source.create_session(**WHO, session_id=name, state={"a": 1, "app:b": 2, "user:c": 3})
            await source.append_event(session, _event(name, {"d": 4, "app:b": 5}))
        assert await adk.bring_over(source, "app", hf) == 2
        await source.append_event(session, _event("more", {"user:c": 6}))
        assert await adk.bring_over(source, "app", hf) == 1
        assert await adk.bring_over(source, "app", hf) == 0
        for name in ("trip", "other"):
            ours = await adk.HoldfastSessionService(hf).get_session(**WHO, session_id=name)
            theirs = await source.get_session(**WHO, session_id=name)
            assert (ours.state, ours.events) == (theirs.state, theirs.events)


def _event(text, delta):
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(author="user", content=content, actions=EventActions(state_delta=delta))


async def test_runs_of_the_pydantic_ai_harness(hf, database):
    """A run with its steps and snapshots, once; it can be gone on with."""
    async with asyncpg.create_pool(database, min_size=1, max_size=2) as pool:
        source = PostgresStepStore(pool)
        agent = Agent(TestModel(), capabilities=[StepPersistence(store=source)])
        result = await agent.run("Look", conversation_id="trip")
        assert await pydantic_ai.bring_over_runs(source, hf) > 0
        assert await pydantic_ai.bring_over_runs(source, hf) == 0
        (run,) = await source.list_runs()
        ours = pydantic_ai.HoldfastStepStore(hf)
        assert await ours.list_runs() == [run]
        kept = await ours.list_events(run_id=run.run_id)
        assert kept == await source.list_events(run_id=run.run_id)
        assert await continue_run(ours, run_id=run.run_id) == result.all_messages()
