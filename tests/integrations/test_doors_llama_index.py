"""LlamaIndex: a kill in a tool, an approval elsewhere, a fork, and what others read."""

from __future__ import annotations

import asyncio
import json

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import TextBlock, ToolCallBlock
from llama_index.core.llms import ChatMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import Memory
from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent

import holdfast
from holdfast.integrations.llama_index import HoldfastAsyncChatStore, HoldfastChatStore

pytestmark = pytest.mark.filterwarnings("ignore")  # of the framework: what it leaves out of a state
CALL = ToolCallBlock(tool_call_id="call-1", tool_name="book", tool_kwargs={"port": "Marstal"})
ALL = ["a berth, please", "I book it.", "berth in Marstal", "You have a berth in Marstal"]


def _answer(messages, **_):
    last = messages[-1]
    if last.role.value == "tool":
        return ChatMessage(f"You have a {last.content}", role="assistant")
    return ChatMessage(role="assistant", blocks=[TextBlock(text="I book it."), CALL])


def _memory(harbour):
    return Memory.from_defaults(session_id="trip", chat_store=HoldfastAsyncChatStore(harbour.store))


def _agent(harbour, say, *, asks=False):
    async def book(ctx: Context, port: str) -> str:
        """Book a berth, which can be seen outside."""
        if asks:
            question = InputRequiredEvent(prefix=f"book {port}?")
            await ctx.wait_for_event(HumanResponseEvent, waiter_event=question)
        return harbour.book(port, say)

    # The framework looks at the types themselves, not at their names.
    book.__annotations__ = {"ctx": Context, "port": str, "return": str}
    model = MockFunctionCallingLLM(response_generator=_answer, is_chat_model=True)
    return FunctionAgent(tools=[book], llm=model, streaming=False)


def test_kill_in_a_tool(processes, readers, harbour):
    """The question is on record, the call is not: to ask again runs the tool again."""

    async def ask(say):
        agent = _agent(harbour, say)
        say(str(await agent.run("a berth, please", memory=_memory(harbour))))

    processes.killed(lambda say: asyncio.run(ask(say)))
    readers.all_have("trip", "a berth, please")
    readers.none_has("trip", "I book it.", "Marstal")
    assert processes.finished(lambda say: asyncio.run(ask(say))) == [ALL[-1]]
    assert harbour.booked == ["Marstal"] * 2
    readers.all_have("trip", *ALL)


def test_approval_in_another_process(processes, readers, harbour):
    """The waiting run is `ctx.to_dict()`, which the caller keeps; then the tool runs, once."""
    kept = harbour.store.parent / "context.json"

    async def ask(say):
        agent = _agent(harbour, say, asks=True)
        run = agent.run("a berth, please", memory=_memory(harbour))
        async for event in run.stream_events():
            if isinstance(event, InputRequiredEvent):
                say(event.prefix)
                break
        kept.write_text(json.dumps(run.ctx.to_dict()))
        say.wait()

    async def approve(say):
        agent = _agent(harbour, say, asks=True)
        run = agent.run(ctx=Context.from_dict(agent, json.loads(kept.read_text())))
        await run.ctx.store.set("memory", _memory(harbour))
        run.ctx.send_event(HumanResponseEvent(response="yes"))
        say(str(await run))

    assert processes.killed(lambda say: asyncio.run(ask(say))) == ["book Marstal?"]
    readers.all_have("trip", "a berth, please")
    assert processes.finished(lambda say: asyncio.run(approve(say))) == [ALL[-1]]
    assert harbour.booked == ["Marstal"]
    readers.all_have("trip", *ALL)


def test_fork(readers, harbour):
    """A fork of the session is a key of its own; both go on, and neither sees the other."""
    with holdfast.open(harbour.store) as hf:
        store = HoldfastChatStore(hf)
        store.add_message("trip", ChatMessage("begun", role="user"))
        hf.fork("trip", new_id="other")
        for key, word in (("trip", "harbour"), ("other", "lighthouse")):
            store.add_message(key, ChatMessage(word, role="user"))
            assert [one.content for one in store.get_messages(key)] == ["begun", word]
        assert sorted(HoldfastChatStore(hf).get_keys()) == ["other", "trip"]
    readers.keep_apart(("trip", "harbour", ["begun"]), ("other", "lighthouse", ["begun"]))


def test_what_search_sees(readers, harbour):
    """Texts, calls and results, also of what a memory has archived; not `additional_kwargs`."""

    async def talk(hf):
        store = HoldfastAsyncChatStore(hf)
        note, answers = {"note": "beside it"}, {"tool_call_id": "call-1"}
        await store.add_messages(
            "trip",
            [
                ChatMessage("put away", role="user", additional_kwargs=note),
                ChatMessage(role="assistant", blocks=[TextBlock(text="I book it."), CALL]),
                ChatMessage("at the quay", role="tool", additional_kwargs=answers),
            ],
        )
        await store.archive_oldest_messages("trip", 1)

    with holdfast.open(harbour.store) as hf:
        asyncio.run(talk(hf))
        assert not hf.search("beside")
    readers.all_have("trip", "put away", "I book it.", "Marstal", "at the quay")
