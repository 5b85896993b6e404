"""``holdfast acp prompt``: one prompt to an agent from the command line."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import holdfast
from holdfast.apps.cli import cli

SCRIPT = Path(__file__).with_name("agents") / "scripted.py"
COMMAND = str(Path(sys.executable).with_name("holdfast"))


@pytest.fixture
def agent(tmp_path):
    """The command line of a scripted agent."""

    def agent(*wishes):
        return " ".join([sys.executable, str(SCRIPT), "--store", str(tmp_path / "a.json"), *wishes])

    return agent


@pytest.fixture
def prompt(store_root, tmp_path):
    """Run the command in this process."""

    def prompt(*arguments, text=None):
        env = {"HOLDFAST_STORE": str(store_root), "COLUMNS": "100"}
        line = ["acp", "prompt", *map(str, arguments)]
        if "--cwd" not in arguments:
            line += ["--cwd", str(tmp_path)]
        return CliRunner(env=env).invoke(cli, line, input=text)

    return prompt


def users(store_root):
    """What was asked, session by session."""
    with holdfast.open(store_root) as library:
        return {
            id: [event.data["content"] for event in library.events(id, types={"user"})] for id in library.session_ids()
        }


@pytest.mark.req("S4-31", "S4-69")
def test_the_answer_is_all_there_is_on_standard_output(prompt, agent, store_root):
    """The session's id is on standard error; the next prompt goes on with it."""
    outcome = prompt("--agent", agent("--load", "yes"), "hello", "there")
    assert outcome.exit_code == 0
    assert outcome.stdout == "You said 'hello there'. I know [].\n"
    (id,) = users(store_root)
    assert f"session {id} (new)" in outcome.stderr
    outcome = prompt("--agent", agent("--load", "yes"), "--session", id[:12], "again")
    assert "hello there" in outcome.stdout
    assert f"session {id} (restored by load)" in outcome.stderr
    assert users(store_root) == {id: ["hello there", "again"]}


@pytest.mark.req("S4-77")
def test_a_snapshot_of_the_session_exists_and_is_seen(prompt, agent, store_root):
    """With nothing set, the command that lists snapshots has one after a prompt."""
    assert prompt("--agent", agent(), "--session", "mine", "one").exit_code == 0
    env = {"HOLDFAST_STORE": str(store_root), "COLUMNS": "100"}
    told = CliRunner(env=env).invoke(cli, ["snapshots", "mine", "--json"])
    assert told.exit_code == 0
    with holdfast.open(store_root) as library:
        (found,) = library.snapshots("mine")
    assert found.seq in [one["seq"] for one in json.loads(told.stdout)["snapshots"]]


def test_a_session_can_be_named(prompt, agent, store_root):
    """An id that is not there begins a session; `-` is the newest; nonsense is refused."""
    assert prompt("--agent", agent(), "--session", "mine", "one").exit_code == 0
    assert prompt("--agent", agent(), "--session", "-", "two").exit_code == 0
    assert users(store_root) == {"mine": ["one", "two"]}
    outcome = prompt("--agent", agent(), "--session", "../x", "three")
    assert outcome.exit_code == 2


@pytest.mark.req("S4-43")
def test_a_warning_says_that_the_agent_was_told(prompt, agent):
    """On standard error, and in the JSON."""
    prompt("--agent", agent(), "--session", "mine", "my name is Ada")
    outcome = prompt("--agent", agent(), "--session", "mine", "--json", "who am I")
    warning = json.loads(outcome.stderr)["warning"]
    assert warning["message"].startswith("scripted cannot go on")
    found = json.loads(outcome.stdout)
    assert found["attached"] == "primed"
    assert found["session_id"] == "mine"
    assert found["acp_session_id"].startswith("scripted-")
    assert found["stop_reason"] == "end_turn"
    assert "my name is Ada" in found["output"]
    assert len(found["warnings"]) == 1


def test_the_prompt_may_come_from_standard_input(prompt, agent):
    """With `-`; an empty one is refused."""
    assert "from a pipe" in prompt("--agent", agent(), "-", text="from a pipe").stdout
    outcome = prompt("--agent", agent(), "-", text=" \n")
    assert outcome.exit_code == 2


