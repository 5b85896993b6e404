"""What holds for every adapter: two writers, what appending costs, values that are the caller's."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest
from agent_framework import Message
from autogen_core.models import UserMessage
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.events.event import Event
from google.genai import types
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from llama_index.core.llms import ChatMessage
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel
from strands.session.repository_session_manager import RepositorySessionManager
from strands.types.session import SessionAgent, SessionMessage

import holdfast
from holdfast.errors import Fenced
from holdfast.integrations.adk import HoldfastSessionService
from holdfast.integrations.agent_framework import HoldfastHistoryProvider
from holdfast.integrations.autogen import HoldfastState
from holdfast.integrations.claude_sdk import HoldfastSessionStore
from holdfast.integrations.langchain import HoldfastChatMessageHistory
from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.integrations.llama_index import HoldfastChatStore
from holdfast.integrations.openai_agents import HoldfastSession
from holdfast.integrations.pydantic_ai import HoldfastHistory
from holdfast.integrations.strands import HoldfastSessionRepository, Overtaken

WHO = {"app_name": "app", "user_id": "u"}
KEY = {"project_key": "p", "session_id": "trip"}

# Each of these reads what there is, and each time it is asked again it says a text.


async def _openai_agents(hf, texts):
    session = HoldfastSession("trip", hf)
    await session.get_items()
    async for text in texts:
        await session.add_items([{"role": "user", "content": text}])


async def _claude_sdk(hf, texts):
    store = HoldfastSessionStore(hf)
    await store.load(KEY)
    async for text in texts:
        message = {"role": "user", "content": text}
        await store.append(KEY, [{"type": "user", "uuid": text, "message": message}])


async def _langchain(hf, texts):
    history = HoldfastChatMessageHistory("trip", hf)
    await history.aget_messages()
    async for text in texts:
        await history.aadd_messages([HumanMessage(text)])


async def _llama_index(hf, texts):
    store = HoldfastChatStore(hf)
    store.get_messages("trip")
    async for text in texts:
        store.add_message("trip", ChatMessage(role="user", content=text))


async def _agent_framework(hf, texts):
    provider = HoldfastHistoryProvider(hf)
    await provider.get_messages("trip")
    async for text in texts:
        await provider.save_messages("trip", [Message("user", [text])])


async def _adk(hf, texts):
    service = HoldfastSessionService(hf)
    session = await service.get_session(**WHO, session_id="trip")
    session = session or await service.create_session(**WHO, session_id="trip")
    async for text in texts:
        content = types.Content(role="user", parts=[types.Part(text=text)])
        await service.append_event(session, Event(author="user", content=content))


async def _strands(hf, texts):
    repository = HoldfastSessionRepository(hf)
    RepositorySessionManager(session_id="trip", session_repository=repository)
    if repository.read_agent("trip", "a") is None:
        state = {"conversation_manager_state": {}, "state": {}}
        repository.create_agent("trip", SessionAgent(agent_id="a", **state))
    number = len(repository.list_messages("trip", "a"))
    async for text in texts:
        message = {"role": "user", "content": [{"text": text}]}
        repository.create_message("trip", "a", SessionMessage.from_message(message, number))
        number += 1


async def _langgraph(hf, texts):
    saver, named = HoldfastSaver(hf), {"thread_id": "trip", "checkpoint_ns": ""}
    config, said = {"configurable": named}, []
    before = await saver.aget_tuple(config)
    if before is not None:
        config, said = before.config, before.checkpoint["channel_values"]["messages"]
    async for text in texts:
        said = [*said, HumanMessage(text)]
        version = {"messages": len(said)}
        values = {"channel_values": {"messages": said}, "channel_versions": version}
        config = await saver.aput(config, {**empty_checkpoint(), **values}, {}, version)


async def _pydantic_ai(hf, texts):
    history = HoldfastHistory("trip", hf)
    agent = Agent(TestModel(custom_output_text="yes"))
    first = True
    async with history.iter(agent, "a question") as steps:
        async for text in texts:
            if first:
                async for _ in steps:
                    first = False
            else:
                await history.run(agent, text)


class _Person:
    def __init__(self):
        self.said = []

    async def save_state(self):
        messages = [UserMessage(content=text, source="user").model_dump() for text in self.said]
        return {"type": "AssistantAgentState", "llm_context": {"messages": messages}}

    async def load_state(self, state):
        self.said = [message["content"] for message in state["llm_context"]["messages"]]


async def _autogen(hf, texts):
    state, person = HoldfastState("trip", hf), _Person()
    await state.load(person)
    async for text in texts:
        person.said.append(text)
        await state.save(person)


IN_TURN = [_openai_agents, _claude_sdk, _langchain, _llama_index, _agent_framework]
FENCED = {_adk: StaleSessionError, _strands: Overtaken, _langgraph: Fenced, _pydantic_ai: Fenced, _autogen: Fenced}


class _Texts:
    """Texts that are said one after the other, as they are given."""

    def __init__(self):
        self.queue, self.taken = asyncio.Queue(), asyncio.Queue()

    def __aiter__(self):
        return self

    async def __anext__(self):
        await self.taken.put(None)
        text = await self.queue.get()
        if text is None:
            raise StopAsyncIteration
        return text


class _Talk:
    """One who talks: has read what there was when it begins, then says what it is told to."""

    def __init__(self, adapter, hf):
        self._adapter, self._hf = adapter, hf

    async def __aenter__(self):
        self._texts = _Texts()
        self._task = asyncio.create_task(self._adapter(self._hf, self._texts))
        await self._next()
        return self

    async def __aexit__(self, *failed):
        await self._texts.queue.put(None)
        if not failed[0]:
            await self._task

    async def say(self, text):
        await self._texts.queue.put(text)
        await self._next()

    async def _next(self):
        ready = asyncio.create_task(self._texts.taken.get())
        done, _ = await asyncio.wait({ready, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if ready not in done:
            ready.cancel()
            await self._task


async def _talk(adapter, store_root, texts):
    with holdfast.open(store_root) as hf:
        async with _Talk(adapter, hf) as talk:
            for text in texts:
                await talk.say(text)


def _in_another_process(adapter, store_root, *texts):
    pid = os.fork()
    if not pid:
        code = 1
        try:
            asyncio.new_event_loop().run_until_complete(_talk(adapter, store_root, texts))
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


def _while_another_writes(adapter, store_root):
    """Begin, let another process go on, then go on with what was read before that."""
    _in_another_process(adapter, store_root, "begin")
    loop = asyncio.new_event_loop()
    try:
        with holdfast.open(store_root) as hf:
            talk = _Talk(adapter, hf)
            loop.run_until_complete(talk.__aenter__())
            _in_another_process(adapter, store_root, "theirs")
            loop.run_until_complete(talk.say("ours"))
            loop.run_until_complete(talk.__aexit__(None))
    finally:
        loop.close()


def _said(store_root):
    """What the users said, and whether the log is whole; there is one session."""
    with holdfast.open(store_root) as hf:
        (about,) = hf.list()
        assert hf.verify(about.session_id).ok
        recovered = hf.recover(about.session_id)
        users = [one["content"] for one in recovered.messages if one["role"] == "user"]
        parts = [one if isinstance(one, list) else [{"text": one}] for one in users]
        return [part["text"] for some in parts for part in some]


@pytest.mark.parametrize("adapter", IN_TURN)
def test_two_processes_write_in_turn(adapter, store_root):
    """Where a framework only adds, both are recorded, one after the other."""
    _while_another_writes(adapter, store_root)
    said = " ".join(_said(store_root)).split()
    assert said == ["begin", "theirs", "ours"]


@pytest.mark.parametrize("adapter", FENCED)
def test_a_second_writer_is_refused(adapter, store_root):
    """Where it goes on from a state, one that others went on from is refused with its own error."""
    with pytest.raises(FENCED[adapter]):
        _while_another_writes(adapter, store_root)
    assert "ours" not in _said(store_root)


_COUNTED = [*IN_TURN, _adk, _strands]


@pytest.mark.parametrize("adapter", _COUNTED)
async def test_appending_does_not_cost_more_as_a_conversation_grows(adapter, store_root):
    """Counted in calls: the hundredth message is recorded by as many as the tenth."""
    with holdfast.open(store_root) as hf:
        async with _Talk(adapter, hf) as talk:
            costs = [await _calls(talk.say(f"text {n:03}")) for n in range(101)]
    assert min(costs[90:]) <= 1.1 * min(costs[5:15])


async def _calls(doing):
    count = 0

    def called(_frame, event, _argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        await doing
    finally:
        sys.setprofile(None)
    return count


PARTS = [{"type": "text", "text": "as it was"}, {"type": "image_url", "image_url": {"url": "u"}}]


@pytest.mark.parametrize("kind", ["openai_agents", "claude_sdk", "langchain", "langgraph"])
async def test_what_is_given_and_got_belongs_to_the_caller(kind, hf):
    """Changing what was handed over, or what was read, changes nothing on record."""
    given = [dict(part) for part in PARTS]
    read = await globals()[f"_own_{kind}"](hf, given)
    given.clear()
    for _ in range(2):
        parts = await read()
        assert [part["type"] for part in parts] == ["text", "image_url"]
        parts[0]["text"] = "changed"
        assert (await read())[0]["text"] == "as it was"
        parts.clear()


async def _own_openai_agents(hf, given):
    session = HoldfastSession("trip", hf)
    await session.get_items()
    await session.add_items([{"role": "user", "content": given}])

    async def read():
        return (await session.get_items())[0]["content"]

    return read


async def _own_claude_sdk(hf, given):
    store = HoldfastSessionStore(hf)
    await store.append(KEY, [{"type": "user", "message": {"role": "user", "content": given}}])

    async def read():
        return (await store.load(KEY))[0]["message"]["content"]

    return read


async def _own_langchain(hf, given):
    history = HoldfastChatMessageHistory("trip", hf)
    await history.aadd_messages([HumanMessage(given)])

    async def read():
        return (await history.aget_messages())[0].content

    return read


async def _own_langgraph(hf, given):
    saver, config = HoldfastSaver(hf), {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    values = {"channel_values": {"messages": [HumanMessage(given)]}}
    version = {"messages": 1}
    checkpoint = {**empty_checkpoint(), **values, "channel_versions": version}
    await saver.aput(config, checkpoint, {}, version)

    async def read():
        found = await saver.aget_tuple(config)
        return found.checkpoint["channel_values"]["messages"][0].content

    return read


async def test_a_fork_is_listed_once_under_its_own_id(store_root):
    """A fork names its origin in its link; each framework finds both, each with its own words."""
    await _talk(_llama_index, store_root, ["begin"])
    await _talk(_adk, store_root / "adk", ["begin"])
    with holdfast.open(store_root) as hf, holdfast.open(store_root / "adk") as other:
        fork = hf.fork("trip")
        store = HoldfastChatStore(hf)
        assert store.get_keys() == ["trip", fork]
        store.add_message(fork, ChatMessage(role="user", content="on"))
        assert [len(store.get_messages(key)) for key in ("trip", fork)] == [1, 2]
        fork = other.fork(other.list()[0].session_id)
        service = HoldfastSessionService(other)
        listed = (await service.list_sessions(**WHO)).sessions
        assert {one.id for one in listed} == {"trip", fork}
        found = await service.get_session(**WHO, session_id=fork)
        assert [event.content.parts[0].text for event in found.events] == ["begin"]
        assert await service.get_session(app_name="x", user_id="u", session_id=fork) is None
