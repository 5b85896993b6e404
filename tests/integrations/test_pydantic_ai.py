"""Pydantic AI on our log."""

from __future__ import annotations

from pydantic_ai import Agent
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel

import holdfast
from holdfast.integrations.pydantic_ai import HoldfastHistory


def _scripted(messages, info):
    if len(messages) % 4 == 1:
        parts = [ThinkingPart("Hm.", signature="s"), TextPart("I look."), _call()]
        return ModelResponse(parts=parts)
    return ModelResponse(parts=[TextPart(f"{len(messages)} messages seen")])


def _call():
    return ToolCallPart("look", {"n": 1}, "c1")


def _agent():
    agent = Agent(FunctionModel(_scripted), system_prompt="Be kind.")

    @agent.tool_plain
    def look(n: int) -> str:
        return "a tree"

    return agent


async def test_messages_come_back_as_they_went_in(hf):
    """All kinds of parts, deep-equal, also from another object."""
    messages = [
        ModelRequest(parts=[UserPromptPart(["see", BinaryContent(b"\0\1", media_type="image/png")])]),
        ModelResponse(parts=[ThinkingPart("Hm."), TextPart("a"), _call(), TextPart("b")]),
        ModelRequest(parts=[ToolReturnPart("look", "again", "c1", outcome="retried")]),
        ModelResponse(parts=[]),
    ]
    await HoldfastHistory("trip", hf).append(messages)
    as_its_own_json = ModelMessagesTypeAdapter.dump_json(messages)
    assert HoldfastHistory("trip", hf).messages() == ModelMessagesTypeAdapter.validate_json(as_its_own_json)


async def test_a_run_is_recorded_step_by_step(hf):
    """After each step what was said is on record; at the end all of it, once."""
    history, agent = HoldfastHistory("trip", hf), _agent()
    async with history.iter(agent, "Look around") as steps:
        seen = [len(HoldfastHistory("trip", hf).messages()) async for _ in steps]
    assert seen == sorted(seen)
    assert seen[-1] == 4
    assert history.messages() == steps.run.result.all_messages()


async def test_a_second_run_goes_on(hf):
    """The history is given to the next run, and only what is new is recorded."""
    history, agent = HoldfastHistory("trip", hf), _agent()
    await history.run(agent, "Look around")
    result = await HoldfastHistory("trip", hf).run(agent, "And again")
    assert result.all_messages() == HoldfastHistory("trip", hf).messages()
    assert result.output == "7 messages seen"


async def test_its_sessions_are_sessions_like_any_other(hf):
    """Recover pairs the call with its result, and search finds the words."""
    await HoldfastHistory("trip", hf).run(_agent(), "Look around")
    recovery = hf.recover("trip")
    assert recovery.system == "Be kind."
    assert [message["role"] for message in recovery.messages] == [*("user", "assistant", "user", "assistant")]
    assert {hit.role for hit in hf.search("tree")} == {"tool_result"}
    assert hf.list()[0].total_tokens > 0


async def test_a_history_can_be_replaced(hf):
    """A shortened history takes the place of the long one; the log keeps both."""
    history = HoldfastHistory("trip", hf)
    await history.run(_agent(), "Look around")
    short = [ModelRequest(parts=[UserPromptPart("in short")])]
    await history.replace(short)
    assert HoldfastHistory("trip", hf).messages() == short
    assert [event.data["content"] for event in hf.events("trip", types={"user"})] == [*("Look around", "in short")]


async def test_a_session_of_others_goes_on(hf):
    """What another framework recorded is the history of the next run."""
    with hf.session("trip") as s:
        s.user("Hello")
        call = s.tool_call("look", {"n": 1})
        s.tool_result(call, "text")
        s.assistant("Done")
    history = HoldfastHistory("trip", hf)
    assert len(history.messages()) == 4
    result = await history.run(_agent(), "And now?")
    assert result.output == "7 messages seen"
    assert len(HoldfastHistory("trip", hf).messages()) == 8


_PROGRAM = """
    import asyncio, sys, time
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from holdfast.integrations.pydantic_ai import HoldfastHistory

    store, hangs = sys.argv[1], sys.argv[2] == "hang"

    def scripted(messages, info):
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("look", {}, "c1")])
        if hangs:
            print("waiting", flush=True)
            time.sleep(600)
        return ModelResponse(parts=[TextPart(f"{len(messages)} seen")])

    agent = Agent(FunctionModel(scripted))

    @agent.tool_plain
    def look() -> str:
        return "a tree"

    async def main():
        result = await HoldfastHistory("trip", store).run(agent, "Look" if hangs else "Go on")
        print(result.output, flush=True)

    asyncio.run(main())
"""


def test_a_run_that_was_killed_goes_on(programs, store_root):
    """A kill -9 in a real run; the next one is given what was done before."""
    programs.killed(_PROGRAM)
    assert programs.finished(_PROGRAM) == "3 seen\n"  # a result and a prompt are sent as one
    with holdfast.open(store_root) as hf:
        prompts = [event.data["content"] for event in hf.events("trip", types={"user"})]
        assert prompts == ["Look", "Go on"]
        assert hf.verify("trip").ok
        assert not [one for one in hf.recover("trip").issues if "orphan" in one.type]
