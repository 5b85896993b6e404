"""After a crash: calls of unknown outcome, and what the model is told about them."""

from __future__ import annotations

import pytest

from holdfast.agent import Agent, Tool
from holdfast.replay import validate


def crash(hf, *calls, id="s", run="r-1", extra=()):
    """Leave a session as a process that was killed in the middle of these calls would."""
    session = hf.session(id)
    session.append("turn_start", {"agent": "agent"}, run=run)
    session.append("agent_start", {"agent": "agent", "depth": 0}, run=run)
    session.user("do it", run=run)
    for number, (name, args) in enumerate(calls):
        session.tool_call(name, args, id=f"c{number}", run=run)
    for type, data, child in extra:
        session.append(type, data, run=child)
    session._journal.writer.dead = RuntimeError("killed")  # nothing more is written by this process
    session.close()


def counting(name, ran, **flags):
    """A tool that notes each run."""

    def act(x: int = 0) -> str:
        """Act."""
        ran.append((name, x))
        return f"{name} {x}"

    return Tool(act, name=name, **flags)


@pytest.mark.req("B-16", "S3-46", "S3-48")
async def test_a_call_with_a_side_effect_is_never_run_again(hf, script, texts):
    """The model is told that the outcome is unknown; nothing runs by itself."""
    ran = []
    crash(hf, ("pay", {"x": 5}))
    model = script("I will check.")
    with hf.session("s") as session:
        agent = Agent(model.model, tools=[counting("pay", ran)])
        await agent.run(None, session=session)
        assert validate(session.messages("anthropic"), "anthropic").valid
        [noted] = [event.data for event in session.events() if event.type == "interrupted"]
    assert ran == []
    assert "interrupted" in texts(model.requests[0])[-1]
    assert noted["calls"] == ["c0"]


@pytest.mark.parametrize("flag", ["read_only", "idempotent"])
async def test_a_harmless_call_is_run_again(hf, script, texts, flag):
    """A tool that declares that it may be run again is, once, before the model is asked."""
    ran = []
    crash(hf, ("look", {"x": 5}), ("pay", {"x": 6}))
    model = script("ok")
    tools = [counting("look", ran, **{flag: True}), counting("pay", ran)]
    with hf.session("s") as session:
        await Agent(model.model, tools=tools).run("go on", session=session)
        results = [event.data for event in session.events() if event.type == "tool_result"]
    assert ran == [("look", 5)]
    assert [(data["toolCallId"], data["repeated"]) for data in results] == [("c0", True)]
    said = texts(model.requests[0])
    assert said[3] == "look 5"
    assert "interrupted" in said[4]
    assert said[5] == "go on"


async def test_a_harmless_call_that_fails_again_has_a_result(hf, script):
    """An error of the repeated call is its result."""

    def look() -> str:
        """Look."""
        raise OSError("still broken")

    crash(hf, ("look", {}))
    with hf.session("s") as session:
        agent = Agent(script("ok").model, tools=[Tool(look, read_only=True)])
        await agent.run("go on", session=session)
        [result] = [event.data for event in session.events() if event.type == "tool_result"]
    assert result["is_error"]
    assert "still broken" in result["result"]["message"]


async def test_a_tool_that_is_gone_or_needs_permission_is_not_run_again(hf, script):
    """Only what is there and allowed is repeated."""
    ran = []
    crash(hf, ("gone", {}), ("guarded", {}))
    guarded = counting("guarded", ran, read_only=True, needs_permission=True)
    with hf.session("s") as session:
        await Agent(script("ok").model, tools=[guarded]).run("go on", session=session)
        assert "tool_result" not in [event.type for event in session.events()]
    assert ran == []


