"""Data of the frameworks' own stores, brought over through their own classes."""

from __future__ import annotations

import json

import pytest
from agent_framework import InMemoryHistoryProvider, Message
from agents import SQLiteSession
from autogen_core.model_context import UnboundedChatCompletionContext
from autogen_core.models import AssistantMessage, UserMessage
from claude_agent_sdk import InMemorySessionStore
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from llama_index.core.llms import ChatMessage
from llama_index.core.storage.chat_store import SimpleChatStore
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai_harness.step_persistence import (
    FileStepStore,
    InMemoryStepStore,
    SqliteStepStore,
    StepEvent,
    StepPersistence,
    ToolEffectRecord,
    continue_run,
)
from strands.session.file_session_manager import FileSessionManager
from strands.types.exceptions import SessionException
from strands.types.session import SessionAgent, SessionMessage

from holdfast.errors import UsageError
from holdfast.integrations import (
    adk,
    agent_framework,
    autogen,
    claude_sdk,
    langchain,
    langgraph,
    llama_index,
    openai_agents,
    pydantic_ai,
    strands,
)

pytestmark = pytest.mark.filterwarnings("ignore")

WHO = {"app_name": "app", "user_id": "u1"}
THREAD = {"configurable": {"thread_id": "trip"}}


async def test_items_of_openai_agents(hf, tmp_path):
    """All items, once; what came since the first time the second; another conversation never."""
    source = SQLiteSession("trip", tmp_path / "agents.db")
    await source.add_items([{"role": "user", "content": "one"}])
    assert await openai_agents.bring_over(source, hf) == 1
    await source.add_items([{"role": "assistant", "content": "two"}])
    assert await openai_agents.bring_over(source, hf) == 1
    assert await openai_agents.bring_over(source, hf) == 0
    assert await openai_agents.HoldfastSession("trip", hf).get_items() == await source.get_items()
    await source.clear_session()
    await source.add_items([{"role": "user", "content": "other"}])
    with pytest.raises(UsageError):
        await openai_agents.bring_over(source, hf)
    source.close()


def _graph(saver):
    builder = StateGraph(MessagesState)
    builder.add_node("say", lambda state: {"messages": [AIMessage(f"{len(state['messages'])}")]})
    builder.add_edge(START, "say")
    builder.add_edge("say", END)
    return builder.compile(checkpointer=saver)


def test_checkpoints_of_langgraph(hf, tmp_path):
    """Every state of the history is there, and the graph goes on from the newest."""
    with SqliteSaver.from_conn_string(str(tmp_path / "graph.db")) as source:
        theirs = _graph(source)
        for word in ("a", "b"):
            theirs.invoke({"messages": [HumanMessage(word)]}, THREAD)
        count = len(list(source.list(None)))
        assert langgraph.bring_over(source, hf) == count
        assert langgraph.bring_over(source, hf) == 0
        ours = _graph(langgraph.HoldfastSaver(hf))
        states = [state.values for state in ours.get_state_history(THREAD)]
        assert states == [state.values for state in theirs.get_state_history(THREAD)]
    state = _graph(langgraph.HoldfastSaver(hf)).invoke({"messages": [HumanMessage("c")]}, THREAD)
    assert [message.content for message in state["messages"]] == ["a", "1", "b", "3", "c", "5"]
    said = [message["content"] for message in hf.recover("trip").messages]
    assert said == ["a", "1", "b", "3", "c", "5"]


def _event(delta):
    content = types.Content(role="user", parts=[types.Part(text="Hello")])
    return Event(author="user", content=content, actions=EventActions(state_delta=delta))


async def test_sessions_of_the_agent_development_kit(hf, tmp_path):
    """Events and all three kinds of state, once."""
    source = SqliteSessionService(str(tmp_path / "adk.db"))
    session = await source.create_session(**WHO, session_id="trip", state={"a": 1, "app:b": 2, "user:c": 3})
    await source.append_event(session, _event({"d": 4, "app:b": 5}))
    assert await adk.bring_over(source, "app", hf) == 1
    assert await adk.bring_over(source, "app", hf, user_id="u1") == 0
    ours = await adk.HoldfastSessionService(hf).get_session(**WHO, session_id="trip")
    theirs = await source.get_session(**WHO, session_id="trip")
    assert ours.state == theirs.state
    assert ours.events == theirs.events


