"""Waiting for someone: suspended runs, resume tokens, attempts and the status of a session."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.agent import Agent, Suspend, Tool, attempts
from holdfast.errors import AgentError, DataError, ResumeTokenExpired, ResumeTokenInvalid, ResumeTokenUsed, UsageError
from holdfast.replay import validate


def approval(**options):
    """A tool that waits for someone."""

    def ask_boss(question: str) -> str:
        """Ask the boss."""
        raise Suspend(f"waiting: {question}", **options)

    return Tool(ask_boss)


def agent_for(script, *steps, **options):
    """An agent whose model asks the boss first."""
    asked = [("ask_boss", {"question": "may I?"})]
    model = script(asked, *steps)
    return Agent(model.model, tools=[approval(**options)]), model


async def test_a_suspended_run_waits_and_goes_on_with_the_answer(hf, script, texts):
    """The answer is the result of the call that waited, in another process if need be."""
    agent, _ = agent_for(script, "never")
    with hf.session("s") as session:
        waiting = await agent.run("go", session=session)
        assert session.state.status == "waiting"
        assert waiting.suspended.reason == "waiting: may I?"
        assert waiting.finish_reason == "suspended"
    assert hf.info("s").status == "waiting"
    later = script("The boss agreed.")
    with hf.session("s") as session:
        result = await Agent(later.model).resume(waiting.suspended.token, "yes, you may", session=session)
        assert session.state.status == "idle"
        assert validate(session.messages("anthropic"), "anthropic").valid
        assert "interrupted" not in [event.type for event in session.events()]
    assert result.output == "The boss agreed."
    assert texts(later.requests[0]) == ["go", "{'question': 'may I?'}", "yes, you may"]


async def test_an_answer_that_cannot_be_recorded_does_not_spend_the_token(hf, script):
    """The token is spent with the answer or not at all."""
    agent, _ = agent_for(script, "fine")
    with hf.session("s") as session:
        token = (await agent.run("go", session=session)).suspended.token
        with pytest.raises(DataError):
            await agent.resume(token, {"answer": object()}, session=session)
        result = await agent.resume(token, "yes", session=session)
        assert "resumed" in [event.type for event in session.events()]
    assert result.output == "fine"


async def test_the_log_has_only_a_digest_of_the_token(hf, script):
    """Nobody can resume with what is in the log."""
    agent, _ = agent_for(script, "x")
    with hf.session("s") as session:
        token = (await agent.run("go", session=session)).suspended.token
        recorded = [bytes(event.raw) for event in session.events()]
        digest = next(e.data["token"] for e in session.events() if e.type == "suspended")
        assert not any(token.encode() in raw for raw in recorded)
        with pytest.raises(ResumeTokenInvalid):
            await agent.resume(digest, "yes", session=session)


async def test_an_answer_can_be_the_users_next_message(hf, script, texts):
    """With resume_as="user_message" the call has its result at once, and the answer is a turn."""
    agent, model = agent_for(script, "thanks", resume_as="user_message")
    with hf.session("s") as session:
        waiting = await agent.run("go", session=session)
        result = await agent.resume(waiting.suspended.token, "you may", session=session)
        assert session.messages()[-2]["content"][-1]["text"] == "you may"
    assert result.output == "thanks"
    assert texts(model.requests[1])[-2:] == ["suspended: waiting: may I?", "you may"]


async def test_a_token_works_once(hf, script):
    """The second use is told apart from an unknown token, and changes nothing."""
    agent, _ = agent_for(script, "done")
    with hf.session("s") as session:
        token = (await agent.run("go", session=session)).suspended.token
        await agent.resume(token, "yes", session=session)
        before = session.seq
        with pytest.raises(ResumeTokenUsed):
            await agent.resume(token, "yes", session=session)
        with pytest.raises(ResumeTokenInvalid):
            await agent.resume("made up", "yes", session=session)
        assert session.seq == before


async def test_two_answers_at_once_count_once(hf, script):
    """Of two that resume at the same time, one goes on and the other is told."""
    agent, _ = agent_for(script, "done")
    with hf.session("s") as session:
        token = (await agent.run("go", session=session)).suspended.token
        outcomes = await asyncio.gather(
            agent.resume(token, "a", session=session), agent.resume(token, "b", session=session), return_exceptions=True
        )
        results = [e for e in session.events() if e.type == "tool_result"]
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["ResumeTokenUsed", "RunResult"]
    assert len(results) == 1


async def test_a_token_expires(hf, script, texts, monkeypatch):
    """After its time a token is refused as expired, and the call is told that nobody answered."""
    agent, model = agent_for(script, "fine", expires_in_ms=60_000)
    with hf.session("s") as session:
        waiting = (await agent.run("go", session=session)).suspended
        for module in ("agent._turn", "library._inbox", "session.asks"):
            monkeypatch.setattr(f"holdfast.{module}.now_ms", lambda: waiting.expires_at)
        with pytest.raises(ResumeTokenExpired) as caught:
            await agent.resume(waiting.token, "yes", session=session)
        assert isinstance(caught.value, AgentError)
        assert (hf.waiting(), hf.inbox.due()) == ([], ["s"])
        assert (await agent.run("never mind", session=session)).output == "fine"
    assert "refused: nobody answered in time" in texts(model.requests[1])[2]


async def test_going_on_without_the_answer_revokes_the_token(hf, script, texts):
    """A new message ends the waiting: the call is shown as interrupted, the token is spent."""
    agent, model = agent_for(script, "fine")
    with hf.session("s") as session:
        token = (await agent.run("go", session=session)).suspended.token
        await agent.run("forget it", session=session)
        assert session.state.status == "idle"
        with pytest.raises(ResumeTokenUsed):
            await agent.resume(token, "yes", session=session)
    assert "interrupted" in texts(model.requests[1])[2]


async def test_two_calls_of_one_answer_wait_at_once(hf, script):
    """Each has its own token; the model is asked when both have their answers."""
    asks = [("ask_boss", {"question": "a"}), ("ask_boss", {"question": "b"})]
    model = script(asks, "done")
    agent = Agent(model.model, tools=[approval()])
    with hf.session("s") as session:
        waiting = await agent.run("go", session=session)
        first, second = waiting.waiting
        between = await agent.resume(second.token, "no", session=session)
        assert (between.status, [one.id for one in between.waiting]) == ("waiting", [first.id])
        done = await agent.resume(waiting.suspended.token, "yes", session=session)
        contents = [block["content"] for block in session.messages()[2]["content"]]
    assert (done.output, contents) == ("done", ["yes", "no"])


async def test_a_resumed_run_can_be_streamed(hf, script):
    """resume_stream gives the words after the answer."""
    agent, _ = agent_for(script, "it goes on")
    with hf.session("s") as session:
        token = (await agent.run("go", session=session)).suspended.token
        words = [word async for word in agent.resume_stream(token, "yes", session=session)]
    assert "".join(words).strip() == "it goes on"


async def test_a_persistent_agent_resumes_its_own_session(hf, script):
    """Without a session given, the token belongs to the agent's own."""
    model = script([("ask_boss", {"question": "may I?"})], "done")
    options = {"agent_id": "bot", "persistent_session": True, "hf": hf, "tools": [approval()]}
    with Agent(model.model, **options) as agent:
        token = (await agent.run("go")).suspended.token
        assert agent.status == "waiting"
    with Agent(model.model, **options) as agent:
        assert (await agent.resume(token, "yes")).output == "done"
        assert agent.status == "idle"