@pytest.mark.parametrize(
    ("options", "decision"),
    [([], "deny"), (["--yes"], "allow"), (["--permission", "allow"], "allow"), (["--permission", "deny"], "deny")],
)
def test_tools_are_refused_unless_allowed(prompt, agent, store_root, options, decision):
    """In a pipe nobody can be asked, so that nothing is permitted by itself."""
    outcome = prompt("--agent", agent(), "--session", "s", *options, "use tool")
    assert outcome.exit_code == 0
    assert "→ List files" in outcome.stderr
    assert ("was refused a tool: List files" in outcome.stderr) == (decision == "deny")
    with holdfast.open(store_root) as library:
        _, event = library.events("s", types={"permission"})
    assert event.data["decision"] == decision


@pytest.mark.parametrize(("options", "refused"), [([], ["List files"]), (["--yes"], [])])
def test_a_script_sees_what_was_refused(prompt, agent, options, refused):
    """An answer that lacks a tool looks like any other: the document says so."""
    outcome = prompt("--agent", agent(), "--json", *options, "use tool")
    assert json.loads(outcome.stdout)["refused"] == refused


@pytest.mark.parametrize("options", [["--permission", "ask"], ["--yes", "--permission", "deny"]])
def test_wishes_that_cannot_be_are_refused(prompt, agent, store_root, options):
    """Before anything is started or recorded."""
    outcome = prompt("--agent", agent(), *options, "hello")
    assert outcome.exit_code == 2
    assert users(store_root) == {}


def test_failures_are_sentences(prompt, agent, store_root):
    """An agent that cannot be started, dies or fails: exit code 1 and no stack trace."""
    assert "could not be started" in prompt("--agent", "/no/such/agent", "hi").stderr
    for outcome in (
        prompt("--agent", agent("--die", "stream"), "hi"),
        prompt("--agent", agent(), "error"),
        prompt("--agent", agent("--die", "initialize"), "hi"),
    ):
        assert outcome.exit_code == 1
        assert outcome.stderr.count("error: ") == 1
        assert "Traceback" not in outcome.stderr
    assert prompt("--agent", "'", "hi").exit_code == 2
    assert "stopped: refusal" in prompt("--agent", agent(), "refuse").stderr


def test_control_characters_of_an_agent_do_no_harm(prompt, agent):
    """What an agent says is shown without what a terminal would obey."""
    outcome = prompt("--agent", agent(), "\x1b[2Jhello")
    assert "\x1b" not in outcome.stdout


def start(store_root, tmp_path, *arguments, **options):
    """The command in a process of its own."""
    return subprocess.Popen(
        [COMMAND, "acp", "prompt", "--session", "s", *arguments],
        env={**os.environ, "HOLDFAST_STORE": str(store_root), "PYTHONWARNINGS": "error"},
        cwd=tmp_path,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )


def test_an_interrupt_cancels_the_turn(agent, store_root, tmp_path):
    """Ctrl-C: the agent is asked to stop, the words so far are kept, the agent is gone."""
    with start(store_root, tmp_path, "--agent", agent(), "wait") as process:
        assert process.stdout.read(8) == b"Waiting."
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert b"Traceback" not in err
    with holdfast.open(store_root) as library:
        assert library.state("s").status == "idle"
        (end,) = library.events("s", types={"turn_end"})
        assert end.data["reason"] == "cancelled"


def test_a_person_is_asked_at_a_terminal(agent, store_root, tmp_path):
    """The tool is named, and `y` allows it once."""
    master, slave = pty.openpty()
    with contextlib.ExitStack() as closing:
        closing.callback(os.close, master)
        process = closing.enter_context(start(store_root, tmp_path, "--agent", agent(), "use tool", stdin=slave))
        os.close(slave)
        err = b""
        while b"[y/N]" not in err and (line := process.stderr.readline()):
            err += line
        os.write(master, b"y\n")
        process.communicate(timeout=120)
    assert process.returncode == 0
    assert b"The agent wants to use a tool: List files" in err
    with holdfast.open(store_root) as library:
        _, event = library.events("s", types={"permission"})
    assert event.data["decision"] == "allow"
