"""The status of a session: one truth, whoever is asked and however."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

import holdfast
from holdfast.agent import Agent
from holdfast.apps.cli import cli
from holdfast.errors import ModelFailed, UsageError
from holdfast.model import STATUSES
from holdfast.testing.model_server import Fail, Say, ScriptedModel

# Works in a turn until it is told to go on, then dies without a word.
WORK = """
import os, sys
import holdfast
from holdfast.agent import Agent
from pydantic_ai.models.function import FunctionModel

def wait(messages, info):
    print("at work", flush=True)
    sys.stdin.readline()
    os._exit(9)

hf = holdfast.open(sys.argv[1])
Agent(FunctionModel(wait), agent_id="helper", hf=hf, persistent_session=True).run_sync("go")
"""


def told(hf, id):
    """What each of those who can be asked from outside says."""
    command = CliRunner().invoke(cli, ["list", "--json", "--store", hf.url])
    with hf.session(id, read_only=True) as session:
        read = session.state.status
    return {
        "info": hf.info(id).status,
        "list": hf.list()[0].status,
        "state": hf.state(id).status,
        "read_only": read,
        "command": json.loads(command.stdout)["sessions"][0]["status"],
        "filtered": next(s for s in STATUSES if hf.list(status=s)),
    }


@pytest.mark.parametrize("kind", ["files", "sqlite"])
def test_all_say_running_and_after_a_crash_interrupted(kind, store_root, script):
    """While the process lives it runs, for everybody; once it is killed it is interrupted."""
    url = str(store_root) if kind == "files" else f"sqlite://{store_root}.db"
    work = subprocess.Popen([sys.executable, "-c", WORK, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with holdfast.open(url) as hf:
        assert work.stdout.readline() == "at work\n"
        [row] = hf.list()
        assert set(told(hf, row.session_id).values()) == {"running"}
        work.communicate("die\n")
        assert set(told(hf, row.session_id).values()) == {"interrupted"}
        model = script("done").model
        with Agent(model, agent_id="helper", hf=hf, persistent_session=True) as agent:
            session = agent.session
            own = {agent.status, session.state.status, session.live_state.status}
            assert own | set(told(hf, row.session_id).values()) == {"interrupted"}
            session.append("metadata", {"seen": True})  # from here on it is on record
            own = {agent.status, session.state.status, session.live_state.status}
            assert own | set(told(hf, row.session_id).values()) == {"interrupted"}
        assert set(told(hf, row.session_id).values()) == {"interrupted"}
        # What it was doing at an earlier event does not depend on who lives today.
        begun = next(e.seq for e in hf.events(row.session_id) if e.type == "user")
        assert hf.state(row.session_id, at=begun).status == "running"


@pytest.fixture
def model(monkeypatch):
    """A provider that is down, until it is told to be up again."""
    steps = [Fail(503, "overloaded")]
    with ScriptedModel(lambda _: steps[-1]) as model:
        monkeypatch.setenv("OPENAI_BASE_URL", model.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
        model.recover = lambda: steps.append(Say("Here I am."))
        yield model


def test_a_turn_that_ended_in_an_error_leaves_a_failed_session(store_root, model):
    """A provider that is down is a failure until the session goes on, which it can."""
    with holdfast.open(store_root) as hf:
        with Agent("openai:scripted", agent_id="a", hf=hf, persistent_session=True) as agent:
            with pytest.raises(ModelFailed):
                agent.run_sync("hello")
            id = agent.session_id
            assert {agent.status, *told(hf, id).values()} == {"failed"}
        assert set(told(hf, id).values()) == {"failed"}
        model.recover()
        with Agent("openai:scripted", agent_id="a", hf=hf, persistent_session=True) as agent:
            assert agent.status == "failed"
            assert agent.run_sync(None).output == "Here I am."
            assert agent.status == "idle"
        assert set(told(hf, id).values()) == {"idle"}


def test_a_turn_of_ones_own_that_raised_leaves_a_failed_session(hf):
    """`s.turn()` around code that fails says so as well."""
    with hf.session("s") as session:
        session.user("hi")
        with pytest.raises(AttributeError), session.turn():
            session.limits.nothing()
        assert session.state.status == "failed"
    assert hf.info("s").status == "failed"


def test_only_statuses_that_there_are_can_be_asked_for(hf):
    """The remedy lists them."""
    with pytest.raises(UsageError) as caught:
        hf.list(status="broken")
    assert caught.value.remedy == "One of idle, running, waiting, interrupted, failed, suspended."
