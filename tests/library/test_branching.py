"""Forking, rewinding, comparing and merging sessions through the facade."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys

import pytest

import holdfast
from holdfast import Agent
from holdfast.errors import Damaged, InvalidId, Locked, NotFound, ResumeTokenUsed, TooLarge, UsageError
from holdfast.library import Holdfast
from holdfast.model import Limits
from holdfast.replay import PROVIDERS, validate

pytestmark = pytest.mark.stores("files", "memory", timers=False)


@pytest.fixture
def on_files(store_root):
    """The sessions of a fresh file store."""
    with Holdfast(store_root, timers=False) as library:
        yield library


@pytest.fixture
def trip(hf):
    """A session with state and a conversation."""
    with hf.session("trip", title="Trip", agent_id="planner") as s:
        s.user("Where to?")
        s.assistant("Lisbon")
        s.variables["budget"] = 900
        s.memory.set("likes", "trains")
        s.todos.write([{"content": "book", "status": "pending"}])
        s.append("user", {"content": "once"}, key="k1")
    return "trip"


def bytes_of(hf, session_id):
    """All bytes of a session's log."""
    return b"".join(hf.store.log(f"sessions/{session_id}").read())


@pytest.mark.req("S2-67")
@pytest.mark.req("C10")
def test_a_fork_goes_on_from_where_its_parent_was(hf, trip):
    """It has the state of that moment, is at rest, and neither can change the other."""
    before = bytes_of(hf, trip)
    made = hf.fork(trip)
    assert bytes_of(hf, trip) == before
    state = hf.state(made)
    assert (state.variables, state.todos[0]["content"]) == ({"budget": 900}, "book")
    assert (hf.info(made).parent, hf.info(made).title) == (trip, "Trip (fork)")
    assert hf.info(made).status == "idle"
    with hf.session(made) as s:
        assert s.agent_id == "planner"
        assert s.append("user", {"content": "again"}, key="k1").data["content"] == "once"
        s.user("Porto instead")
    with hf.session(trip) as s:
        s.user("Lisbon it is")
    assert "Porto" not in str(hf.recover(trip).messages)
    assert "Lisbon it is" not in str(hf.recover(made).messages)
    assert hf.verify(made).ok
    assert hf.verify(trip).ok


def test_a_fork_may_be_named_and_titled(hf, trip):
    """An id and a title of one's own; ids that are taken or none are refused, nothing is made."""
    assert hf.fork(trip, new_id="porto", title="Porto") == "porto"
    assert hf.info("porto").title == "Porto"
    for wrong, error in (("porto", UsageError), ("PORTO", InvalidId), ("../x", InvalidId), ("", InvalidId)):
        with pytest.raises(error):
            hf.fork(trip, new_id=wrong)
    with pytest.raises(TooLarge):
        hf.fork(trip, new_id="long", title="x" * 1_000_000)
    with pytest.raises(NotFound):
        hf.fork("nowhere")
    with pytest.raises(InvalidId):
        hf.fork("../trip")
    with pytest.raises(NotFound, match="no event 99"):
        hf.fork(trip, at=99)
    assert {row.session_id for row in hf.list()} == {trip, "porto"}


def test_an_open_session_can_be_forked(hf):
    """In mid-turn, with a call under way: the fork is valid and waits for nothing."""
    with hf.session("p") as s, s.turn():
        s.user("Read it")
        s.tool_call("Read", {"path": "a"}, id="c1")
        made = hf.fork("p")
        assert hf.info(made).status == "idle"
        for provider in PROVIDERS:
            for way in ("drop", "mark"):
                messages = hf.recover(made, provider, way).messages
                assert validate(messages, provider).valid
        assert "interrupted" in str(hf.recover(made, incomplete="mark").messages)
        s.tool_result("c1", "done")
    with hf.session(made) as s:
        assert s.live_state.status == "idle"
        s.user("go on")
        assert [event.type for event in s.events()].count("interrupted") == 0


def test_what_is_staged_is_not_forked(hf):
    """What its owner has not saved yet is in no fork."""
    with hf.session("p", staged=True) as s:
        s.user("saved")
        s.flush()
        s.user("draft")
        assert "draft" not in str(list(hf.events(hf.fork("p"))))


