"""Data of the frameworks' own stores, brought over through their own classes."""

from __future__ import annotations

import pytest
from agent_framework import InMemoryHistoryProvider, Message
from agents import SQLiteSession
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
from strands.session.file_session_manager import FileSessionManager
from strands.types.exceptions import SessionException
from strands.types.session import SessionAgent, SessionMessage

import holdfast
from holdfast.errors import UsageError
from holdfast.integrations import (
    adk,
    agent_framework,
    claude_sdk,
    langchain,
    langgraph,
    llama_index,
    openai_agents,
    strands,
)

pytestmark = pytest.mark.filterwarnings("ignore")

WHO = {"app_name": "app", "user_id": "u1"}
THREAD = {"configurable": {"thread_id": "trip"}}


@pytest.fixture
def hf(store_root):
    with holdfast.open(store_root) as opened:
        yield opened


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
    session = await source.create_session(
        **WHO, session_id="trip", state={"a": 1, "app:b": 2, "user:c": 3}
    )
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
