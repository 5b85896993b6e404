"""Approvals that wait: calls on record before anyone is asked, answers from any process, each carried out once."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

import holdfast
from holdfast import Edited, Result
from holdfast.agent import Agent, Runtime, Suspend, Tool
from holdfast.errors import Locked, TooManyIterations, UsageError
from holdfast.session import kept_answers
from holdfast.storage import open_store

ACT = [("act", {"what": "a"})]


def acting(ran, **options):
    """A tool that needs permission and notes each run."""

    def act(what: str) -> str:
        """Act."""
        ran.append(what)
        return f"did {what}"

    return Tool(act, needs_permission=True, **options)


def agent_of(script, ran, *steps, **options):
    """An agent whose calls wait for permission."""
    model = script(*steps)
    return Agent(model.model, tools=[acting(ran)], permission="suspend", **options), model


async def asked(hf, script, ran, *steps, **options):
    """A session that waits; its questions."""
    agent, _ = agent_of(script, ran, *steps, **options)
    with hf.session("s") as session:
        result = await agent.run("go", session=session)
    assert result.status == "waiting"
    return result.waiting


def at(monkeypatch, time):
    """Let questions be judged as at that time."""
    for module in ("library._inbox", "session.asks"):
        monkeypatch.setattr(f"holdfast.{module}.now_ms", lambda: time)


def results(hf, session="s"):
    """The results of a session's calls."""
    return [event.data["result"] for event in hf.events(session, types=["tool_result"])]


async def test_a_call_waits_and_runs_once_it_is_allowed(hf, script, texts):
    """The run ends, the session waits; whoever resumes it makes the call, and the model goes on."""
    ran = []
    [one] = await asked(hf, script, ran, ACT)
    assert (one.session_id, one.tool, one.args, one.kind, ran) == ("s", "act", {"what": "a"}, "permission", [])
    assert hf.info("s").status == "waiting"
    assert [(found.id, found.args) for found in hf.waiting()] == [(one.id, {"what": "a"})]
    agent, model = agent_of(script, ran, "done", hf=hf)
    result = await agent.resume("s", answers={one.id: True})
    assert (result.status, result.output, ran) == ("completed", "done", ["a"])
    assert texts(model.requests[0])[-1] == "did a"
    assert (hf.waiting(), hf.inbox.due(), hf.info("s").status) == ([], [], "idle")


async def test_calls_are_on_record_before_anyone_is_asked(hf, script):
    """A kill while a person thinks loses no call, and tells none as unknown."""
    seen = []

    def prompt(request):
        seen.extend(event.data for event in hf.events("s", types=["tool_call"]))
        return True

    agent = Agent(script(ACT, "done").model, tools=[acting([])], permission=prompt)
    with hf.session("s") as session:
        await agent.run("go", session=session)
    assert [(one["tool"], one["begun"]) for one in seen] == [("act", False)]


@pytest.mark.parametrize("permission", ["suspend", lambda _request: True])
def test_a_kill_between_the_writes_of_an_answer_leaves_all_of_it_or_none(hf, script, tmp_path, permission):
    """Its words and its calls are recorded with one append: where one of them is on record, so are the others."""
    calls = [ToolCallPart("act", {"what": what}) for what in ("a", "b")]
    model = script(ModelResponse(parts=[TextPart("I act."), *calls]), [("act", {"what": "c"})])
    with hf.session("s") as session:
        agent = Agent(model.model, tools=[acting([])], permission=permission, max_iterations=2)
        with contextlib.suppress(TooManyIterations):
            agent.run_sync("go", session=session)
    lines = Path(hf.location("s"), "events.jsonl").read_bytes().splitlines(keepends=True)
    found = set()
    for number in range(1, len(lines) + 1):
        place = tmp_path / f"{number}" / "sessions" / "s" / "events.jsonl"
        place.parent.mkdir(parents=True)
        place.write_bytes(b"".join(lines[:number]))
        with holdfast.open(tmp_path / f"{number}") as cut:
            kinds = [event.type for event in cut.events("s") if event.type in ("assistant", "tool_call")]
            found.add(tuple(kinds[:3]))
    assert found == {(), ("assistant", "tool_call", "tool_call")}


