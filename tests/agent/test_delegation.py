"""Delegation: children work in the parent's session, under runs of their own."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.agent import Agent, Suspend, Tool
from holdfast.errors import UsageError
from holdfast.replay import runs, validate


def look_up(city: str) -> str:
    """Look up the weather."""
    return f"sunny in {city}"


def team(script, parent_steps, child_steps, **child_options):
    """A lead with one delegate, and the scripts of both."""
    child_script, parent_script = script(*child_steps), script(*parent_steps)
    child = Agent(child_script.model, name="scout", tools=[look_up], **child_options)
    lead = Agent(parent_script.model, name="lead", delegates=[child])
    return lead, parent_script, child_script


def test_two_delegates_are_never_called_alike(script):
    """Names that give one tool name are refused; so is a delegate with the name of a tool."""

    def ask_scout(task: str) -> str:
        """Ask."""
        return task

    model = script("x").model
    scout, other = Agent(model, name="my scout"), Agent(model, name="my_scout")
    with pytest.raises(UsageError, match="ask_my_scout"):
        Agent(model, delegates=[scout, other])
    with pytest.raises(UsageError, match="ask_scout"):
        Agent(model, delegates=[Agent(model, name="scout")], tools=[ask_scout])


ASK = [("ask_scout", {"task": "weather in Oslo"})]


@pytest.mark.req("S3-16", "S3-43")
async def test_a_child_works_under_its_own_run(hf, script, texts, types):
    """All steps are on record with agent and parent; the parent's history has only the answer."""
    child_steps = [[("look_up", {"city": "Oslo"})], "It is sunny."]
    lead, _parent_script, child_script = team(script, [ASK, "Sunny!"], child_steps)
    with hf.session("s") as session:
        result = await lead.run("Weather?", session=session)
        events = list(session.events())
        assert types(session) == [
            "turn_start",
            "agent_start",
            "user",
            "agent_iteration",
            "tool_call",
            "delegation",
            "agent_start",
            "user",
            "agent_iteration",
            "tool_call",
            "tool_result",
            "agent_iteration",
            "assistant",
            "agent_complete",
            "delegation_complete",
            "tool_result",
            "agent_iteration",
            "assistant",
            "agent_complete",
            "turn_end",
        ]
        messages = session.messages()
    assert result.output == "Sunny!"
    assert texts(child_script.requests[1]) == ["weather in Oslo", "{'city': 'Oslo'}", "sunny in Oslo"]
    assert len(messages) == 4
    assert "sunny in Oslo" not in str(messages)
    assert messages[2]["content"][0]["content"] == "It is sunny."
    started = [event for event in events if event.type == "agent_start"]
    assert started[1].data == {"agent": "scout", "parent": "lead", "depth": 1, "task": "weather in Oslo"}
    assert started[1].run != started[0].run
    done = [event.data for event in events if event.type == "agent_complete"]
    assert [data["agent"] for data in done] == ["scout", "lead"]
    assert all(isinstance(data["duration"], int) for data in done)
    assert result.usage.requests == 4


@pytest.mark.req("S3-43")
async def test_only_the_top_level_run_recovers(hf, script, texts):
    """A new process goes on with the lead's conversation; the child's words are its own."""
    lead, _, _ = team(script, [ASK, "Sunny!"], ["It is sunny."])
    with hf.session("s") as session:
        await lead.run("Weather?", session=session)
    again = script("You asked about the weather.")
    with hf.session("s") as session:
        await Agent(again.model, name="lead").run("What did I ask?", session=session)
        found = {run.id: run for run in runs(session.events())}
    assert "weather in Oslo" not in texts(again.requests[0])
    child = next(run for id, run in found.items() if id is not None)
    assert child.agent == "scout"
    assert [m["content"] for m in child.conversation.messages()] == ["weather in Oslo", "It is sunny."]


async def test_two_children_at_once_do_not_mix(hf, script, texts):
    """Parallel calls to one delegate are two runs, each with its own words."""
    both = [("ask_scout", {"task": "Oslo"}), ("ask_scout", {"task": "Rome"})]

    def answer(messages):
        return f"about {texts(messages)[0]}"

    lead, _, child_script = team(script, [both, "done"], [answer])
    with hf.session("s") as session:
        await lead.run("Weather?", session=session)
        results = [block["content"] for block in session.messages()[2]["content"]]
    assert results == ["about Oslo", "about Rome"]
    assert sorted(len(texts(request)) for request in child_script.requests) == [1, 1]


async def test_a_child_that_fails_is_an_error_result(hf, script):
    """The lead is told, the failure is on record under the child, and the turn goes on."""
    lead, _, _ = team(script, [ASK, "Never mind."], [RuntimeError("lost")])
    with hf.session("s") as session:
        result = await lead.run("Weather?", session=session)
        [error] = [event for event in session.events() if event.type == "agent_error"]
        [outcome] = [event for event in session.events() if event.type == "tool_result"]
        assert validate(session.messages("anthropic"), "anthropic").valid
    assert result.output == "Never mind."
    assert error.data["agent"] == "scout"
    assert "lost" in outcome.data["result"]["message"]


