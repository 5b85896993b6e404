"""AutoGen's states on our log."""

from __future__ import annotations

import math

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import FunctionCall
from autogen_core.models import ChatCompletionClient, CreateResult, ModelFamily, ModelInfo, RequestUsage

from holdfast.integrations.autogen import HoldfastState


class _Scripted(ChatCompletionClient):
    """A model that says how many messages it sees, and calls a tool if it is asked to look."""

    async def create(self, messages, **options):
        last = messages[-1]
        if last.type == "UserMessage" and "look" in last.content:
            content = [FunctionCall(f"c{n}-{len(messages)}", '{"n": 1}', "look") for n in (1, 2)]
        else:
            content = f"{len(messages)} seen"
        usage = RequestUsage(1, 1)
        reason = "stop" if isinstance(content, str) else "function_calls"
        return CreateResult(finish_reason=reason, content=content, usage=usage, cached=False)

    async def create_stream(self, messages, **options):
        yield await self.create(messages, **options)

    async def close(self):
        pass

    def actual_usage(self):
        return RequestUsage(0, 0)

    total_usage = actual_usage

    def count_tokens(self, messages, **options):
        return 0

    remaining_tokens = count_tokens

    @property
    def capabilities(self):
        return self.model_info

    @property
    def model_info(self):
        return ModelInfo(
            vision=False, function_calling=True, json_output=False, family=ModelFamily.UNKNOWN, structured_output=False
        )


async def look(n: int) -> str:
    """See what is there."""
    return f"tree {n}"


def _agent(name="helper"):
    return AssistantAgent(name, _Scripted(), tools=[look], system_message=None)


async def test_an_agent_goes_on_in_another_process_object(hf):
    """A real agent with tools: its state is loaded as it was saved, and it sees what was said."""
    agent = _agent()
    assert not await HoldfastState("trip", hf).load(agent)
    await agent.run(task="Please look")
    await HoldfastState("trip", hf).save(agent)
    again = _agent()
    assert await HoldfastState("trip", hf).load(again)
    assert await again.save_state() == await agent.save_state()
    result = await again.run(task="And?")
    assert result.messages[-1].content == "4 seen"
    state = HoldfastState("trip", hf)
    await state.save(again)
    state.close()
    recovery = hf.recover("trip")
    assert not recovery.issues
    assert {hit.role for hit in hf.search("tree")} == {"tool_result"}
    said = [event.data["content"] for event in hf.events("trip", types={"user"})]
    assert said == ["Please look", "And?"]


async def test_a_team_goes_on(hf):
    """The thread of a real team is the conversation, and its state the same."""

    def team():
        agents = [_agent("one"), _agent("two")]
        return RoundRobinGroupChat(agents, termination_condition=MaxMessageTermination(3))

    first = team()
    await first.run(task="Hello")
    await HoldfastState("team", hf).save(first)
    second = team()
    assert await HoldfastState("team", hf).load(second)
    assert await second.save_state() == await first.save_state()
    await second.run(task="Again")
    await HoldfastState("team", hf).save(second)
    said = [event.data["content"] for event in hf.events("team", types={"user"})]
    assert said == ["Hello", "Again"]
    agents = {event.data.get("agent") for event in hf.events("team", types={"assistant"})}
    assert agents == {"one", "two"}


class _State:
    def __init__(self, state=None):
        self.state = state

    async def save_state(self):
        return self.state

    async def load_state(self, state):
        self.state = state


async def test_any_state_is_kept(hf):
    """A state without messages, and one whose messages became fewer, come back as they were."""
    kept = HoldfastState("trip", hf)
    thread = [{"type": "TextMessage", "source": "user", "content": text} for text in "abc"]
    for state in (
        {"x": [1, {"y": None}]},
        {"agent_states": {"m": {"message_thread": thread}, "n": {"z": 1}}},
        {"agent_states": {"m": {"message_thread": [thread[0], {"type": "Stop"}]}}},
    ):
        await kept.save(_State(state))
        loaded = _State()
        assert await HoldfastState("trip", hf).load(loaded)
        assert loaded.state == state


async def test_bytes_grow_with_what_is_new(hf, store_root):
    """Four times the turns take about four times the bytes."""
    sizes = {}
    for turns in (30, 120):
        kept, messages = HoldfastState(f"t{turns}", hf), []
        for n in range(turns):
            messages.append({"type": "UserMessage", "source": "user", "content": f"{n}" + "x" * 200})
            await kept.save(_State({"llm_context": {"messages": list(messages)}}))
        files = (store_root / "sessions" / f"t{turns}").rglob("*.jsonl")
        sizes[turns] = sum(file.stat().st_size for file in files)
    assert math.log(sizes[120] / sizes[30], 4) < 1.1


async def test_an_agent_can_go_on_with_what_others_recorded(hf):
    """Calls and results are those of its context; the next answer sees them."""
    with hf.session("trip") as s:
        s.system("Be kind.")
        s.user("Hello")
        calls = [s.tool_call("look", {"n": n}) for n in (1, 2)]
        s.tool_result(calls[0], "text")
        s.tool_result(calls[1], [{"type": "text", "text": "more"}], is_error=True)
        s.assistant("Done")
    agent = _agent()
    assert await HoldfastState("trip", hf).load(agent)
    result = await agent.run(task="And?")
    assert result.messages[-1].content == "6 seen"