def killed_after(hf, root, type, skip=0):
    """A store with what a process had written of the session when it was killed after its first event of this type.

    ``skip`` is how many of these it lived to see before that one.
    """
    kinds = [event.type for event in hf.events("s")]
    opened = max(number for number, kind in enumerate(kinds) if kind == "opened")
    lines = Path(hf.location("s"), "events.jsonl").read_bytes().splitlines(keepends=True)
    place = root / "sessions" / "s" / "events.jsonl"
    place.parent.mkdir(parents=True)
    places = [number for number, kind in enumerate(kinds) if kind == type and number > opened]
    place.write_bytes(b"".join(lines[: places[skip] + 1]))
    return holdfast.open(root)


@pytest.mark.parametrize("second", ["interrupted", "turn_start", "permission", "step", "tool_result"])
async def test_a_call_that_two_kills_left_unasked_is_asked_about(hf, script, tmp_path, second):
    """The first kill came before all were asked about, the second before the next process came to it."""
    await asked(hf, script, [], [("act", {"what": "a"}), ("act", {"what": "b"})])
    with killed_after(hf, tmp_path / "first", "suspended") as once:
        once.answer(once.waiting()[0].id, True)
        agent, _ = agent_of(script, [], "done", hf=once)
        await agent.resume("s", answers={})
        with killed_after(once, tmp_path / "second", second) as twice:
            ran = []
            agent, model = agent_of(script, ran, "done", hf=twice)
            for one in twice.waiting():
                twice.answer(one.id, True)  # the answer was not taken in yet
            [one] = (await agent.resume("s", answers={})).waiting
            assert (one.args, model.requests) == ({"what": "b"}, [])
            assert (await agent.resume("s", answers={one.id: True})).output == "done"
            assert ran[-1] == "b"


@pytest.mark.parametrize(
    ("answer", "ran", "told"),
    [
        (True, ["a"], "did a"),
        (False, [], {"error": True, "message": "Permission denied: the user did not allow act"}),
        (Edited({"what": "b"}), ["b"], {"executed_with": {"what": "b"}, "result": "did b"}),
        (Result("by hand"), [], "by hand"),
    ],
)
async def test_four_answers(hf, script, answer, ran, told):
    """Allowed, denied, changed, or answered in the tool's place; the call keeps the model's arguments."""
    done = []
    [one] = await asked(hf, script, done, ACT)
    hf.answer(one.id, answer, by="ada")
    assert (hf.waiting(), hf.inbox.due()) == ([], ["s"])
    agent, _ = agent_of(script, done, "done", hf=hf)
    await agent.resume("s", answers={})
    assert (done, results(hf)) == (ran, [told])
    [call] = hf.events("s", types=["tool_call"])
    [decision] = hf.events("s", types=["permission"])
    assert (call.data["params"], decision.data["by"]) == ({"what": "a"}, "ada")
    assert hf.inbox.due() == []


@pytest.mark.parametrize("answer", [True, Edited({"what": "é" * 200_000}), Result("é" * 200_000)])
async def test_long_arguments_and_answers_are_carried_out(hf, script, answer):
    """What is too long for a line of the log is kept beside it, and runs as it was approved."""
    ran, long = [], "é" * 200_000
    [one] = await asked(hf, script, [], [("act", {"what": long})])
    hf.answer(one.id, answer)
    with closing(holdfast.open(hf.url)) as later:
        agent, _ = agent_of(script, ran, "done", hf=later)
        assert (await agent.resume("s", answers={one.id: answer})).output == "done"
        assert ran == ([] if isinstance(answer, Result) else [long])
        assert (await agent.resume("s", answers={one.id: answer})).output == "done"
        with pytest.raises(UsageError, match="answered already"):
            await agent.resume("s", answers={one.id: False})


