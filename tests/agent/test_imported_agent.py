"""An agent of another system goes on here with the session that was brought in."""

from __future__ import annotations

import json

import pytest

from holdfast.agent import Agent

CREATED = "2026-01-31T10:00:00.000Z"


def document(agent, *words, saved=CREATED):
    """An agent's one file, as its first design has it."""
    roles = ("user", "assistant")
    history = [{"id": f"m{n}", "role": roles[n % 2], "content": text} for n, text in enumerate(words)]
    return {
        "version": 1,
        "agentId": agent,
        "agentType": "agent",
        "createdAt": CREATED,
        "lastActiveAt": saved,
        "context": {"version": 1, "core": {"history": history, "toolCalls": []}},
        "metadata": {},
    }


def write(path, value):
    """A JSON file, and the folders it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


@pytest.mark.parametrize("name", ["my-assistant", "My Assistant!"])
async def test_the_agent_goes_on_with_what_was_imported(hf, script, texts, tmp_path, name):
    """Whatever characters its id has, the agent of that id has the whole conversation."""
    path = write(tmp_path / "session.json", document(name, "My name is Alice", "Hello Alice"))
    [row] = hf.import_all([path]).sessions
    assert hf.state(row.session_id).agent_id is not None
    assert row.problems == ()
    model = script("You are Alice")
    with Agent(model.model, agent_id=name, hf=hf, persistent_session=True) as agent:
        assert agent.session_id == row.session_id
        await agent.run("Who am I?")
    assert texts(model.requests[0]) == ["My name is Alice", "Hello Alice", "Who am I?"]


async def test_an_agent_that_has_a_session_here_keeps_it(hf, script, tmp_path):
    """A file never takes an agent away from what it is working on; the report says so."""
    with Agent(script("Hi").model, agent_id="bot", hf=hf, persistent_session=True) as agent:
        await agent.run("Mine")
        mine = agent.session_id
    path = write(tmp_path / "session.json", document("bot", "Theirs", "Yes"))
    [row] = hf.import_all([path]).sessions
    assert any(mine in text and "goes on with" in text for text in row.problems)
    with Agent(script("Hi").model, agent_id="bot", hf=hf, persistent_session=True) as agent:
        assert agent.session_id == mine
    [again] = hf.import_all([path]).sessions
    assert (again.outcome, again.problems) == ("unchanged", ())


def test_of_several_sessions_the_newest_goes_on(hf, script, tmp_path):
    """An agent with many sessions there goes on with the one that was saved last."""
    for name, saved in (("a", "2026-01-31"), ("b", "2026-02-02"), ("c", "2026-02-01")):
        message = {"type": "message", "role": "user", "content": [{"type": "input_text"}]}
        state = {"conversation": [message], "metadata": {"agentId": "bot"}}
        value = {"version": 1, "sessionId": name, "createdAt": CREATED, "state": state}
        saved_at = {"lastSavedAt": f"{saved}T10:00:00.000Z"}
        write(tmp_path / "bot" / "sessions" / f"{name}.json", value | saved_at)
    report = hf.import_all([tmp_path / "bot"])
    newest = next(row.session_id for row in report.sessions if row.foreign_id == "b")
    with Agent(script("Hi").model, agent_id="bot", hf=hf, persistent_session=True) as agent:
        assert agent.session_id == newest
    assert [row.agent_id for row in hf.list(agent_id="bot")] == ["bot"] * 3


def test_a_dry_run_points_no_agent_anywhere(hf, tmp_path):
    """Nothing of an agent is written when nothing of its session is."""
    path = write(tmp_path / "session.json", document("bot", "Hi"))
    hf.import_all([path], dry_run=True)
    assert hf.store.documents("agents/bot").get("agent.json") is None