async def test_children_may_delegate_further(hf, script):
    """A delegate may have delegates; depth and parent say who called whom."""
    leaf = Agent(script("leaf says").model, name="leaf")
    middle = Agent(script([("ask_leaf", {"task": "deep"})], "middle says").model, name="mid", delegates=[leaf])
    top = Agent(script([("ask_mid", {"task": "go"})], "top says").model, delegates=[middle])
    with hf.session("s") as session:
        await top.run("start", session=session)
        started = [e.data for e in session.events() if e.type == "agent_start"]
        assert len(session.messages()) == 4
    assert [(data["agent"], data["depth"]) for data in started] == [("agent", 0), ("mid", 1), ("leaf", 2)]
    assert started[2]["parent"] == "mid"


async def test_agents_do_not_call_each_other_for_ever(hf, script, monkeypatch):
    """There is a bound on the depth, and reaching it is an error result."""
    from holdfast.agent import _turn

    monkeypatch.setattr(_turn, "DEPTH_MAX", 0)
    lead, _, child_script = team(script, [ASK, "ok"], ["never"])
    with hf.session("s") as session:
        await lead.run("go", session=session)
        [outcome] = [event for event in session.events() if event.type == "tool_result"]
    assert "deep" in outcome.data["result"]["message"]
    assert child_script.requests == []


async def test_an_empty_task_is_refused(hf, script):
    """A task must say something."""
    lead, _, child_script = team(script, [[("ask_scout", {"task": " "})], "ok"], ["never"])
    with hf.session("s") as session:
        await lead.run("go", session=session)
    assert child_script.requests == []


async def test_a_childs_call_can_wait(hf, script):
    """A child waits as the first agent does; with the answer its run goes on, then its parent's."""

    def wait() -> str:
        """Wait."""
        raise Suspend("for someone")

    child = Agent(script([("wait", {})], "x").model, name="scout", tools=[wait])
    lead = Agent(script(ASK, "ok").model, name="lead", delegates=[child])
    with hf.session("s") as session:
        result = await lead.run("go", session=session)
        assert session.state.status == "waiting"
        done = await lead.resume(result.suspended.token, "yes", session=session)
    assert (done.output, done.suspended, done.status) == ("ok", None, "completed")


async def test_cancelling_the_parent_cancels_the_child(hf, script):
    """A cancelled turn ends its children too, with results on record for all calls."""
    begun = asyncio.Event()

    async def forever() -> str:
        """Never return."""
        begun.set()
        await asyncio.sleep(3600)
        return ""

    child = Agent(script([("forever", {})], "x").model, name="scout", tools=[forever])
    lead = Agent(script(ASK, "ok").model, name="lead", delegates=[child])
    with hf.session("s") as session:
        task = asyncio.ensure_future(lead.run("go", session=session))
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])
        results = [e.data for e in session.events() if e.type == "tool_result"]
        assert len(results) == 2
        assert all(data["result"]["cancelled"] for data in results)
        assert (await lead.run("again", session=session)).output == "ok"


async def test_a_child_goes_on_from_its_own_part_of_the_log(hf, script, texts):
    """When asked, a delegate continues a run that an earlier process left."""
    lead, _, _ = team(script, [ASK, "ok"], [RuntimeError("cut")])
    with hf.session("s") as session:
        await lead.run("Weather?", session=session)
        [delegation] = [e.data for e in session.events() if e.type == "delegation"]
    lead, _, child_script = team(script, ["x"], ["It is sunny."])
    with hf.session("s") as session:
        answer = await lead.resume_delegate("scout", delegation["child_run"], session=session)
        assert len(session.messages()) == 4
        assert session.state.status == "idle"
        with pytest.raises(UsageError):
            await lead.resume_delegate("scout", "d-unknown", session=session)
        with pytest.raises(UsageError):
            await lead.resume_delegate("nobody", "d-1", session=session)
    assert answer == "It is sunny."
    assert texts(child_script.requests[0]) == ["weather in Oslo"]


async def test_a_child_asks_whom_its_parent_would_ask(hf, script):
    """A delegate without a permission callback uses its parent's, under its own name."""
    asked = []

    def permit(request):
        asked.append((request.agent, request.tool))
        return True

    careful = Tool(look_up, needs_permission=True)
    child_model = script([("look_up", {"city": "Oslo"})], "It is sunny.").model
    child = Agent(child_model, name="scout", tools=[careful])
    lead = Agent(script(ASK, "Sunny!").model, name="lead", delegates=[child], permission=permit)
    with hf.session("s") as session:
        await lead.run("Weather?", session=session)
        results = [e.data["result"] for e in session.events() if e.type == "tool_result"]
    assert asked == [("scout", "look_up")]
    assert results[0] == "sunny in Oslo"