async def test_two_questions_are_answered_one_by_one(hf, script):
    """Each has its own id; the model is asked when every call of its answer has a result."""
    ran = []
    calls = [("act", {"what": "a"}), ("act", {"what": "b"})]
    first, second = await asked(hf, script, ran, calls)
    agent, model = agent_of(script, ran, "done", hf=hf)
    between = await agent.resume("s", answers={second.id: True})
    assert (between.status, [one.id for one in between.waiting], ran) == ("waiting", [first.id], ["b"])
    assert model.requests == []
    assert (await agent.resume("s", answers={first.id: False})).output == "done"
    assert ran == ["b"]


async def test_questions_of_one_step_are_listed_in_its_order(hf, script):
    """The oldest first, and those of the same millisecond as they were asked."""
    await asked(hf, script, [], [("act", {"what": what}) for what in "abcdefgh"])
    assert [one.args["what"] for one in hf.waiting()] == list("abcdefgh")


async def test_the_same_answer_counts_once_and_another_is_refused(hf, script):
    """The first answer stands, and is shown with its author to who gives another."""
    [one] = await asked(hf, script, [], ACT)
    assert hf.answer(one.id, True, by="ada").by == hf.answer(one.id, True, by="bob").by == "ada"
    with pytest.raises(UsageError, match="allowed by ada"):
        hf.answer(one.id, False, by="bob")
    agent, _ = agent_of(script, [], "done", hf=hf)
    await agent.resume("s", answers={one.id: True})
    with pytest.raises(UsageError, match="allowed by ada"):
        hf.answer(one.id, False, session_id="s")
    with pytest.raises(UsageError, match="no question"):
        hf.answer("0123", True)
    with pytest.raises(UsageError, match="no question"):
        await agent.resume("s", answers={"0123": True})
    with pytest.raises(UsageError, match="is no answer"):
        hf.answer(one.id, "perhaps")


async def test_an_answer_that_was_carried_out_is_still_known(hf, script):
    """By its id alone: the same one is the same, another is refused; to resume once more gives what came of it."""
    ran = []
    [one] = await asked(hf, script, ran, ACT)
    agent, model = agent_of(script, ran, "done", hf=hf)
    await agent.resume("s", answers={one.id: True}, by="ada")
    again = await agent.resume("s", answers={one.id: True})
    assert (again.status, again.output, again.messages[-1]["content"]) == ("completed", "done", "done")
    assert (ran, len(model.requests)) == (["a"], 1)
    assert hf.answer(one.id, True, by="bob").by == "ada"
    with pytest.raises(UsageError, match="allowed by ada"):
        hf.inbox.answer(one.id, False)
    with pytest.raises(UsageError, match="there is no question"):
        hf.answer("0" * len(one.id), True)
    with pytest.raises(UsageError, match="the last answer is complete"):
        await agent.resume("s", answers={})


async def test_resume_keeps_its_answers_where_another_has_the_session(hf, script):
    """They count although this process cannot go on: whoever has the session does."""
    ran = []
    [one] = await asked(hf, script, ran, ACT)
    agent, _ = agent_of(script, ran, "done", hf=hf)
    with closing(open_store(hf.url)) as store, store.lease("sessions/s").held("somebody", 60_000):
        with pytest.raises(Locked):
            await agent.resume("s", answers={one.id: True})
        assert (hf.waiting(), hf.inbox.due(), ran) == ([], ["s"], [])
    await agent.resume("s", answers={})
    assert ran == ["a"]


async def test_an_edit_needs_a_call_that_waits_for_permission(hf, script):
    """A tool that asks a person something has no arguments that could be changed."""

    def boss(question: str) -> str:
        """Ask."""
        raise Suspend("may I?")

    with hf.session("s") as session:
        agent = Agent(script([("boss", {"question": "x"})]).model, tools=[boss])
        [one] = (await agent.run("go", session=session)).waiting
    with pytest.raises(UsageError, match="no call to change") as caught:
        hf.answer(one.id, Edited({"question": "y"}))
    assert "Result(value)" in caught.value.remedy
    assert [found.id for found in hf.waiting()] == [one.id]


