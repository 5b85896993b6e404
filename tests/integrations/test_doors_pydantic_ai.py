"""Pydantic AI: a kill in a tool, an approval elsewhere, a fork, and what others read."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest
from pydantic import BaseModel, Field
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

import holdfast
from holdfast.integrations.pydantic_ai import HoldfastHistory, durable

ASKED = "a berth, please"
ALL = [ASKED, "I book it.", "berth in Marstal", "You have: berth in Marstal"]
LOST = "The tool call was interrupted before a result was produced."


class Berth(BaseModel):
    """What is booked; validated anew, the arguments of one call differ."""

    port: str
    reference: str = Field(default_factory=lambda: uuid4().hex)


def _answer(messages, info):
    parts = [part for one in messages for part in one.parts]
    results = [part.content for part in parts if part.part_kind == "tool-return"]
    if results:
        return ModelResponse(parts=[TextPart(f"You have: {results[-1]}")])
    call = ToolCallPart("book", {"port": "Marstal"}, "call-1")
    return ModelResponse(parts=[ThinkingPart("A berth it is."), TextPart("I book it."), call])


def _agent(harbour, say=None, *, asks=False):
    output = [str, DeferredToolRequests]
    agent = Agent(FunctionModel(_answer), output_type=output, instructions="Be a pilot.")

    @agent.tool_plain(requires_approval=asks)
    def book(port: str) -> str:
        """Book a berth, which can be seen outside."""
        return harbour.book(port, say)

    return agent


def _run(harbour, agent, prompt, *, id="trip", **options):
    return asyncio.run(HoldfastHistory(id, harbour.store).run(agent, prompt, **options)).output


def test_kill_in_a_tool(processes, readers, harbour):
    """The call is on record; going on tells the model, and runs nothing again: booked once."""
    processes.killed(lambda say: _run(harbour, _agent(harbour, say), ASKED))
    readers.all_have("trip", ASKED, "I book it.", "Marstal")
    told = processes.finished(lambda say: say(_run(harbour, _agent(harbour), None)))
    assert told == [f"You have: {LOST}"]
    assert harbour.booked == ["Marstal"]
    readers.all_have("trip", ASKED, "I book it.", LOST, *told)


@pytest.mark.parametrize(("id", "once", "booked"), [("call-1", True, 1), ("call-2", True, 1), ("call-2", False, 2)])
def test_kill_in_a_durable_tool(processes, harbour, id, once, booked):
    """A model that calls again, under any id, is told "unknown": booked once; twice by a tool that is not durable."""

    def run(say, id):
        def book(berth: Berth) -> str:
            """Book a berth, which can be seen outside."""
            return harbour.book(berth.port, say)

        def answer(messages, info):
            last = messages[-1].parts[-1]
            if last.part_kind == "tool-return":
                return ModelResponse(parts=[TextPart(f"You have: {last.content}")])
            return ModelResponse(parts=[ToolCallPart("book", {"berth": {"port": "Marstal"}}, id)])

        history = HoldfastHistory("trip", harbour.store)
        tools = {"toolsets": [durable(book, session=history)]} if once else {"tools": [book]}
        agent = Agent(FunctionModel(answer), **tools)
        say(asyncio.run(history.run(agent, ASKED)).output)

    processes.killed(lambda say: run(say, "call-1"))
    (told,) = processes.finished(lambda say: run(say, id))
    assert told.startswith("You have: Outcome unknown: a call of book" if once else "You have: berth in Marstal")
    assert harbour.booked == ["Marstal"] * booked


def test_approval_in_another_process(processes, readers, harbour):
    """The question outlives a kill -9; the answer in another process runs the tool, once."""

    def ask(say):
        asked = _run(harbour, _agent(harbour, asks=True), ASKED)
        say([call.tool_call_id for call in asked.approvals])
        say.wait()

    (ids,) = processes.killed(ask)
    readers.all_have("trip", ASKED, "Marstal")  # to read it spoils nothing
    harbour.repair("trip")  # nor to open it, which repairs what a crash left

    def approve(say):
        yes = DeferredToolResults(approvals=dict.fromkeys(ids, True))
        agent = _agent(harbour, asks=True)
        say(_run(harbour, agent, None, deferred_tool_results=yes))

    assert processes.finished(approve) == ALL[-1:]
    assert harbour.booked == ["Marstal"]
    readers.all_have("trip", *ALL)


def test_fork(readers, harbour):
    """A fork of the session is one of its own id: both go on, and keep what they have."""
    agent = _agent(harbour)
    with holdfast.open(harbour.store) as hf:
        _run(harbour, agent, ASKED)
        at = next(event.seq for event in hf.events("trip", types={"tool_result"}))
        fork = hf.fork("trip", at)
    _run(harbour, agent, "And a lighthouse", id=fork)
    _run(harbour, agent, "And a harbour")
    readers.keep_apart((fork, "And a lighthouse", ALL[:3]), ("trip", "And a harbour", ALL))


def test_what_search_sees(readers, harbour):
    """Prompts, answers, calls and results; not the instructions, which each run gives anew."""
    _run(harbour, _agent(harbour), ASKED)
    readers.all_have("trip", *ALL, "Marstal")
    readers.none_has("trip", "Be a pilot.")