def test_sessions_of_strands(hf, tmp_path):
    """The messages of an agent and its state, once; what is not there is an error."""
    source = FileSessionManager("trip", storage_dir=str(tmp_path / "strands"))
    source.create_agent("trip", SessionAgent("default", {"k": 1}, {}))
    for number, text in enumerate("ab"):
        message = {"role": "user", "content": [{"text": text}]}
        source.create_message("trip", "default", SessionMessage.from_message(message, number))
    assert strands.bring_over(source, "trip", hf) == 2
    assert strands.bring_over(source, "trip", hf) == 0
    ours = strands.HoldfastSessionRepository(hf)
    assert ours.list_messages("trip", "default") == source.list_messages("trip", "default")
    assert ours.read_agent("trip", "default").state == {"k": 1}
    with pytest.raises(SessionException):
        strands.bring_over(source, "trip", hf, agent_ids=["nobody"])
    with pytest.raises(SessionException):
        strands.bring_over(source, "nothing", hf)


def test_histories_of_langchain_and_llama_index(hf):
    """All messages, once."""
    history = InMemoryChatMessageHistory(messages=[HumanMessage("one"), AIMessage("two")])
    assert langchain.bring_over(history, "trip", hf) == 2
    assert langchain.bring_over(history, "trip", hf) == 0
    assert langchain.HoldfastChatMessageHistory("trip", hf).messages == history.messages
    chats = SimpleChatStore()
    for key in ("a", "b"):
        chats.add_message(key, ChatMessage(key))
    assert llama_index.bring_over(chats, hf) == 2
    assert llama_index.bring_over(chats, hf) == 0
    assert llama_index.HoldfastChatStore(hf).get_messages("b") == chats.get_messages("b")


class _Kept(InMemoryHistoryProvider):
    """Messages of one session, where the framework's own provider keeps them in its state."""

    async def get_messages(self, session_id, *, state=None, **kwargs):
        return [Message("user", ["one"]), Message("assistant", ["two"])]


async def test_histories_of_the_agent_framework(hf):
    """All messages, once."""
    assert await agent_framework.bring_over(_Kept(), "trip", hf) == 2
    assert await agent_framework.bring_over(_Kept(), "trip", hf) == 0
    assert [message["content"] for message in hf.recover("trip").messages] == ["one", "two"]


async def test_transcripts_of_the_claude_agent_sdk(hf):
    """The main transcript and those beside it, once."""
    source = InMemorySessionStore()
    key = {"project_key": "p", "session_id": "s"}
    await source.append(key, [{"type": "user", "uuid": "1", "message": {"content": "x"}}])
    await source.append({**key, "subpath": "sub/a"}, [{"type": "user", "uuid": "2"}])
    assert await claude_sdk.bring_over(source, "p", hf) == 2
    assert await claude_sdk.bring_over(source, "p", hf) == 0
    ours = claude_sdk.HoldfastSessionStore(hf)
    assert await ours.load(key) == await source.load(key)
    assert await ours.list_subkeys(key) == ["sub/a"]


def _scripted(messages, info):
    if len(messages) % 4 == 1:
        return ModelResponse([ToolCallPart("look", {"n": n}, f"c{n}-{len(messages)}") for n in "12"])
    return ModelResponse([TextPart(f"{len(messages)} seen")])


def _looking(store=None):
    capabilities = [] if store is None else [StepPersistence(store=store)]
    agent = Agent(FunctionModel(_scripted), capabilities=capabilities)
    agent.tool_plain(lambda n: f"tree {n}", name="look")
    return agent


