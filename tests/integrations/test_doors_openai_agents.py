"""OpenAI Agents: a kill in a tool, an approval elsewhere, a fork, and what others read."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
from agents import Agent, Model, ModelResponse, Runner, RunState, Usage, function_tool
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

import holdfast
from holdfast.integrations.openai_agents import HoldfastSession

pytestmark = pytest.mark.filterwarnings("ignore")

ASKED = "a berth, please"
ALL = [ASKED, "I book it.", "berth in Marstal", "You have: berth in Marstal"]


def _text(text):
    part = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(
        id="m", type="message", role="assistant", status="completed", content=[part]
    )


class _Scripted(Model):
    """Calls the tool as long as no result is there, then tells what the last one was."""

    async def get_response(self, system_instructions, input, *args, **kwargs):
        seen = input if isinstance(input, list) else []
        results = [one["output"] for one in seen if one.get("type") == "function_call_output"]
        if results:
            output = [_text(f"You have: {results[-1]}")]
        else:
            named = {"call_id": "call-1", "name": "book", "arguments": '{"port": "Marstal"}'}
            output = [_text("I book it."), ResponseFunctionToolCall(type="function_call", **named)]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    async def stream_response(self, *args, **kwargs):
        yield


def _agent(store_root, say=None, *, asks=False, hangs=False):
    @function_tool(needs_approval=asks)
    def book(port: str) -> str:
        """Book a berth, which can be seen outside."""
        with (store_root / "../booked").open("a") as file:
            file.write(f"{port}\n")
        if hangs:
            say("waiting")
            time.sleep(600)
        return f"berth in {port}"

    return Agent("pilot", model=_Scripted(), tools=[book], instructions="Be a pilot.")


def _run(store_root, agent, given, *, id="trip"):
    return asyncio.run(Runner.run(agent, given, session=HoldfastSession(id, store_root)))


def _booked(store_root):
    return (store_root / "../booked").read_text().splitlines()


def test_kill_in_a_tool(processes, readers, store_root):
    """The SDK had not yet given the call to its session; going on calls again: booked twice."""
    processes.killed(lambda say: _run(store_root, _agent(store_root, say, hangs=True), ASKED))
    readers.all_have("trip", ASKED)
    readers.none_has("trip", "Marstal")
    told = processes.finished(
        lambda say: say(_run(store_root, _agent(store_root), "Go on").final_output)
    )
    assert told == ALL[-1:]
    assert _booked(store_root) == ["Marstal"] * 2
    readers.all_have("trip", "Go on", *ALL)


def test_approval_in_another_process(processes, readers, store_root):
    """The state of the run is kept by the program; the answer runs the tool, once."""

    def ask(say):
        result = _run(store_root, _agent(store_root, asks=True), ASKED)
        say([one.name for one in result.interruptions])
        say(json.dumps(result.to_state().to_json()))
        say("waiting")
        time.sleep(600)

    names, kept = processes.killed(ask)
    assert names == ["book"]
    readers.all_have("trip", ASKED)  # to read it spoils nothing
    with holdfast.open(store_root) as hf, hf.session("trip", repair="auto"):
        pass  # nor to open it, which repairs what a crash left

    def approve(say):
        agent = _agent(store_root, asks=True)
        state = asyncio.run(RunState.from_json(agent, json.loads(kept)))
        state.approve(state.get_interruptions()[0])
        say(_run(store_root, agent, state).final_output)

    assert processes.finished(approve) == ALL[-1:]
    assert _booked(store_root) == ["Marstal"]
    readers.all_have("trip", *ALL)


def test_fork(readers, store_root):
    """A fork of the session is one of its own id: both go on, and keep what they have."""
    agent = _agent(store_root)
    with holdfast.open(store_root) as hf:
        _run(store_root, agent, ASKED)
        at = next(event.seq for event in hf.events("trip", types={"tool_result"}))
        fork = hf.fork("trip", at)
    _run(store_root, agent, "And a lighthouse", id=fork)
    _run(store_root, agent, "And a harbour")
    readers.all_have(fork, *ALL[:3], "And a lighthouse")
    readers.none_has(fork, "And a harbour")
    readers.all_have("trip", *ALL, "And a harbour")
    readers.none_has("trip", "And a lighthouse")


def test_what_search_sees(readers, store_root):
    """Messages, calls and results; not the instructions of the agent."""
    _run(store_root, _agent(store_root), ASKED)
    readers.all_have("trip", *ALL, "Marstal")
    readers.none_has("trip", "Be a pilot.")
