"""What agents do with the inbox: calls that an approval covers, and calls whose tools are not here."""

from __future__ import annotations

import pytest

from holdfast.agent import Agent, Tool

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

    async def wait(*steps, tools=None, **options):
        agent = Agent(script(*steps).model, tools=[acting([])] if tools is None else tools, permission="suspend", hf=hf)
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
