"""Agent Development Kit: a kill in a tool, an approval elsewhere, a fork, and what others read."""

from __future__ import annotations

import asyncio

import pytest
from google.adk.agents import LlmAgent
from google.adk.apps import App, ResumabilityConfig
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.tools import FunctionTool
from google.genai import types

import holdfast
from holdfast.integrations.adk import HoldfastSessionService, durable

pytestmark = pytest.mark.filterwarnings("ignore")

ASKED = "a berth, please"
ALL = [ASKED, "I book it.", "berth in Marstal", "You have a berth"]
CALL = ["call-1"]
_CONFIRM = "adk_request_confirmation"


class _Scripted(BaseLlm):
    """Calls the tool as long as no booking is there, then says so."""

    async def generate_content_async(self, request, stream=False):
        parts = [part for one in request.contents for part in one.parts]
        results = [part.function_response for part in parts if part.function_response]
        done = [one for one in results if "berth" in str(one.response) or "unknown" in str(one.response)]
        call = types.FunctionCall(id=CALL[0], name="book", args={"port": "Marstal"})
        asking = [types.Part(text="I book it."), types.Part(function_call=call)]
        said = [types.Part(text="You have a berth")] if done else asking
        yield LlmResponse(content=types.Content(role="model", parts=said))


def _runner(harbour, say=None, *, asks=False, once=False):
    def book(port: str) -> str:
        """Book a berth, which can be seen outside."""
        return harbour.book(port, say)

    service = HoldfastSessionService(harbour.store)
    tools = [FunctionTool(book, require_confirmation=asks)]
    if once:
        tools = [durable(tool, session=service) for tool in tools]
    agent = LlmAgent(name="pilot", model=_Scripted(model="x"), tools=tools, instruction="Be kind.")
    resumable = ResumabilityConfig(is_resumable=True)
    app = App(name="app", root_agent=agent, resumability_config=resumable)
    return Runner(app=app, session_service=service)


def _run(runner, *parts, id="trip", **given):
    """The events of a run that goes on with the session, or with an invocation of it."""

    async def run():
        named = {"user_id": "u", "session_id": id}
        service = runner.session_service
        if await service.get_session(app_name="app", **named) is None:
            await service.create_session(app_name="app", **named)
        if parts:
            given["new_message"] = types.Content(role="user", parts=list(parts))
        return [event async for event in runner.run_async(**named, **given)]

    return asyncio.run(run())


def _said(events):
    parts = [part for one in events if one.content for part in one.content.parts]
    return [part.text for part in parts if part.text]


def test_kill_in_a_tool(processes, readers, harbour):
    """The call is on record; resuming the invocation runs the tool again: booked twice."""
    asked = types.Part(text=ASKED)
    processes.killed(lambda say: _run(_runner(harbour, say), asked))
    readers.all_have(harbour.only_id(), ASKED, "I book it.", "Marstal")
    with holdfast.open(harbour.store) as hf:
        service = HoldfastSessionService(hf)
        named = {"app_name": "app", "user_id": "u", "session_id": "trip"}
        session = asyncio.run(service.get_session(**named))
    invocation = session.events[-1].invocation_id

    def go_on(say):
        say(_said(_run(_runner(harbour), invocation_id=invocation)))

    assert processes.finished(go_on) == [ALL[-1:]]
    assert harbour.booked == ["Marstal"] * 2
    readers.all_have(harbour.only_id(), *ALL)


@pytest.mark.parametrize("resumed", [True, False])
def test_kill_in_a_durable_tool(processes, readers, harbour, monkeypatch, resumed):
    """The same call or one of another id: the model is told that the outcome is unknown, booked once."""
    asked = types.Part(text=ASKED)
    processes.killed(lambda say: _run(_runner(harbour, say, once=True), asked))

    def go_on(say):
        CALL[0] = "call-2"
        runner = _runner(harbour, once=True)
        named = {"app_name": "app", "user_id": "u", "session_id": "trip"}
        session = asyncio.run(runner.session_service.get_session(**named))
        invocation = {"invocation_id": session.events[-1].invocation_id}
        say(_said(_run(runner, **invocation) if resumed else _run(runner, types.Part(text="Go on"))))

    processes.finished(go_on)
    assert harbour.booked == ["Marstal"]
    readers.all_have(harbour.only_id(), "Outcome unknown: a call of book with these arguments began")


def test_a_durable_tool_that_needs_confirmation(processes, harbour):
    """Asking is not acting: confirmed in another process it runs, once."""

    def ask(say):
        events = _run(_runner(harbour, asks=True, once=True), types.Part(text=ASKED))
        calls = [call for event in events for call in event.get_function_calls()]
        say([call.id for call in calls if call.name == _CONFIRM])
        say.wait()

    ((id,),) = processes.killed(ask)

    def approve(say):
        answer = types.FunctionResponse(id=id, name=_CONFIRM, response={"confirmed": True})
        runner = _runner(harbour, asks=True, once=True)
        say(_said(_run(runner, types.Part(function_response=answer))))

    assert processes.finished(approve) == [ALL[-1:]]
    assert harbour.booked == ["Marstal"]


def test_approval_in_another_process(processes, readers, harbour):
    """The question outlives a kill -9; the answer in another process runs the tool, once."""

    def ask(say):
        events = _run(_runner(harbour, asks=True), types.Part(text=ASKED))
        calls = [call for event in events for call in event.get_function_calls()]
        say([call.id for call in calls if call.name == _CONFIRM])
        say.wait()

    ((id,),) = processes.killed(ask)
    own = harbour.only_id()
    readers.all_have(own, ASKED, "Marstal")  # to read it spoils nothing
    harbour.repair(own)  # nor to open it, which repairs what a crash left

    def approve(say):
        answer = types.FunctionResponse(id=id, name=_CONFIRM, response={"confirmed": True})
        runner = _runner(harbour, asks=True)
        say(_said(_run(runner, types.Part(function_response=answer))))

    assert processes.finished(approve) == [ALL[-1:]]
    assert harbour.booked == ["Marstal"]
    readers.all_have(own, *ALL)


def test_fork(readers, harbour):
    """A fork of the session is one of the same user and app: both go on with what they have."""
    runner = _runner(harbour)
    _run(runner, types.Part(text=ASKED))
    own = harbour.only_id()
    with holdfast.open(harbour.store) as hf:
        at = next(event.seq for event in hf.events(own, types={"tool_result"}))
        fork = hf.fork(own, at)
    _run(runner, types.Part(text="And a lighthouse"), id=fork)
    _run(runner, types.Part(text="And a harbour"))
    readers.keep_apart((fork, "And a lighthouse", ALL[:3]), (own, "And a harbour", ALL))


def test_what_search_sees(readers, harbour):
    """What was said, calls and results; not instructions, nor the state, which is variables."""

    async def change():
        named = {"app_name": "app", "user_id": "u", "session_id": "trip"}
        state = {"note": "in the state"}
        await HoldfastSessionService(harbour.store).create_session(**named, state=state)

    asyncio.run(change())
    _run(_runner(harbour), types.Part(text=ASKED))
    own = harbour.only_id()
    readers.all_have(own, *ALL, "Marstal")
    readers.none_has(own, "in the state", "Be kind.")