async def test_a_permission_waits_for_no_clock(hf, script):
    """Only a tool waits for a time or an event: nothing could be allowed by either."""
    hour = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    for wish in (Suspend(until=hour), Suspend(event="paid")):
        agent = Agent(script(ACT).model, tools=[acting([])], permission=wish)
        with hf.session() as session, pytest.raises(UsageError, match="waits for a person"):
            await agent.run("go", session=session)
    assert hf.waiting() == []


async def test_an_answer_while_another_has_the_session_open(hf, script):
    """The answer is a document first, taken in by who has the session before its run ends."""
    ran, answered = [], []

    async def slow() -> str:
        """Answer meanwhile."""
        while not hf.waiting():
            pass
        with holdfast.open(hf.url) as other:
            answered.append(other.answer(hf.waiting()[0].id, True).decision)
        return "slow"

    model = script([("act", {"what": "a"}), ("slow", {})], "done")
    agent = Agent(model.model, tools=[acting(ran), slow], permission="suspend")
    with hf.session("s") as session:
        result = await agent.run("go", session=session)
        assert session.store.documents(session.key).names("answers/") == []
    assert (result.status, ran, answered) == ("completed", ["a"], ["allow"])


@pytest.mark.stores("files", "sqlite", "postgres", "s3")
async def test_answers_that_race_are_one(hf, script):
    """Of two processes that say different things at once the first counts, on every store, and the other is told it."""
    [one] = await asked(hf, script, [], ACT)
    start, told = threading.Barrier(2), {}

    def answer(word):
        with holdfast.open(hf.url) as other:
            other.waiting()
            start.wait()
            try:
                told[word] = other.answer(one.id, word, by=str(word), session_id="s").by
            except UsageError as error:
                told[word] = error.message

    await asyncio.gather(*(asyncio.to_thread(answer, word) for word in (True, False)))
    [won] = [word for word in (True, False) if told[word] == str(word)]
    assert f"by {won} at" in told[not won]
    assert [kept.by for kept in kept_answers(hf.store.documents("sessions/s")).values()] == [str(won)]


async def test_suspend_expires_as_the_configuration_says(hf, script, monkeypatch):
    """Who only says "suspend" leaves to the user how long is waited, and what counts then."""
    [one] = await asked(hf, script, [], ACT)
    assert one.expires_at is None
    monkeypatch.setenv("HOLDFAST_APPROVALS_EXPIRE_MS", "60000")
    monkeypatch.setenv("HOLDFAST_APPROVALS_ON_EXPIRY", "allow")
    agent, _ = agent_of(script, [], ACT)
    with hf.session("t") as session:
        [one] = (await agent.run("go", session=session)).waiting
        assert session.live_state.asks[one.id].on_expiry == "allow"
    assert one.expires_at - one.asked_at == pytest.approx(60_000, abs=5_000)


async def test_a_question_expires_as_its_settings_say(hf, script):
    """Judged when it is listed, answered or gone on with; a late answer is told so."""
    ran = []
    agent = Agent(script(ACT, "done").model, tools=[acting(ran)], permission=Suspend("x", expires_in_ms=0))
    with hf.session("s") as session:
        [one] = (await agent.run("go", session=session)).waiting or hf.waiting() or [None]
    assert one is None or one.expires_at is not None
    assert (hf.waiting(), ran) == ([], [])
    assert results(hf)[0]["message"] == "Permission denied: nobody answered in time"


async def test_a_late_answer_is_refused(hf, script, monkeypatch):
    """What expired is answered by its settings."""
    ran = []
    agent = Agent(script(ACT).model, tools=[acting(ran, permission=Suspend(expires_in_ms=60_000, on_expiry="allow"))])
    with hf.session("s") as session:
        [one] = (await agent.run("go", session=session)).waiting
    at(monkeypatch, one.expires_at + 1)
    assert (hf.waiting(), hf.inbox.due()) == ([], ["s"])
    with pytest.raises(UsageError, match="expired"):
        hf.answer(one.id, False)
    again, _ = agent_of(script, ran, "done", hf=hf)
    await again.resume("s", answers={})
    assert ran == ["a"]