async def test_calls_of_children_are_left_alone(hf, script):
    """What a delegate had begun is not run again by the parent."""
    ran = []
    call = {"id": "x1", "tool": "look", "params": {"x": 1}, "agent": "scout"}
    extra = [("agent_start", {"agent": "scout", "parent": "agent", "depth": 1}, "d-1"), ("tool_call", call, "d-1")]
    crash(hf, ("ask_scout", {"task": "look"}), extra=extra)
    with hf.session("s") as session:
        tools = [counting("look", ran, read_only=True)]
        await Agent(script("ok").model, tools=tools).run("go on", session=session)
    assert ran == []


def of_scout(**call):
    """What is recorded of a delegate from its beginning to its end, with one call."""
    who = {"parent": "agent", "child": "scout", "child_run": "d-1"}
    return [
        ("delegation", {**who, "task": "pay it", "call": "c0"}, "r-1"),
        ("agent_start", {"agent": "scout", "parent": "agent", "depth": 1}, "d-1"),
        ("user", {"role": "user", "content": "pay it"}, "d-1"),
        ("tool_call", {"id": "x1", "tool": "pay", "params": {"x": 1}, "agent": "scout", **call}, "d-1"),
        ("tool_result", {"toolCallId": "x1", "result": "pay 1"}, "d-1"),
        ("assistant", {"role": "assistant", "content": "paid it", "agent": "scout"}, "d-1"),
        ("agent_complete", {"agent": "scout"}, "d-1"),
        ("delegation_complete", {**who, "result": "paid it"}, "r-1"),
    ]


@pytest.mark.parametrize("lived", range(9))
async def test_a_delegate_goes_on_where_it_was_killed(hf, script, texts, lived):
    """From its own part of the log, before its parent is asked: nothing that it did is done again."""
    ran = []
    crash(hf, ("ask_scout", {"task": "pay it"}), extra=of_scout()[:lived])
    child = script(lambda messages: [("pay", {"x": 1})] if len(messages) == 1 else "paid it")
    model = script("all done")
    scout = Agent(child.model, name="scout", tools=[counting("pay", ran)])
    with hf.session("s") as session:
        assert (await Agent(model.model, delegates=[scout]).run(None, session=session)).output == "all done"
    assert texts(model.requests[0])[-1] == "paid it"
    assert (ran, len(child.requests)) == ([("pay", 1)] if lived < 4 else [], 2 if lived < 4 else int(lived < 6))
    assert ("effect is unknown" in str(child.requests)) is (lived == 4)


async def test_a_call_of_a_delegate_that_was_allowed_is_never_run_again(hf, script):
    """What a user allowed is recorded beside its run: it may have had its effect, and the model is told so."""
    ran = []
    allowed = ("permission", {"tool": "pay", "call": "x1", "decision": "allow"}, None)
    crash(hf, ("ask_scout", {"task": "pay"}), extra=[*of_scout(begun=False)[:4], allowed])
    child = script("looks bad")
    scout = Agent(child.model, name="scout", tools=[counting("pay", ran, needs_permission=True)])
    with hf.session("s") as session:
        agent = Agent(script("ok").model, delegates=[scout], permission=lambda _request: True)
        assert (await agent.run(None, session=session)).output == "ok"
    assert ran == []
    assert "effect is unknown" in str(child.requests[0])


@pytest.mark.req("S3-74")
@pytest.mark.req("S3-40")
async def test_an_answer_that_was_cut_short_stays_what_the_user_saw(hf, script, texts):
    """Streamed words without a final message are part of the next request."""
    session = hf.session("s")
    session.append("turn_start", {"agent": "agent"}, run="r-1")
    session.append("agent_start", {"agent": "agent", "depth": 0}, run="r-1")
    session.user("tell me", run="r-1")
    session.delta("Once upon a ", run="r-1", agent="agent")
    session._journal.writer.dead = RuntimeError("killed")
    session.close()
    model = script("time.")
    with hf.session("s") as session:
        await Agent(model.model).run("go on", session=session)
    assert texts(model.requests[0]) == ["tell me", "Once upon a ", "go on"]
