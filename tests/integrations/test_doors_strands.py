"""Strands: a kill in a tool, an approval elsewhere, a fork, and what others read."""

from __future__ import annotations

import json

import pytest
from strands import Agent, tool
from strands.hooks import BeforeToolCallEvent, HookProvider
from strands.models import Model
from strands.session.repository_session_manager import RepositorySessionManager

import holdfast
from holdfast.integrations.strands import HoldfastSessionRepository, durable

pytestmark = pytest.mark.filterwarnings("ignore")

ASKED = "a berth, please"
ALL = [ASKED, "I book it.", "berth in Marstal"]


class _Scripted(Model):
    """Calls the tool as long as no result is there, then tells what the last one was."""

    def update_config(self, **config): ...

    def get_config(self):
        return {}

    def structured_output(self, *args, **kwargs):
        raise NotImplementedError

    async def stream(self, messages, *args, **kwargs):
        parts = [part for one in messages for part in one["content"]]
        results = [part["toolResult"] for part in parts if "toolResult" in part]
        text = f"You have: {results[-1]['content'][0]['text']}" if results else "I book it."
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": text}}}
        yield {"contentBlockStop": {}}
        if not results:
            use = {"toolUseId": "call-1", "name": "book"}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            given = json.dumps({"port": "Marstal"})
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": given}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if results else "tool_use"}}


class _Ask(HookProvider):
    def register_hooks(self, registry, **_):
        registry.add_callback(BeforeToolCallEvent, self.ask)

    def ask(self, event):
        if event.interrupt("approve", reason="book Marstal?") != "yes":
            event.cancel_tool = "no"


def _agent(harbour, say=None, *, id="trip", asks=False, once=False):
    @tool
    def book(port: str) -> str:
        """Book a berth, which can be seen outside."""
        return harbour.book(port, say)

    manager = RepositorySessionManager(id, HoldfastSessionRepository(harbour.store))
    return Agent(
        agent_id="main",
        model=_Scripted(),
        tools=[durable(book, session=manager) if once else book],
        hooks=[_Ask()] if asks else [],
        session_manager=manager,
        callback_handler=None,
    )


def test_kill_in_a_tool(processes, readers, harbour):
    """The call is on record; going on tells the model, and runs nothing again: booked once."""
    processes.killed(lambda say: _agent(harbour, say)(ASKED))
    readers.all_have("trip", ASKED, "I book it.", "Marstal")
    told = processes.finished(lambda say: say(str(_agent(harbour)("Go on")).strip()))
    assert told == ["You have: Tool was interrupted."]
    assert harbour.booked == ["Marstal"]
    readers.all_have("trip", ASKED, "Tool was interrupted.", "Go on", *told)


@pytest.mark.parametrize(("once", "booked"), [(True, 1), (False, 2)])
def test_kill_in_a_durable_tool(processes, harbour, monkeypatch, once, booked):
    """A model that calls again is told that the outcome is unknown: booked once, and twice by a tool that is not."""
    asked = _Scripted.stream

    async def insist(self, messages, *args, **kwargs):
        text = str(messages[-1]["content"])
        seen = messages if "toolResult" in text and "Tool was interrupted." not in text else []
        async for event in asked(self, seen, *args, **kwargs):
            yield event

    def go_on(say):
        monkeypatch.setattr(_Scripted, "stream", insist)
        say(str(_agent(harbour, once=once)("Go on")).strip())

    processes.killed(lambda say: _agent(harbour, say, once=once)(ASKED))
    (told,) = processes.finished(go_on)
    unknown = "You have: Outcome unknown: a call of book with these arguments began"
    assert told.startswith(unknown if once else "You have: berth in Marstal")
    assert harbour.booked == ["Marstal"] * booked


def test_approval_in_another_process(processes, readers, harbour):
    """The question outlives a kill -9; the answer in another process runs the tool, once."""

    def ask(say):
        result = _agent(harbour, asks=True)(ASKED)
        say([result.interrupts[0].id, result.interrupts[0].reason])
        say.wait()

    ((id, reason),) = processes.killed(ask)
    assert reason == "book Marstal?"
    readers.all_have("trip", ASKED, "Marstal")  # to read it spoils nothing
    harbour.repair("trip")  # nor to open it, which repairs what a crash left

    def approve(say):
        answer = {"interruptResponse": {"interruptId": id, "response": "yes"}}
        agent = _agent(harbour, asks=True)
        agent([answer])
        parts = [part for one in agent.messages for part in one["content"]]
        say([part["toolResult"]["status"] for part in parts if "toolResult" in part])

    assert processes.finished(approve) == [["success"]]
    assert harbour.booked == ["Marstal"]
    readers.all_have("trip", *ALL, "You have: berth in Marstal")


def test_fork(readers, harbour):
    """A fork of the session is one of its own id: both go on, and keep what they have."""
    with holdfast.open(harbour.store) as hf:
        _agent(harbour)(ASKED)
        at = next(event.seq for event in hf.events("trip", types={"tool_result"}))
        fork = hf.fork("trip", at)
    _agent(harbour, id=fork)("And a lighthouse")
    _agent(harbour)("And a harbour")
    readers.keep_apart((fork, "And a lighthouse", ALL), ("trip", "And a harbour", ALL))


def test_what_search_sees(readers, harbour):
    """What was said, calls and results; not the state of an agent."""
    agent = _agent(harbour)
    agent.state.set("note", "in the state")
    agent(ASKED)
    readers.all_have("trip", *ALL, "Marstal")
    readers.none_has("trip", "in the state")