async def test_a_delegates_call_waits_and_its_run_goes_on_first(hf, script):
    """The parent's call has begun and is no unknown; the child's end is its result."""
    ran = []

    def lead(child_steps, steps):
        child = Agent(script(*child_steps).model, name="scout", tools=[acting(ran)])
        return Agent(script(*steps).model, name="lead", delegates=[child], permission="suspend", hf=hf)

    asks = [("ask_scout", {"task": "look"})]
    with hf.session("s") as session:
        result = await lead([ACT], [asks]).run("go", session=session)
    [one] = result.waiting
    assert (one.agent, hf.waiting()[0].id, hf.info("s").status) == ("scout", one.id, "waiting")
    done = await lead(["found it"], ["all done"]).resume("s", answers={one.id: True})
    assert (done.output, ran, results(hf)) == ("all done", ["a"], ["did a", "found it"])
    assert hf.info("s").status == "idle"


class Team:
    """A lead, a head and a scout, each the delegate of the one before; the scout's calls wait for permission."""

    def __init__(self, script):
        self.ran = []
        acts = [("act", {"what": "a"}), ("act", {"what": "b"})]
        self.scout = script(acts, "found it")
        self.head = script([("ask_scout", {"task": "look"})], "told")
        self.lead = script([("ask_head", {"task": "look"})], "all done")

    def agent(self, hf):
        """The lead, as a process makes it."""
        scout = Agent(self.scout.model, name="scout", tools=[acting(self.ran)])
        head = Agent(self.head.model, name="head", delegates=[scout])
        return Agent(self.lead.model, name="lead", delegates=[head], permission="suspend", hf=hf)


@pytest.mark.parametrize("cut", ["tool_call", "suspended"])
@pytest.mark.parametrize("second", [None, "interrupted", "turn_start", "suspended"])
async def test_a_delegates_calls_that_kills_left_unasked_are_asked_about(hf, script, tmp_path, cut, second):
    """As for the first agent: the run two below goes on first, with the same ids, and its parents' calls stay open."""
    team = Team(script)
    with hf.session("s") as session:
        asked = (await team.agent(hf).run("go", session=session)).waiting
    with killed_after(hf, tmp_path / "first", cut, skip=3 if cut == "tool_call" else 0) as store:
        waiting = (await team.agent(store).resume("s", answers={})).waiting
        if second:
            with killed_after(store, tmp_path / "second", second) as other:
                waiting = (await team.agent(other).resume("s", answers={})).waiting
                await check_answered(team, other, waiting, asked)
        else:
            await check_answered(team, store, waiting, asked)


async def check_answered(team, hf, waiting, asked):
    """The questions are those of the first process, and no model was asked before their answers."""
    assert sorted(one.id for one in waiting) == sorted(one.id for one in asked)
    assert [len(model.requests) for model in (team.lead, team.head, team.scout)] == [1, 1, 1]
    result = await team.agent(hf).resume("s", answers=dict.fromkeys((one.id for one in waiting), True))
    assert (result.output, sorted(team.ran), hf.waiting()) == ("all done", ["a", "b"], [])
    assert sorted(results(hf)) == ["did a", "did b", "found it", "told"]
    assert [len(model.requests) for model in (team.lead, team.head, team.scout)] == [2, 2, 2]


async def test_a_delegates_call_that_had_begun_is_told_as_unknown(hf, script, tmp_path, texts):
    """The call beside it is asked about; the one that had begun does not run again."""
    ran, child = [], script([("peek", {}), *ACT], "found it")

    def lead(store, *steps):
        scout = Agent(child.model, name="scout", tools=[Tool(lambda: ran.append("peek"), name="peek"), acting(ran)])
        return Agent(script(*steps).model, name="lead", delegates=[scout], permission="suspend", hf=store)

    with hf.session("s") as session:
        await lead(hf, [("ask_scout", {"task": "look"})]).run("go", session=session)
    with killed_after(hf, tmp_path, "tool_call", skip=2) as store:
        [one] = (await lead(store).resume("s", answers={})).waiting
        assert (await lead(store, "all done").resume("s", answers={one.id: True})).output == "all done"
        assert (one.tool, ran) == ("act", ["peek", "a"])
        assert "interrupted" in texts(child.requests[1])[-2]