async def test_a_run_without_a_session_cannot_be_resumed(script):
    """There is nothing to go on with."""
    agent, _ = agent_for(script, "x")
    with pytest.raises(UsageError):
        await agent.resume("token", "yes")
    with pytest.raises(UsageError):
        Suspend("x", resume_as="magic")


# -- attempts ----------------------------------------------------------------------------------


@pytest.mark.req("B-36")
async def test_attempts_tell_how_each_turn_ended(hf, script):
    """Start, signs of life and reason of every attempt are read from the log."""
    agent, _ = agent_for(script, "fine", RuntimeError("cut"), "fine")
    with hf.session("s") as session:
        await agent.run("one", session=session)
        await agent.run("two", session=session)
        with pytest.raises(AgentError):
            await agent.run("three", session=session)
        found = attempts(session.events())
    assert [attempt.reason for attempt in found] == ["suspended", "completed", "failed"]
    assert all(attempt.iterations == 1 for attempt in found)
    assert all(attempt.started_at <= attempt.heartbeat_at for attempt in found)
    assert all(attempt.duration_ms >= 0 for attempt in found)
    assert {attempt.agent for attempt in found} == {"agent"}


async def test_a_long_run_gives_signs_of_life(hf, script):
    """While a tool runs, heartbeats are recorded; they are not iterations."""

    async def slow() -> str:
        """Take a while."""
        for _ in range(12000):
            if sum(bool(e.data.get("heartbeat")) for e in session.events()) >= 2:
                break
            await asyncio.sleep(0.01)
        return "slow"

    agent = Agent(script([("slow", {})], "done").model, tools=[slow], heartbeat_ms=20)
    with hf.session("s") as session:
        await agent.run("go", session=session)
        beats = [e for e in session.events() if e.data.get("heartbeat")]
        [attempt] = attempts(session.events())
    assert len(beats) >= 2
    assert attempt.iterations == 2
    assert attempt.heartbeat_at > attempt.started_at