async def test_message_histories_of_pydantic_ai(hf):
    """A history or its JSON, once; then what is new in it; another conversation never."""
    first = await _looking().run("Look")
    assert await pydantic_ai.bring_over(first.all_messages_json(), "trip", hf) == 4
    assert await pydantic_ai.bring_over(first.all_messages(), "trip", hf) == 0
    second = await _looking().run("Again", message_history=first.all_messages())
    assert await pydantic_ai.bring_over(second.all_messages(), "trip", hf) == 4
    assert await pydantic_ai.bring_over(first.all_messages(), "trip", hf) == 0
    assert pydantic_ai.HoldfastHistory("trip", hf).messages() == second.all_messages()
    assert [event.data["content"] for event in hf.events("trip", types={"user"})] == ["Look", "Again"]
    with pytest.raises(UsageError):
        await pydantic_ai.bring_over(second.new_messages(), "trip", hf)
    assert len(pydantic_ai.HoldfastHistory("trip", hf).messages()) == 8


@pytest.mark.parametrize("given", ["", b"{}", "[1]", ["Look"], 3])
async def test_what_is_no_history_of_pydantic_ai_begins_no_session(hf, given):
    """A typed error, and nothing recorded."""
    with pytest.raises(UsageError):
        await pydantic_ai.bring_over(given, "trip", hf)
    assert not hf.exists("trip")


async def _told(store, run_id):
    """What a step store tells of a run."""
    calls = [step.tool_call_id for step in await store.list_events(run_id=run_id)]
    return (
        await store.get_run(run_id=run_id),
        await store.list_events(run_id=run_id),
        await store.list_snapshots(run_id=run_id, include_interrupted=True),
        [await store.get_tool_effect(run_id=run_id, tool_call_id=call) for call in calls if call],
        await store.list_unresolved_tool_effects(run_id=run_id),
    )


@pytest.mark.parametrize("kind", ["memory", "files", "sqlite"])
async def test_step_stores_of_the_pydantic_ai_harness(hf, tmp_path, kind):
    """Runs, steps, snapshots and effects, once; then what is new; a run goes on from them."""
    source = {
        "memory": InMemoryStepStore,
        "files": lambda: FileStepStore(str(tmp_path / "steps")),
        "sqlite": lambda: SqliteStepStore(database=str(tmp_path / "steps.db")),
    }[kind]()
    first = await _looking(source).run("Look", conversation_id="trip")
    assert await pydantic_ai.bring_over_runs(source, hf) > 0
    assert await pydantic_ai.bring_over_runs(source, hf) == 0
    second = await _looking(source).run("Again", message_history=first.all_messages(), conversation_id="trip")
    (_, newest) = await source.list_runs()
    started = ToolEffectRecord(tool_call_id="c9", tool_name="look", run_id=newest.run_id, status="started")
    await source.record_tool_effect(started)
    assert await pydantic_ai.bring_over_runs(source, hf) > 0
    assert await pydantic_ai.bring_over_runs(source, hf) == 0
    ours = pydantic_ai.HoldfastStepStore(hf)
    assert await ours.list_runs() == await source.list_runs()
    for run in await source.list_runs():
        assert await _told(ours, run.run_id) == await _told(source, run.run_id)
    assert await continue_run(ours, run_id=newest.run_id) == second.all_messages()
    said = [event.data["content"] for event in hf.events("trip", types={"user"})]
    assert said == ["Look", "Again"]


async def test_what_ended_here_since_stays(hf):
    """A call that the other store still has as open is not opened again; other steps are told."""
    source, ours = InMemoryStepStore(), pydantic_ai.HoldfastStepStore(hf)
    await _looking(source).run("Look", conversation_id="trip")
    (run,) = await source.list_runs()
    named = {"tool_call_id": "c9", "tool_name": "look", "run_id": run.run_id}
    await source.record_tool_effect(ToolEffectRecord(**named, status="started"))
    await pydantic_ai.bring_over_runs(source, hf)
    await ours.record_tool_effect(ToolEffectRecord(**named, status="completed"))
    assert await pydantic_ai.bring_over_runs(source, hf) == 0
    assert not await ours.list_unresolved_tool_effects(run_id=run.run_id)
    other = InMemoryStepStore()
    await other.register_run(run)
    await other.append_event(StepEvent(run_id=run.run_id, kind="run_started", step_index=7))
    with pytest.raises(UsageError):
        await pydantic_ai.bring_over_runs(other, hf)