async def test_a_delegate_that_has_ended_is_not_continued_again(hf, script):
    """Neither by a question of its parent in the same turn, nor by the process after that."""
    child = script(ACT, "found it", "again")

    def lead(*steps):
        scout = Agent(child.model, name="scout", tools=[acting([])])
        return Agent(
            script(*steps).model, name="lead", delegates=[scout], tools=[acting([])], permission="suspend", hf=hf
        )

    with hf.session("s") as session:
        [one] = (await lead([("ask_scout", {"task": "look"})]).run("go", session=session)).waiting
    [two] = (await lead(ACT, "all done").resume("s", answers={one.id: True})).waiting
    assert (await lead("all done").resume("s", answers={two.id: True})).output == "all done"
    assert (len(child.requests), results(hf)) == (2, ["did a", "found it", "did a"])


async def test_secrets_are_never_executed_as_redacted(tmp_path, script):
    """An approval from the log of a call with a secret is told to the model, not carried out."""
    ran = []
    with holdfast.open(tmp_path / "store", config={"redaction": {"mode": "mark"}}) as hf:
        secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
        [one] = await asked(hf, script, ran, [("act", {"what": secret})])
        assert not one.replayable
    with holdfast.open(tmp_path / "store") as hf:
        assert secret not in str(hf.waiting()[0].args)
        agent, _ = agent_of(script, ran, "done", hf=hf)
        await agent.resume("s", answers={one.id: True})
        assert (ran, "make the call once more" in results(hf)[0]["message"]) == ([], True)


async def test_forks_wait_for_nothing(hf, script):
    """The question is the parent's."""
    [one] = await asked(hf, script, [], ACT)
    hf.fork("s", new_id="t")
    assert [found.session_id for found in hf.waiting()] == ["s"]
    hf.archive("s")
    assert hf.waiting() == []
    assert one.session_id == "s"


async def test_a_token_answers_one_question_by_its_holder(hf, script):
    """Made as often as needed, revoked one by one; the answer says by whom."""
    [one] = await asked(hf, script, [], ACT)
    first, second = hf.inbox.token(one.id, "vendor"), hf.inbox.token(one.id, "boss")
    assert hf.inbox.revoke_token(first)
    with pytest.raises(UsageError, match="answers no question"):
        hf.inbox.answer_by_token(first, True)
    assert hf.inbox.answer_by_token(second, False, because="no").by == "boss"
    with pytest.raises(UsageError, match="answered already"):
        hf.inbox.token(one.id, "late")
    names = hf.store.documents("sessions/s").names("tokens/")
    assert not any(second.partition(".")[2] in name for name in names)


async def test_a_tool_waits_for_a_time(hf, script):
    """The session is suspended, not waiting, and due when the time has come."""

    def later() -> str:
        """Wait."""
        raise Suspend(until=dt.datetime.now(dt.UTC) + dt.timedelta(hours=1))

    with hf.session("s") as session:
        result = await Agent(script([("later", {})]).model, tools=[later]).run("go", session=session)
    assert (result.waiting[0].kind, hf.info("s").status, hf.inbox.due()) == ("time", "suspended", [])


async def test_a_tool_waits_for_an_event(hf, script):
    """A signal answers all that wait for it."""

    def paid() -> str:
        """Wait."""
        raise Suspend(event="paid")

    with hf.session("s") as session:
        await Agent(script([("paid", {})]).model, tools=[paid]).run("go", session=session)
    assert (hf.inbox.signal("other"), hf.inbox.signal("paid", {"sum": 3}), hf.inbox.due()) == ([], ["s"], ["s"])
    await Agent(script("thanks").model, hf=hf).resume("s", answers={})
    assert results(hf) == [{"sum": 3}]


