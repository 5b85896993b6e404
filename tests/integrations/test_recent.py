"""What an adapter read long ago goes, what is used stays, and what went is read again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from agent_framework import AgentSession, Message, WorkflowCheckpoint
from google.adk.events.event import Event
from google.genai import types
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from llama_index.core.base.llms.types import TextBlock
from llama_index.core.llms import ChatMessage
from pydantic_ai.messages import ModelRequest, UserPromptPart
from pydantic_ai_harness.step_persistence import ContinuableSnapshot
from strands.types.session import SessionAgent, SessionMessage

from holdfast.integrations import _place, adk, agent_framework, claude_sdk, langgraph, llama_index, pydantic_ai, strands
from holdfast.integrations._place import LIMIT, AdapterSession, Recent

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.stores("memory")]

SESSIONS = 1_000


class _Place:
    """Where a conversation would be."""

    seq = None

    def held(self):
        return self.seq


class _Kept:
    """What would be known of a conversation."""

    def __init__(self):
        self.place = _Place()


def test_only_the_newest_stay():
    """Those that were asked for last, also where one of them was the first; others are new."""
    recent = Recent(lambda _: _Kept())
    for number in range(SESSIONS):
        recent(number)
        recent("often")
    assert len(recent) == LIMIT
    assert set(recent.known()) == {"often", *range(SESSIONS - LIMIT + 1, SESSIONS)}


def test_what_is_used_stays():
    """One that somebody has, and one whose session is held, is the same object ever after."""
    recent = Recent(lambda _: _Kept())
    had, held = recent("had"), recent("held")
    held.place.seq = 7
    place = held.place
    del held
    for number in range(SESSIONS):
        recent(number)
    assert recent("had") is had
    assert recent("held").place is place


def test_what_is_held_no_longer_makes_room():
    """Where more are held at once than may stay, those go that were given back."""
    recent = Recent(lambda _: _Kept())
    places = []
    for number in range(SESSIONS):
        places.append(recent(number).place)
        places[-1].seq = 0
    assert len(recent) == SESSIONS
    for place in places:
        place.seq = None
    for _ in range(SESSIONS):
        recent("next")
    assert len(recent) == LIMIT


def test_what_is_forgotten_is_made_anew():
    """Also one that somebody has; what is not there is None."""
    recent = Recent(lambda _: _Kept())
    had = recent("had")
    assert recent.pop("had") is had
    assert recent.pop("had") is None
    assert recent("had") is not had


class _Adk:
    def __init__(self, hf):
        self.service = adk.HoldfastSessionService(hf)
        self.recent = self.service._kept

    async def write(self, name, text):
        named = {"app_name": "app", "user_id": "u", "session_id": name}
        session = await self.service.get_session(**named)
        session = session or await self.service.create_session(**named)
        content = types.Content(role="user", parts=[types.Part(text=text)])
        await self.service.append_event(session, Event(author="user", content=content))

    async def read(self, name):
        found = await self.service.get_session(app_name="app", user_id="u", session_id=name)
        return [event.content.parts[0].text for event in found.events]


class _Strands:
    def __init__(self, hf):
        self.repository = strands.HoldfastSessionRepository(hf)
        self.recent = self.repository._kept

    async def write(self, name, text):
        if self.repository.read_agent(name, "a") is None:
            self.repository.create_agent(name, SessionAgent("a", {}, {}))
        number = len(self.repository.list_messages(name, "a"))
        message = {"role": "user", "content": [{"text": text}]}
        self.repository.create_message(name, "a", SessionMessage.from_message(message, number))

    async def read(self, name):
        found = self.repository.list_messages(name, "a")
        return [one.message["content"][0]["text"] for one in found]


class _Claude:
    def __init__(self, hf):
        self.store = claude_sdk.HoldfastSessionStore(hf)
        self.recent = self.store._kept

    async def write(self, name, text):
        key = {"project_key": "p", "session_id": name}
        entry = {"type": "user", "uuid": text, "message": {"role": "user", "content": text}}
        await self.store.append(key, [entry])

    async def read(self, name):
        found = await self.store.load({"project_key": "p", "session_id": name})
        return [entry["message"]["content"] for entry in found]


class _LlamaIndex:
    def __init__(self, hf):
        self.store = llama_index.HoldfastAsyncChatStore(hf)
        self.recent = self.store._of

    async def write(self, name, text):
        await self.store.add_message(name, ChatMessage(role="user", blocks=[TextBlock(text=text)]))

    async def read(self, name):
        return [message.content for message in await self.store.get_messages(name)]


class _LangGraph:
    def __init__(self, hf):
        self.saver = langgraph.HoldfastSaver(hf)
        self.recent = self.saver._of

    async def write(self, name, text):
        config = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
        found = await self.saver.aget_tuple(config)
        said = found.checkpoint["channel_values"]["messages"] if found else []
        said = [*said, HumanMessage(text)]
        version = {"messages": len(said)}
        values = {"channel_values": {"messages": said}, "channel_versions": version}
        checkpoint = {**empty_checkpoint(), **values}
        after = found.config if found else config
        config = await self.saver.aput(after, checkpoint, {}, version)
        await self.saver.aput_writes(config, [("note", text)], "task")

    async def read(self, name):
        found = self.saver.get_tuple({"configurable": {"thread_id": name}})
        said = [message.content for message in found.checkpoint["channel_values"]["messages"]]
        assert found.pending_writes == [("task", "note", said[-1])]
        return said


class _Steps:
    def __init__(self, hf):
        self.store = pydantic_ai.HoldfastStepStore(hf)
        self.recent = self.store._conversation

    async def write(self, name, text):
        found = await self.store.latest_snapshot(run_id=name)
        said = [*(found.messages if found else []), ModelRequest(parts=[UserPromptPart(text)])]
        snapshot = ContinuableSnapshot(run_id=name, step_index=len(said), messages=said)
        await self.store.save_snapshot(snapshot)

    async def read(self, name):
        found = await self.store.latest_snapshot(run_id=name)
        return [message.parts[0].content for message in found.messages]


class _Histories:
    def __init__(self, hf):
        self.provider = agent_framework.HoldfastHistoryProvider(hf)
        self.recent = self.provider._of

    async def write(self, name, text):
        await self.provider.save_messages(name, [Message("user", [text])])

    async def read(self, name):
        return [message.text for message in await self.provider.get_messages(name)]


class _States:
    def __init__(self, hf):
        self.store = agent_framework.HoldfastAgentSessionStore(hf)
        self.recent = self.store._states

    async def write(self, name, text):
        found = await self.store.get(name) or AgentSession(session_id=name)
        found.state.setdefault("said", []).append(text)
        await self.store.set(name, found)

    async def read(self, name):
        return (await self.store.get(name)).state["said"]


class _Workflows:
    def __init__(self, hf):
        self.storage = agent_framework.HoldfastCheckpointStorage(hf)
        self.recent = self.storage._of

    async def write(self, name, text):
        made = WorkflowCheckpoint(name, "hash", checkpoint_id=f"{name}-{text}", state={"t": text})
        await self.storage.save(made)

    async def read(self, name):
        found = await self.storage.list_checkpoints(workflow_name=name)
        loaded = [await self.storage.load(one.checkpoint_id) for one in found]
        return [one.state["t"] for one in loaded]


ADAPTERS = [_Adk, _Strands, _Claude, _LlamaIndex, _LangGraph, _Steps, _Histories, _States, _Workflows]


@pytest.fixture
def few(monkeypatch):
    """How many stay, which is fewer than a test has sessions."""
    monkeypatch.setattr(_place, "LIMIT", 2)
    return 2


def _give_back(adapter):
    for kept in adapter.recent.known().values():
        kept.place.close()


@pytest.mark.parametrize("kind", ADAPTERS)
async def test_an_adapter_reads_again_what_went(kind, hf, few):
    """Whatever it let go in between, everything that was written is there, and goes on."""
    names = [f"trip-{number}" for number in range(6)]
    adapter = kind(hf)
    for text in ("one", "two", "three"):
        for name in names:
            await adapter.write(name, f"{text}-{name}")
            _give_back(adapter)
    for _ in range(2):
        for name in names:
            assert await adapter.read(name) == [f"{text}-{name}" for text in ("one", "two", "three")]
            assert len(adapter.recent) <= few


def test_threads_of_one_adapter_lose_nothing(hf, few, monkeypatch):
    """Conversations that go and come while others are written hold every message, in order."""
    # Given back as soon as nobody writes; and a busy machine may take its time.
    monkeypatch.setitem(AdapterSession.__init__.__kwdefaults__, "idle_ms", 0)
    monkeypatch.setitem(AdapterSession.__init__.__kwdefaults__, "wait_ms", 120_000)
    store = llama_index.HoldfastChatStore(hf)
    names = [f"trip-{number}" for number in range(8)]

    def say(who):
        for turn in range(5):
            for name in names:
                store.add_message(name, ChatMessage(f"{who} {turn}"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(say, "abcd"))
    for name in names:
        said = [message.content for message in store.get_messages(name)]
        assert len(said) == 20
        for who in "abcd":
            assert [text for text in said if text[0] == who] == [f"{who} {n}" for n in range(5)]
