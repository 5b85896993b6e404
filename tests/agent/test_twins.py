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


def test_a_delegate_is_resumed_without_an_event_loop(hf, script):
    """The plain twin goes on with the delegate's own part of the log."""
    helper = script(RuntimeError("gone"), "found")
    lead = script([("ask_helper", {"task": "look"})], "so it failed")
    agent = Agent(lead.model, delegates=[Agent(helper.model, name="helper")])
    with hf.session("s") as session:
        agent.run_sync("Look", session=session)
        [begun] = [event.data for event in session.events() if event.type == "delegation"]
        assert agent.resume_delegate_sync("helper", begun["child_run"], session=session) == "found"