def test_a_session_that_cannot_be_flushed_can_still_be_forked(hf, monkeypatch):
    """What is in the store is enough."""
    with hf.session("p") as s:
        s.user("x")

        def fail():
            raise holdfast.errors.SyncFailed

        monkeypatch.setattr(s, "barrier", fail)
        assert hf.exists(hf.fork("p"))


def test_a_session_that_another_process_has_open_can_be_forked(on_files, store_root):
    """Reading needs no lease: the fork has what the other process has recorded so far."""
    script = (
        "import holdfast, sys; hf = holdfast.open(sys.argv[1]); s = hf.session('p');"
        "s.user('there'); print('ready', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(store_root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"ready\n"
        made = on_files.fork("p")
        with pytest.raises(Locked):
            on_files.restore("p", at=1)
        other.stdin.close()
        other.wait(120)
    assert "there" in str(on_files.recover(made).messages)


def test_forks_of_forks_of_a_growing_family(hf, trip):
    """Each generation has all before it, and deleting one leaves the others whole."""
    line = [trip]
    for number in range(5):
        made = hf.fork(line[-1])
        with hf.session(made) as s:
            s.user(f"generation {number}")
        line.append(made)
    found = hf.lineage(line[-1])
    assert [one.session_id for one in found.parents] == line[-2::-1]
    assert (found.root, found.children) == (trip, [])
    assert hf.lineage(trip).children == [line[1]]
    hf.delete(line[2])
    assert "generation 1" in str(hf.recover(line[-1]).messages)
    assert [one.exists for one in hf.lineage(line[-1]).parents] == [True, True, False]
    assert hf.state(line[-1]).root == trip
    assert hf.lineage(line[-1]).root == trip  # as it was told when it was forked


@pytest.mark.parametrize("claim", ["self", "other", "gone", "../etc", ""])
def test_claims_about_parents_never_lead_in_circles(hf, claim):
    """A log that names itself, a loop, nobody or nonsense as its parent harms nothing."""
    names = {"self": "x", "other": "y"}
    with hf.session("x") as s:
        s.append("forked", {"session": names.get(claim, claim)})
    with hf.session("y") as s:
        s.append("forked", {"session": "x"})
    found = hf.lineage("x")
    assert len(found.parents) <= 1
    assert hf.lineage("y").parents[0].session_id == "x"
    assert hf.compare("x", "y")
    assert hf.exists(hf.merge("x", "y"))
    assert hf.exists(hf.fork("x"))


def test_damage_is_refused_before_anything_is_made(on_files):
    """A fork behind damage is refused; one before it is made."""
    with on_files.session("p") as s:
        for n in range(6):
            s.user(f"message {n}")
    path = os.path.join(on_files.location("p"), "events.jsonl")
    with open(path, "rb") as file:
        data = file.read()
    with open(path, "wb") as file:
        file.write(data.replace(b"message 3", b"massage 3"))
    with pytest.raises(Damaged):
        on_files.fork("p")
    with pytest.raises(Damaged):
        on_files.merge("p", "p")
    assert on_files.verify(on_files.fork("p", at=3)).ok


def test_permissions_for_the_session_come_along(hf):
    """What the user allowed for the session is allowed in its fork; a merge takes ours alone."""
    with hf.session("p") as s:
        s.append("permission", {"tool": "Read", "decision": "allow", "scope": "session"})
    a, b = hf.fork("p"), hf.fork("p")
    with hf.session(b) as s:
        s.append("permission", {"tool": "Write", "decision": "allow", "scope": "session"})
    assert list(hf.state(a).permissions.approvals) == ["Read"]
    assert list(hf.state(hf.merge(a, b)).permissions.approvals) == ["Read"]


def test_a_resume_token_belongs_to_the_parent(hf):
    """A fork of a waiting session does not wait, and its parent's token is worth nothing there."""
    from holdfast.agent import Suspend, tool

    @tool
    def ask_a_person() -> str:
        """Ask."""
        raise Suspend("needs a person")

    agent = Agent("test", tools=[ask_a_person], hf=hf)
    with hf.session("p") as s:
        token = agent.run_sync("go", session=s).suspended.token
    made = hf.fork("p")
    assert (hf.info("p").status, hf.info(made).status) == ("waiting", "idle")
    with hf.session(made) as s, pytest.raises(ResumeTokenUsed):
        asyncio.run(agent.resume(token, "yes", session=s))


@pytest.mark.req("C10")
def test_restore_makes_the_fork_the_agents_current_session(hf):
    """Going back is a fork that the agent goes on with; what came after stays in the original."""
    with Agent("test", agent_id="bob", persistent_session=True, hf=hf) as agent:
        agent.run_sync("first")
        session_id, seq = agent.session.id, agent.session.seq
        agent.run_sync("second")
    title = hf.info(session_id).title
    made = hf.restore(session_id, at=seq)
    assert hf.info(made).title == title
    document = json.loads(hf.store.documents("agents/bob").get("agent.json")[0])
    assert (document["current_session"], document["agent_type"] is None) == (made, False)
    with Agent("test", agent_id="bob", persistent_session=True, hf=hf) as agent:
        assert agent.session.id == made
        assert [turn["content"] for turn in agent.session.history if turn["role"] == "user"] == ["first"]
    assert "second" in str(hf.recover(session_id).messages)


def test_restore_of_a_session_without_an_agent(hf):
    """It is a fork like any other; one that is open here may be gone back in too."""
    with hf.session("p") as s:
        s.user("a")
        s.user("b")
        made = hf.restore("p", at=2, new_id="back")
    assert made == "back"
    assert [event.data["content"] for event in hf.events(made, types=["user"])] == ["a"]


@pytest.mark.req("S2-68")
def test_two_ways_are_compared(hf, trip):
    """Where they parted, what each said and did since, what it used."""
    other = hf.fork(trip)
    with hf.session(trip) as s:
        s.user("Hotel?")
        s.assistant("Central", usage={"output_tokens": 10}, model="gpt-4o")
    with hf.session(other) as s:
        s.user("Hotel?")
        with s.tool("Search", {"path": "hotels.txt"}) as call:
            call.result = "3"
        s.assistant("By the sea", usage={"output_tokens": 20, "cost": 0.25}, model="m")
        s.variables["budget"] = 1200
    found = hf.compare(trip, other)
    assert found.ancestor.session_id == trip
    assert [(p.a.answer, p.b.answer, p.same_question) for p in found.turns] == [("Central", "By the sea", True)]
    assert (found.tools[0].tool, found.files[0].path) == ("Search", "hotels.txt")
    assert [(c.name, c.a, c.b, c.b_did) for c in found.changes] == [("budget", 900, 1200, "set")]
    assert (found.b.tokens, found.b.cost) == (20, 0.25)
    assert found.a.cost > 0
    with pytest.raises(NotFound):
        hf.compare(trip, "nowhere")


@pytest.mark.req("S2-69")
@pytest.mark.req("B-40")
def test_a_new_id_is_not_looked_for_among_all_others(hf, trip, monkeypatch):
    """A fork under an id of our own making takes no longer where there are many sessions."""

    def clash(key):
        raise AssertionError(key)

    monkeypatch.setattr(hf._core.store, "clash", clash)
    assert hf.exists(hf.fork("trip"))


def test_long_words_are_compared_and_summed_up(hf, trip):
    """What is kept beside the log is read where it is told what a turn was about."""
    other = hf.fork(trip)
    with hf.session(other) as s:
        s.user("Long question " + "q" * 300_000)
        s.assistant("Long answer " + "a" * 300_000)
    [pair] = hf.compare(trip, other).turns
    assert (pair.b.user[:13], pair.b.answer[:11]) == ("Long question", "Long answer")
    assert hf.compare(trip, other).ancestor.session_id == trip
    found = str(hf.recover(hf.merge(trip, other, turns="summary")).messages)
    assert "asked: Long question" in found
    assert "answered: Long answer" in found
    whole = hf.merge(trip, other)
    assert "a" * 300_000 in str(hf.recover(whole).messages)
    assert hf.merge_report(hf.merge(whole, other)).merged_turns == 0


def test_a_merge_is_a_new_session_with_what_both_did(hf, trip):
    """Both ways in one, conflicts in its report, the originals untouched to the byte."""
    other = hf.fork(trip)
    with hf.session(trip) as s:
        s.user("Hotel?")
        s.variables["budget"] = 1000
    with hf.session(other) as s:
        s.user("x" * 300_000)
        s.assistant("By the sea")
        s.variables["budget"] = 1200
        s.variables["big"] = "y" * 300_000
        s.memory.set("hotel", "sea")
    before = bytes_of(hf, trip), bytes_of(hf, other)
    made = hf.merge(trip, other, policy="theirs", new_id="both", title="Both")
    assert (bytes_of(hf, trip), bytes_of(hf, other)) == before
    state = hf.state(made)
    with hf.session(made, read_only=True) as s:
        assert s.variables["big"] == "y" * 300_000
        assert s.variables["budget"] == 1200
    assert state.memory["hotel"].value == "sea"
    row = hf.info(made)
    assert (row.title, row.status, row.parent) == ("Both", "idle", trip)
    text = str(hf.recover(made).messages)
    assert "Hotel?" in text
    assert "x" * 300_000 in text
    report = hf.merge_report(made)
    assert (report.session, report.merged_turns) == (other, 1)
    assert [(one.name, one.ours, one.theirs, one.taken) for one in report.conflicts] == [
        ("budget", 1000, 1200, "theirs")
    ]
    assert hf.merge_report(trip) is None
    assert hf.verify(made).ok
    for provider in PROVIDERS:
        assert validate(hf.recover(made, provider).messages, provider).valid
    with hf.session(made) as s:
        s.user("And now?")
        assert "And now?" in str(s.messages())


def test_a_merge_that_is_refused_makes_nothing(hf, trip):
    """Conflicts that nobody decides, turns that there are not."""
    other = hf.fork(trip)
    for id in (trip, other):
        with hf.session(id) as s:
            s.variables["budget"] = id
    count = len(hf.list(limit=None))
    with pytest.raises(UsageError, match="variable budget"):
        hf.merge(trip, other, policy="ask")
    with pytest.raises(UsageError, match="no new turn"):
        hf.merge(trip, other, turns=[4])
    assert len(hf.list(limit=None)) == count


def test_a_report_that_is_nonsense_is_none(hf):
    """Anyone may record an event of that name."""
    with hf.session("p") as s:
        s.append("merged", {"session": 5})
    assert hf.merge_report("p") is None


def test_what_agents_said_is_merged_into_one_conversation(hf):
    """Turns of agents, each under its own run, are all in the conversation of the merged one."""
    agent = Agent("test", hf=hf)
    with hf.session("p") as s:
        agent.run_sync("common", session=s)
    other = hf.fork("p")
    for id, words in (("p", "ours"), (other, "theirs")):
        with hf.session(id) as s:
            agent.run_sync(words, session=s)
    made = hf.merge("p", other)
    with hf.session(made) as s:
        agent.run_sync("go on", session=s)
        text = str(s.messages())
    assert all(text.count(f"'{words}'") == 1 for words in ("common", "ours", "theirs", "go on"))


def test_a_closed_holdfast_forks_nothing(hf, trip):
    """After closing, nothing is made."""
    hf.close()
    with pytest.raises(UsageError, match="closed"):
        hf.fork(trip)


def test_a_long_merge_is_remembered_too(store_root):
    """What was copied is known again also where the note of it is kept beside the log."""
    limits = Limits(blob_bytes_min=2_000)
    with Holdfast(store_root, limits=limits, timers=False) as hf:
        with hf.session("p") as s:
            s.user("common")
        other = hf.fork("p")
        with hf.session(other) as s:
            for n in range(60):
                s.user(f"question {n}")
        made = hf.merge("p", other)
        assert b"$blob" in bytes_of(hf, made)
        assert hf.merge_report(made).merged_turns == 60
        assert hf.merge_report(hf.merge(made, other)).merged_turns == 0
        with hf.session(other) as s:
            s.user("one more")
        assert hf.merge_report(hf.merge(made, other)).merged_turns == 1
