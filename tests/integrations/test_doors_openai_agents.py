"""OpenAI Agents: a kill in a tool, an approval elsewhere, a fork, and what others read."""

from __future__ import annotations

import asyncio
import json

import pytest
from agents import Agent, Model, ModelResponse, Runner, RunState, Usage, function_tool
from agents.tool_context import ToolContext
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

import holdfast
from holdfast.integrations.openai_agents import HoldfastSession, durable

pytestmark = pytest.mark.filterwarnings("ignore")

ASKED = "a berth, please"
ARGS = '{"port": "Marstal"}'
CALL = ["call-1"]
ALL = [ASKED, "I book it.", "berth in Marstal", "You have: berth in Marstal"]


def _text(text):
    part = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[part])


class _Scripted(Model):
    """Calls the tool as long as no result is there, then tells what the last one was."""

    async def get_response(self, system_instructions, input, *args, **kwargs):
        seen = input if isinstance(input, list) else []
        results = [one["output"] for one in seen if one.get("type") == "function_call_output"]
        if results:
            output = [_text(f"You have: {results[-1]}")]
        else:
            named = {"call_id": CALL[0], "name": "book", "arguments": '{"port": "Marstal"}'}
            output = [_text("I book it."), ResponseFunctionToolCall(type="function_call", **named)]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    async def stream_response(self, *args, **kwargs):
        yield


def _agent(harbour, say=None, *, asks=False, once=False):
    @function_tool(needs_approval=asks)
    def book(port: str) -> str:
        """Book a berth, which can be seen outside."""
        return harbour.book(port, say)

    tools = [durable(book, session=HoldfastSession("trip", harbour.store))] if once else [book]
    return Agent("pilot", model=_Scripted(), tools=tools, instructions="Be a pilot.")


def _run(harbour, agent, given, *, id="trip"):
    return asyncio.run(Runner.run(agent, given, session=HoldfastSession(id, harbour.store)))


def test_kill_in_a_tool(processes, readers, harbour):
    """The SDK had not yet given the call to its session; going on calls again: booked twice."""
    processes.killed(lambda say: _run(harbour, _agent(harbour, say), ASKED))
    readers.all_have("trip", ASKED)
    readers.none_has("trip", "Marstal")
    told = processes.finished(lambda say: say(_run(harbour, _agent(harbour), "Go on").final_output))
    assert told == ALL[-1:]
    assert harbour.booked == ["Marstal"] * 2
    readers.all_have("trip", "Go on", *ALL)


@pytest.mark.parametrize("id", ["call-1", "call-2"])
def test_kill_in_a_durable_tool(processes, harbour, monkeypatch, id):
    """Whatever id the model's next call has, it is told that the outcome is unknown: booked once."""

    def go_on(say):
        CALL[0] = id
        say(_run(harbour, _agent(harbour, once=True), "Go on").final_output)

    processes.killed(lambda say: _run(harbour, _agent(harbour, say, once=True), ASKED))
    (told,) = processes.finished(go_on)
    assert told.startswith("You have: Outcome unknown: a call of book with these arguments began")
    assert harbour.booked == ["Marstal"]


def test_a_durable_tool_runs_again_after_the_model_was_told(processes, harbour, monkeypatch):
    """Told once, an identical call is a new one; so is one in the same process."""

    def call(say):
        tool = _agent(harbour, once=True).tools[0]
        for id in ("call-2", "call-2", "call-3", "call-4"):
            context = ToolContext(None, tool_name="book", tool_call_id=id, tool_arguments=ARGS)
            say(asyncio.run(tool.on_invoke_tool(context, ARGS))[:15])

    processes.killed(lambda say: _run(harbour, _agent(harbour, say, once=True), ASKED))
    assert processes.finished(call) == ["Outcome unknown"] * 2 + ["berth in Marsta"] * 2
    assert harbour.booked == ["Marstal"] * 3


@pytest.mark.parametrize("port", ['"\\ud83d"', "NaN"])
def test_arguments_that_are_hardly_json_are_a_call_as_any_other(harbour, port):
    """Models give halves of characters and numbers that are none: the tool is given them, once for each call."""

    @function_tool
    def book(port: str | float) -> str:
        """Book a berth."""
        return harbour.book("somewhere")

    tool = durable(book, session=HoldfastSession("trip", harbour.store))
    arguments = f'{{"port": {port}}}'
    for id in ("call-1", "call-1", "call-2"):
        context = ToolContext(None, tool_name="book", tool_call_id=id, tool_arguments=arguments)
        assert asyncio.run(tool.on_invoke_tool(context, arguments)) == "berth in somewhere"
    assert harbour.booked == ["somewhere"] * 2


@pytest.mark.parametrize(
    ("unknown", "told", "booked"),
    [("rerun", "berth in Marstal", 2), (lambda step: f"found {step.arguments['port']}", "found Marstal", 1)],
)
def test_what_becomes_of_a_call_whose_outcome_is_unknown(processes, harbour, unknown, told, booked):
    """It runs again, or is looked up, where the program says so."""

    def call(say):
        book = _agent(harbour).tools[0]
        tool = durable(book, session=HoldfastSession("trip", harbour.store), unknown=unknown)
        context = ToolContext(None, tool_name="book", tool_call_id="call-2", tool_arguments=ARGS)
        say(asyncio.run(tool.on_invoke_tool(context, ARGS)))

    processes.killed(lambda say: _run(harbour, _agent(harbour, say, once=True), ASKED))
    assert processes.finished(call) == [told]
    assert harbour.booked == ["Marstal"] * booked


def test_a_result_that_never_reached_the_conversation_is_given_to_the_next_call(processes, harbour):
    """The tool had ended when the process died: its result is known, and nothing runs again."""

    def call(id, say):
        tool = _agent(harbour, once=True).tools[0]
        context = ToolContext(None, tool_name="book", tool_call_id=id, tool_arguments=ARGS)
        say(asyncio.run(tool.on_invoke_tool(context, ARGS)))
        say.wait()

    processes.killed(lambda say: call("call-1", say))
    assert processes.finished(lambda say: call("call-2", say)) == ["berth in Marstal"]
    assert harbour.booked == ["Marstal"]


def test_approval_in_another_process(processes, readers, harbour):
    """The state of the run is kept by the program; the answer runs the tool, once."""

    def ask(say):
        result = _run(harbour, _agent(harbour, asks=True), ASKED)
        say([one.name for one in result.interruptions])
        say(json.dumps(result.to_state().to_json()))
        say.wait()

    names, kept = processes.killed(ask)
    assert names == ["book"]
    readers.all_have("trip", ASKED)  # to read it spoils nothing
    harbour.repair("trip")  # nor to open it, which repairs what a crash left

    def approve(say):
        agent = _agent(harbour, asks=True)
        state = asyncio.run(RunState.from_json(agent, json.loads(kept)))
        state.approve(state.get_interruptions()[0])
        say(_run(harbour, agent, state).final_output)

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
    """Messages, calls and results; not the instructions of the agent."""
    _run(harbour, _agent(harbour), ASKED)
    readers.all_have("trip", *ALL, "Marstal")
    readers.none_has("trip", "Be a pilot.")
