"""What agents do with the inbox: calls that an approval covers, and calls whose tools are not here."""

from __future__ import annotations

import pytest

from holdfast import Edited
from holdfast.agent import Agent, Tool
from holdfast.errors import UsageError

ACT = [("act", {"what": "a"})]


def acting(ran, **options):
    """A tool that needs permission and notes each run."""

    def act(what: str) -> str:
        """Act."""
        ran.append(what)
        return f"did {what}"

    return Tool(act, **{"needs_permission": True, **options})


@pytest.fixture
def wait(hf, script):
    """Leaves a session whose calls wait; their questions."""

    async def wait(*steps, **options):
        agent = Agent(script(*steps).model, tools=[acting([])], permission="suspend", hf=hf, **options)
        with hf.session("s") as session:
            return (await agent.run("go", session=session)).waiting

    return wait


@pytest.mark.parametrize("scope", ["session", "always"])
async def test_an_approval_for_longer_answers_the_calls_beside_it(hf, script, wait, scope):
    """Who allowed a tool for good is not asked again about a call of it that waits already."""
    ran = []
    one, _ = await wait([("act", {"what": "a"}), ("act", {"what": "b"})])
    hf.answer(one.id, True, scope=scope)
    agent = Agent(script("done").model, tools=[acting(ran)], permission="suspend", hf=hf)
    result = await agent.resume("s", answers={})
    assert (result.status, sorted(ran), hf.waiting()) == ("completed", ["a", "b"], [])


async def test_a_tool_that_came_to_need_no_permission_still_waits(hf, script, wait):
    """A call that somebody was asked about runs by an answer, whatever another program declares."""
    ran = []
    await wait(ACT)
    agent = Agent(script("done").model, tools=[acting(ran, needs_permission=False)], hf=hf)
    result = await agent.resume("s", answers={})
    assert (result.status, ran) == ("waiting", [])


async def test_an_allowed_call_waits_for_a_program_that_has_its_tool(hf, script, wait):
    """Another program says what it lacks and changes nothing; the one with the tool carries it out."""
    ran = []
    [one] = await wait(ACT)
    hf.answer(one.id, True)
    other = Agent(script("never").model, tools=[], hf=hf)
    with hf.session("s") as session, pytest.raises(UsageError, match="no tool 'act'"):
        await other.run(None, session=session)
    assert (hf.info("s").status, hf.inbox.due(tools=["act"]), hf.inbox.due(tools=[])) == ("waiting", ["s"], [])
    result = await Agent(script("done").model, tools=[acting(ran)], permission="suspend", hf=hf).resume("s", answers={})
    assert (result.output, ran) == ("done", ["a"])


async def test_a_delegates_call_waits_for_a_program_that_has_the_delegate(hf, script, wait):
    """Also if the agent itself has a tool of that name."""
    ran = []
    child = Agent(script(ACT, "child done").model, name="helper", tools=[acting(ran)])
    [one] = await wait([("ask_helper", {"task": "do it"})], delegates=[child])
    hf.answer(one.id, True)
    other = Agent(script("never").model, tools=[acting(ran)], hf=hf)
    with pytest.raises(UsageError, match="no tool 'act'"):
        await other.resume("s", answers={})
    again = Agent(script("child done").model, name="helper", tools=[acting(ran)])
    result = await Agent(script("done").model, delegates=[again], permission="suspend", hf=hf).resume("s", answers={})
    assert (result.output, ran) == ("done", ["a"])


@pytest.mark.parametrize("held", [True, False])
async def test_other_arguments_must_fit_the_tool(hf, script, wait, held):
    """An agent that has the tool refuses them at once, and the question stays open."""
    ran = []
    [one] = await wait(ACT)
    agent = Agent(script("done").model, tools=[acting(ran)], permission="suspend", hf=hf)
    for args in ({"what": 3}, {}, {"what": "b", "more": 1}):
        with hf.session("s") as session, pytest.raises(UsageError, match="wrong arguments for act"):
            await agent.resume("s", answers={one.id: Edited(args)}, session=session if held else None)
    assert [found.id for found in hf.waiting()] == [one.id]
    result = await agent.resume("s", answers={one.id: Edited({"what": "b"})})
    assert (result.output, ran) == ("done", ["b"])


async def test_other_arguments_that_do_not_fit_are_not_run(hf, script, wait, texts):
    """Where no tool could check them, the model is told that they were allowed and why nothing was done."""
    ran = []
    [one] = await wait(ACT)
    hf.answer(one.id, Edited({"that": "b"}))
    model = script("done")
    await Agent(model.model, tools=[acting(ran)], permission="suspend", hf=hf).resume("s", answers={})
    assert ran == []
    assert "allowed with other arguments, and not run" in str(model.requests[0])
