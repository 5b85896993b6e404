"""Approvals under every crash: asked, answered and carried out by processes that die at any write."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed")

from campaign_log import FULL
from crash_campaign import repeatable
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

import holdfast
from holdfast.agent import Agent, Tool
from holdfast.storage import FileStore
from holdfast.testing import SimDisk

CALLS = ("a", "b")
EACH = {"power": 1, "kill": 1} if FULL else {"power": 601, "kill": 173}  # of so many states one is looked at
PARTS = 24 if FULL else 1


def opened(disk):
    """The library on a simulated disk, its catalogue in memory."""
    store = FileStore("/store", disk=disk)
    store.catalog_place = lambda: None
    return holdfast.open(store)


def agent_on(disk, ran):
    """An agent that acts twice in one step, each with permission, and then says what it was told."""

    def act(what: str) -> str:
        """Act."""
        ran.append(what)
        # What a tool does outside stays done, whatever becomes of our disk.
        disk.acknowledge(("effect", what), survives_power_loss=True)
        return f"did {what}"

    def answer(messages, _info):
        told = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        if told:
            return ModelResponse(parts=[TextPart("; ".join(str(part.content) for part in told))])
        return ModelResponse(parts=[ToolCallPart("act", {"what": what}, f"call-{what}") for what in CALLS])

    return Agent(FunctionModel(answer), tools=[Tool(act, needs_permission=True)], permission="suspend")


def work(disk):
    """Go as far as there is something to do, as a program that is started again; what ran, and what was said."""
    ran = []
    agent = agent_on(disk, ran)

    async def turn(session, prompt):
        return await agent.run(prompt, session=session)

    with opened(disk) as hf:
        with hf.session("job", autosave_ms=None) as s:
            state = s.live_state
            # A prompt that is on record is gone on with.
            begun = any(event.type == "user" for event in s.events())
            said = [event.data.get("content") for event in s.events() if event.type == "assistant"]
            if not begun:
                asyncio.run(turn(s, "go"))
            elif state.asks or not any("did" in str(text) or "unknown" in str(text) for text in said):
                asyncio.run(turn(s, None))
            disk.acknowledge(("asked", len(s.live_state.asks)))
        while questions := hf.waiting():
            for one in questions:
                hf.answer(one.id, True, by="ada")
                disk.acknowledge(("answered", one.args["what"]))
            with hf.session("job", autosave_ms=None) as s:
                asyncio.run(turn(s, None))
        if hf.inbox.due():
            with hf.session("job", autosave_ms=None) as s:
                asyncio.run(turn(s, None))
        events = list(hf.events("job"))
    return ran, events


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("mode", ["power", "kill"])
def test_crash_anywhere_between_question_and_result(mode, part):
    """After any crash an approved call ran once or is told as unknown, no answer is lost, nobody is asked twice."""
    with repeatable():
        disk = SimDisk()
        disk.make_directory("store", disk.open_root())
        base = SimDisk(disk.image())
        ran, _ = work(base)
        assert sorted(ran) == list(CALLS)
        looked = 0
        for number, state in enumerate(base.crash_states(mode)):
            if number % EACH[mode] or number // EACH[mode] % PARTS != part:
                continue
            before = {what for kind, what in state.acknowledged if kind == "effect"}
            answered = {what for kind, what in state.acknowledged if kind == "answered"}
            ran, events = work(state.disk())
            assert not before & set(ran), "done twice"
            assert len(ran) == len(set(ran)), "done twice"
            asks = [event.data["id"] for event in events if event.type == "suspended"]
            assert len(asks) == len(set(asks)) <= len(CALLS)
            by = {event.data["call"]: event.data["by"] for event in events if event.type == "permission"}
            assert all(by[f"call-{what}"] == "ada" for what in answered), "an answer was lost"
            results = {event.data["toolCallId"] for event in events if event.type == "tool_result"}
            begun = {event.data["call"] for event in events if event.type == "step"}
            said = [event.data.get("content") for event in events if event.type == "assistant"]
            # Cut off between two calls of an answer, nobody was asked about either: the model makes the second anew.
            asked = {event.data["id"] for event in events if event.type == "tool_call"}
            for call in asked - results:
                assert call in begun, "an approved call was never made"
                assert "unknown" in str(said[-1]), "nobody told that it may have been"
            looked += 1
        assert looked > 20