class _Protocol:
    """A step store with what the protocol asks for, and nothing else."""

    def __init__(self, store):
        for name in ("list_runs", "list_events", "latest_snapshot"):
            setattr(self, name, getattr(store, name))
        for name in ("get_tool_effect", "list_unresolved_tool_effects"):
            setattr(self, name, getattr(store, name))


async def test_a_step_store_that_lists_no_snapshots(hf):
    """Its newest snapshot is brought over, once."""
    source = InMemoryStepStore()
    result = await _looking(source).run("Look", conversation_id="trip")
    (run,) = await source.list_runs()
    assert await pydantic_ai.bring_over_runs(_Protocol(source), hf) > 0
    assert await pydantic_ai.bring_over_runs(_Protocol(source), hf) == 0
    ours = pydantic_ai.HoldfastStepStore(hf)
    assert len(await ours.list_snapshots(run_id=run.run_id, include_interrupted=True)) == 1
    assert await continue_run(ours, run_id=run.run_id) == result.all_messages()


class _Loaded:
    """An agent that only takes a state."""

    async def load_state(self, state):
        self.state = state


async def _state(*texts):
    """The state of an assistant, as AutoGen saves it."""
    context = UnboundedChatCompletionContext()
    for number, text in enumerate(texts):
        kind, source = ((UserMessage, "user"), (AssistantMessage, "assistant"))[number % 2]
        await context.add_message(kind(content=text, source=source))
    return {"type": "AssistantAgentState", "llm_context": dict(await context.save_state())}


async def _loaded(hf):
    agent = _Loaded()
    assert await autogen.HoldfastState("trip", hf).load(agent)
    return agent.state


async def test_states_of_autogen(hf):
    """A state or its JSON, once; then what is new in it; another conversation never."""
    short, long = await _state("one", "two"), await _state("one", "two", "three")
    assert await autogen.bring_over(short, "trip", hf) == 2
    assert await _loaded(hf) == short
    assert await autogen.bring_over(json.dumps(long), "trip", hf) == 1
    for again in (long, json.dumps(long).encode(), short, await _state()):
        assert await autogen.bring_over(again, "trip", hf) == 0
    assert await _loaded(hf) == long
    said = [message["content"] for message in hf.recover("trip").messages]
    assert said == ["one", "two", "three"]
    with pytest.raises(UsageError):
        await autogen.bring_over(await _state("other"), "trip", hf)
    assert await _loaded(hf) == long
    with hf.session("elsewhere") as session:
        session.user("Said in another framework")
    with pytest.raises(UsageError):
        await autogen.bring_over(short, "elsewhere", hf)


async def test_states_of_autogen_teams(hf):
    """The thread of a team is the conversation, and the rest comes back as it was."""
    thread = [{"type": "TextMessage", "source": "user", "content": "Plan a trip"}]
    manager = {"type": "RoundRobinManagerState", "message_thread": thread, "current_turn": 1}
    team = {"type": "TeamState", "agent_states": {"manager": manager, "a": {"type": "x"}}}
    assert await autogen.bring_over(team, "trip", hf) == 1
    assert await autogen.bring_over(team, "trip", hf) == 0
    assert await _loaded(hf) == team
    assert hf.recover("trip").messages[0]["content"] == "Plan a trip"


async def test_states_of_autogen_without_messages(hf):
    """They are kept as well; another one is not put in their place in silence."""
    assert await autogen.bring_over({"count": 1}, "trip", hf) == 0
    assert await autogen.bring_over({"count": 1}, "trip", hf) == 0
    assert await _loaded(hf) == {"count": 1}
    with pytest.raises(UsageError):
        await autogen.bring_over({"count": 2}, "trip", hf)
    assert await _loaded(hf) == {"count": 1}


@pytest.mark.parametrize("given", ["", b"[]", "{", 3, None])
async def test_what_is_no_state_of_autogen_begins_no_session(hf, given):
    """A typed error, and nothing recorded."""
    with pytest.raises(UsageError):
        await autogen.bring_over(given, "trip", hf)
    assert not hf.exists("trip")