async def test_an_interruption_ends_the_attempt_once(hf, script):
    """A process that is gone leaves an attempt that the next one marks as interrupted."""
    with hf.session("s") as session:
        session.append("turn_start", {"agent": "bot"}, run="r-1")
        session.user("go", run="r-1")
        session._journal.writer.dead = RuntimeError("gone")  # as if the process had been killed
        assert attempts(session.events())[0].reason is None
    with hf.session("s") as session:
        await Agent(script("x").model).run("again", session=session)
        found = attempts(session.events())
        again = [event.type for event in session.events()].count("interrupted")
    assert [attempt.reason for attempt in found] == ["interrupted", "completed"]
    assert found[0].ended_at == found[0].heartbeat_at
    assert again == 1


async def test_the_status_while_a_run_goes_on(hf, script):
    """Seen from a tool, the session is running."""
    seen = []

    def look() -> str:
        """Look."""
        seen.append(agent.status)
        return ""

    options = {"agent_id": "bot", "persistent_session": True, "hf": hf, "tools": [look]}
    with Agent(script([("look", {})], "done").model, **options) as agent:
        await agent.run("go")
        assert agent.status == "idle"
    assert seen == ["running"]


def test_an_agent_without_the_tool_does_not_refuse_what_was_approved(hf, script):
    """It is told so before anything is recorded; the agent that has the tool goes on. A new message ends it."""
    ran = []
    act = Tool(lambda: ran.append(1), name="act", permission="suspend")
    agent, other = Agent(script([("act", {})], "done").model, tools=[act]), Agent(script("no idea").model, hf=hf)
    with hf.session("s") as session:
        [one] = agent.run_sync("go", session=session).waiting
        with pytest.raises(UsageError, match="no tool 'act', of which a call was approved"):
            other.resume_sync("s", answers={one.id: True}, session=session)
        before = session.seq
        with pytest.raises(UsageError, match="no tool 'act', of which a call was approved"):
            other.run_sync(None, session=session)
        assert session.seq == before
        assert (agent.run_sync(None, session=session).output, ran) == ("done", [1])
        [two] = Agent(script([("act", {})]).model, tools=[act]).run_sync("again", session=session).waiting
        hf.answer(two.id, True)
        assert other.run_sync("never mind", session=session).output == "no idea"
        assert "there is no tool" in str(next(e for e in session.newest(0) if e.type == "tool_result").data)