async def test_an_event_that_comes_again(hf, script, monkeypatch):
    """Another value for what is answered already is for who waits next, once, also if that one's process dies."""

    def paid() -> str:
        """Wait."""
        raise Suspend(event="paid")

    def agent(*steps):
        return Agent(script(*steps).model, tools=[paid], hf=hf)

    for id in ("s", "t"):
        with hf.session(id) as session:
            await agent([("paid", {})]).run("go", session=session)
    assert (hf.inbox.signal("paid", 1), hf.inbox.signal("paid", 2)) == (["s", "t"], [])
    # It is heard, and whoever heard it is cut off before it is put away.
    monkeypatch.setattr(type(hf.store.documents("shared/signals")), "delete", lambda _self, _name: False)
    await agent([("paid", {})], "thanks").resume("s", answers={})
    monkeypatch.undo()
    waiting = await agent([("paid", {})]).resume("t", answers={})
    assert (results(hf), results(hf, "t"), waiting.status) == ([1, 2], [1], "waiting")
    at(monkeypatch, int(time.time() * 1000) + 25 * 3600 * 1000)
    assert hf.inbox.signal("other") == []
    assert len(hf.store.documents("shared/signals").names("signal-")) == 1


async def test_what_is_due_goes_on_by_itself(hf, script):
    """An answered session that nobody resumed is found, and carried out once."""
    ran = []
    [one] = await asked(hf, script, ran, ACT, name="bot")
    agent, _ = agent_of(script, ran, "done", name="bot")
    runtime = holdfast.Runtime(agent, hf)
    assert await runtime.wake_due() == []
    hf.answer(one.id, True)
    assert (await runtime.wake_due(), await runtime.wake_due(), ran) == (["s"], [], ["a"])
    runtime.close()


def test_a_session_sleeps_until_a_time(hf):
    """On record before and after; the time past, it goes on at once, and nothing is recorded."""
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=0.5)
    with hf.session("s") as s:
        s.sleep_until(soon)
        assert dt.datetime.now(dt.UTC) >= soon
        assert s.live_state.status == "idle"
        s.sleep_until(soon)
        asyncio.run(s.asleep_until(soon))
    assert [e.type for e in hf.events("s", types=["suspended", "resumed"])] == ["suspended", "resumed"]
    with hf.session("s") as s, pytest.raises(UsageError, match="with a time zone"):
        s.sleep_until(dt.datetime(2030, 1, 1))  # noqa: DTZ001 - that is what is refused


SLEEPER = """
import sys, datetime as dt, holdfast
with holdfast.open(sys.argv[1]) as hf, hf.session("s", agent_id=sys.argv[3]) as s:
    s.user("Wake me")
    print("asleep", flush=True)
    s.sleep_until(dt.datetime.fromtimestamp(float(sys.argv[2]), dt.UTC))
"""


def test_a_sleeper_that_was_killed_is_woken_by_its_agent(hf, script, texts, monkeypatch):
    """The session stays suspended when its process dies, and is due when the time has come; another agent leaves it."""
    until = int(time.time()) + 3600
    command = [sys.executable, "-c", SLEEPER, hf.store.path, str(until), "helper"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "asleep\n"
        while hf.info("s").status != "suspended":
            time.sleep(0.01)
        child.kill()
    [one] = hf.waiting()
    assert (one.kind, one.until, hf.inbox.due()) == ("time", until * 1000, [])
    at(monkeypatch, until * 1000)
    assert (hf.waiting(), hf.inbox.due()) == ([], ["s"])
    for name, woken in (("other", []), ("helper", ["s"])):
        model = script("good morning")
        runtime = Runtime(Agent(model.model, agent_id=name, hf=hf), hf)
        assert asyncio.run(runtime.wake_due()) == woken
        runtime.close()
    assert "(waited until" in texts(model.requests[0])[-1]
    assert (hf.info("s").status, hf.inbox.due()) == ("idle", [])
