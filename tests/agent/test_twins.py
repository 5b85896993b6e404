"""What an agent does in an event loop, it does without one too."""

from __future__ import annotations

import inspect

import pytest

from holdfast.agent import Agent

PUBLIC = {name: each for name, each in vars(Agent).items() if not name.startswith("_") and inspect.isfunction(each)}
WAITING = sorted(name for name, each in PUBLIC.items() if inspect.iscoroutinefunction(each))


def twin_of(name):
    """The plain function for a coroutine: ``run_sync`` for ``run``, ``load`` for ``aload``."""
    return PUBLIC.get(f"{name}_sync") or (PUBLIC.get(name[1:]) if name.startswith("a") else None)


@pytest.mark.parametrize("name", WAITING)
def test_every_coroutine_has_a_plain_twin(name):
    """What can be awaited can be called as well, with the same arguments."""
    twin = twin_of(name)
    assert twin is not None
    assert not inspect.iscoroutinefunction(twin)
    assert list(inspect.signature(twin).parameters) == list(inspect.signature(PUBLIC[name]).parameters)


BLOCKING = ["load", "save", "new_session", "configure_tools", "allow_tool", "block_tool", "unlist_tool", "close"]


@pytest.mark.parametrize("name", BLOCKING)
def test_what_reads_or_writes_the_store_can_be_awaited(name):
    """No method that waits for a disk blocks an event loop for want of a twin."""
    assert f"a{name}" in WAITING


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
