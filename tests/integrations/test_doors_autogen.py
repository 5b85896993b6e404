"""AutoGen: a kill in a tool, an approval elsewhere, a fork, and what others read."""

from __future__ import annotations

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import HandoffTermination, TextMentionTermination
from autogen_agentchat.messages import HandoffMessage, StructuredMessage, TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import FunctionCall
from autogen_core.models import ChatCompletionClient, CreateResult, ModelFamily, ModelInfo, RequestUsage
from pydantic import BaseModel

import holdfast
from holdfast.integrations.autogen import HoldfastState


class _Scripted(ChatCompletionClient):
    """A model that asks first if it can, books then, and says what it got."""

    async def create(self, messages, *, tools=(), **_):
        last = messages[-1]
        names = {one["name"] if isinstance(one, dict) else one.name for one in tools}
        if last.type == "FunctionExecutionResultMessage":
            content = f"You have a {last.content[0].content}. Done."
        elif "transfer_to_user" in names and "approved" not in str(last.content):
            content = [FunctionCall("call-0", "{}", "transfer_to_user")]
        elif "book" in names:
            content = [FunctionCall("call-1", '{"port": "Marstal"}', "book")]
        else:
            content = f"re: {last.content}"
        reason = "stop" if isinstance(content, str) else "function_calls"
        thought = None if isinstance(content, str) else "I book it."
        return CreateResult(
            finish_reason=reason, content=content, usage=RequestUsage(1, 1), cached=False, thought=thought
        )

    async def create_stream(self, messages, **options):
        yield await self.create(messages, **options)

    async def close(self):
        pass

    def actual_usage(self):
        return RequestUsage(0, 0)

    def count_tokens(self, _messages, **_):
        return 0

    total_usage, remaining_tokens = actual_usage, count_tokens

    @property
    def model_info(self):
        can = dict.fromkeys(("vision", "json_output", "structured_output"), False)
        return ModelInfo(family=ModelFamily.UNKNOWN, function_calling=True, **can)

    capabilities = model_info


def _agent(harbour, say=None, **options):
    async def book(port: str) -> str:
        """Book a berth, which can be seen outside."""
        return harbour.book(port, say)

    options |= {"tools": [book], "system_message": None, "reflect_on_tool_use": True}
    return AssistantAgent("helper", _Scripted(), **options)


def test_kill_in_a_tool(processes, readers, harbour):
    """What happens between two calls of `save` is not on record: the tool runs again."""

    async def run(say):
        state = HoldfastState("trip", harbour.store)
        agent = _agent(harbour, say)
        await state.load(agent)
        await agent.run(task="a berth, please")
        await state.save(agent)

    processes.killed(lambda say: asyncio.run(run(say)))
    with holdfast.open(harbour.store) as hf:
        assert not hf.list()
    processes.finished(lambda say: asyncio.run(run(say)))
    assert harbour.booked == ["Marstal"] * 2
    readers.all_have("trip", "a berth, please", "Marstal", "berth in Marstal", "You have a")


def test_approval_in_another_process(processes, readers, harbour):
    """A team that handed over to the user is saved; the answer elsewhere runs the tool, once."""

    def team(say):
        agent = _agent(harbour, say, handoffs=["user"])
        ends = HandoffTermination("user") | TextMentionTermination("Done")
        return RoundRobinGroupChat([agent], termination_condition=ends)

    async def ask(say):
        asking, state = team(say), HoldfastState("trip", harbour.store)
        result = await asking.run(task="a berth, please")
        await state.save(asking)
        say(type(result.messages[-1]).__name__)
        say.wait()

    async def approve(say):
        answering, state = team(say), HoldfastState("trip", harbour.store)
        await state.load(answering)
        answer = HandoffMessage(source="user", target="helper", content="approved")
        result = await answering.run(task=answer)
        await state.save(answering)
        say(result.messages[-1].content)

    assert processes.killed(lambda say: asyncio.run(ask(say))) == ["HandoffMessage"]
    readers.all_have("trip", "a berth, please", "Transferred to user")
    harbour.repair("trip")  # to open it, which repairs what a crash left, spoils nothing
    said = processes.finished(lambda say: asyncio.run(approve(say)))
    assert said == ["You have a berth in Marstal. Done."]
    assert harbour.booked == ["Marstal"]
    readers.all_have("trip", "a berth, please", "approved", "berth in Marstal")


async def test_fork(readers, harbour):
    """A fork of the session is a state of its own; both go on, and neither sees the other."""

    async def said(hf, id, word):
        state, agent = HoldfastState(id, hf), AssistantAgent("helper", _Scripted())
        await state.load(agent)
        await agent.run(task=word)
        await state.save(agent)
        context = (await agent.save_state())["llm_context"]["messages"]
        return [message["content"] for message in context if message["type"] == "UserMessage"]

    with holdfast.open(harbour.store) as hf:
        await said(hf, "trip", "begun")
        hf.fork("trip", new_id="other")
        assert await said(hf, "trip", "harbour") == ["begun", "harbour"]
        assert await said(hf, "other", "lighthouse") == ["begun", "lighthouse"]
    readers.keep_apart(
        ("trip", "harbour", ["re: begun", "re: harbour"]), ("other", "lighthouse", ["re: begun", "re: lighthouse"])
    )


class _Berth(BaseModel):
    port: str


async def test_what_search_sees(readers, harbour):
    """Of an agent all it says, calls and gets; of a team its thread, not its agents' own calls."""
    thread = [
        TextMessage(source="user", content="where to").dump(),
        StructuredMessage[_Berth](source="helper", content=_Berth(port="Troense")).dump(),
        HandoffMessage(source="helper", target="user", content="at the quay").dump(),
    ]
    inner = [{"type": "UserMessage", "source": "user", "content": "in the agent alone"}]
    states = {
        "RoundRobinGroupChatManager/1": {"message_thread": thread},
        "helper/1": {"agent_state": {"llm_context": {"messages": inner}}},
    }

    class Team:
        async def save_state(self):
            return {"type": "TeamState", "agent_states": states}

    with holdfast.open(harbour.store) as hf:
        state, agent = HoldfastState("alone", hf), _agent(harbour)
        await agent.run(task="a berth, please")
        await state.save(agent)
        again = _agent(harbour)
        assert await HoldfastState("alone", hf).load(again)
        assert await again.save_state() == await agent.save_state()
        await HoldfastState("team", hf).save(Team())
    readers.all_have("alone", "a berth, please", "I book it.", "Marstal", "You have a berth")
    readers.all_have("team", "where to", "Troense", "at the quay")
    readers.none_has("team", "in the agent alone")
