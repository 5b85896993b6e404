"""What an agent does in an event loop, it does without one too."""

from __future__ import annotations

import inspect
import threading

import pytest
from tests.scripts import scripted

from holdfast.agent import Agent, Runtime
from holdfast.errors import UsageError

# Verbs of the class itself: turns that a host runs belong to its event loop.
VERBS = [
    (kind, name)
    for kind in (Agent, Runtime)
    for name, each in vars(kind).items()
    if not name.startswith("_") and inspect.isfunction(each)
]
WAITING = [(kind, name) for kind, name in VERBS if inspect.iscoroutinefunction(getattr(kind, name))]


@pytest.mark.parametrize(("kind", "name"), WAITING)
def test_every_coroutine_has_a_plain_twin(kind, name):
    """What can be awaited can be called as well, with the same arguments: ``run_sync``, ``load`` for ``aload``."""
    twin = getattr(kind, f"{name}_sync", None) or (getattr(kind, name[1:], None) if name.startswith("a") else None)
    assert twin is not None
    assert not inspect.iscoroutinefunction(twin)
    assert list(inspect.signature(twin).parameters) == list(inspect.signature(getattr(kind, name)).parameters)


INSTANT = ["run_stream", "resume_stream", "steer", "subscribe"]


@pytest.mark.parametrize(("kind", "name"), [pair for pair in VERBS if pair not in WAITING])
def test_what_blocks_can_be_awaited(kind, name):
    """No method that waits for a disk or a model blocks an event loop for want of a twin."""
    twins = (name.removesuffix("_sync"), f"a{name}")
    assert name in INSTANT or any(inspect.iscoroutinefunction(getattr(kind, twin, None)) for twin in twins)


def test_an_answer_is_read_word_by_word_without_an_event_loop(hf, script):
    """In the main thread, where calls share a loop, and in another one."""
    agent = Agent(script("one two three").model)
    with hf.session("s") as session:
        stream = agent.run_stream("Count", session=session)
        assert "".join(stream).split() == ["one", "two", "three"]
        assert stream.result.output.split() == ["one", "two", "three"]
        found = []
        thread = threading.Thread(target=lambda: found.extend(agent.run_stream("Again", session=session)))
        thread.start()
        thread.join()
        assert "".join(found).split() == ["one", "two", "three"]


def test_a_stream_that_is_left_stops_its_run(hf, script):
    """What was said until then stays on record, as after an async one; another call may come in between."""
    agent, second = Agent(scripted(threading.Event())), Agent(script("other").model)
    with hf.session("s") as session, hf.session("t") as other:
        for word in agent.run_stream("Count", session=session):
            assert word == "so far "
            second.run_sync("Meanwhile", session=other)
            break
        reason = [event.data["reason"] for event in session.events() if event.type == "turn_end"]
    assert reason == ["cancelled"]


async def test_a_stream_is_not_read_plainly_in_an_event_loop(script):
    """It would stop the loop; what to write instead is said."""
    with pytest.raises(UsageError, match="async for"):
        list(Agent(script("hi").model).run_stream("Hello"))


def test_a_runtime_works_without_an_event_loop(hf, script):
    """Words, lines and what is due, each by a plain call."""
    said = []
    with Runtime(Agent(script("hello").model), hf) as runtime:
        assert runtime.process_user_input_sync("hi", session="s") == "hello"
        lines = iter(["one", "exit"])
        assert runtime.input_loop_sync(lambda: next(lines), said.append) == 1
        assert runtime.wake_due_sync() == []
    assert said == ["hello"]


async def test_sessions_of_a_runtime_are_opened_and_put_away_beside_the_loop(hf, script):
    """Opening reads a whole log; one that another has is waited for."""
    async with Runtime(Agent(script("hello").model), hf, idle_ms=0) as runtime:
        session = await runtime.asession("s")
        assert runtime.sessions == {"s": session}
        assert await runtime.aput_away_idle() == ["s"]


async def test_a_tool_is_listed_by_the_twin(hf, script):
    """The lists and switches go into the agent's own session, after which another begins."""
    agent = Agent(script("hi").model, agent_id="a", persistent_session=True, hf=hf)
    async with agent:
        await agent.aallow_tool("look")
        await agent.ablock_tool("put")
        await agent.aconfigure_tools(enabled={"dig": False})
        first, state = agent.session_id, agent.session.live_state
        assert (state.permissions.allowlist, state.permissions.blocklist) == (["look"], ["put"])
        assert state.tools.enabled == {"dig": False}
        await agent.aunlist_tool("put")
        assert not state.permissions.blocklist
        await agent.anew_session()
        await agent.run("hello")
        assert agent.session_id != first


def test_a_delegate_is_resumed_without_an_event_loop(hf, script):
    """The plain twin goes on with the delegate's own part of the log."""
    helper = script(RuntimeError("gone"), "found")
    lead = script([("ask_helper", {"task": "look"})], "so it failed")
    agent = Agent(lead.model, delegates=[Agent(helper.model, name="helper")])
    with hf.session("s") as session:
        agent.run_sync("Look", session=session)
        [begun] = [event.data for event in session.events() if event.type == "delegation"]
        assert agent.resume_delegate_sync("helper", begun["child_run"], session=session) == "found"
