"""``holdfast acp doctor``: what agents say, and what they do."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.apps.acp import doctor as _doctor
from holdfast.apps.cli import cli
from holdfast.apps.wire.pipes import AgentProcess

SCRIPT = Path(__file__).with_name("agents") / "scripted.py"


@pytest.fixture
def patient(monkeypatch):
    """A busy machine makes an agent pause in its late replay, and takes a while to end it."""
    monkeypatch.setitem(_doctor.examine.__kwdefaults__, "quiet_s", 3)
    monkeypatch.setattr(_doctor, "_ENDS_S", 59)
    monkeypatch.setattr(AgentProcess.end, "__defaults__", (60,))


@pytest.fixture
def doctor(store_root, tmp_path):
    """Run the command on a scripted agent; its exit code, output and errors."""

    def doctor(*wishes, options=(), script=SCRIPT):
        command = [sys.executable, str(script), *wishes, "--store", str(tmp_path / "agent.json")]
        line = ["acp", "doctor", "--cwd", str(tmp_path), *options, "--", *command]
        env = {"HOLDFAST_STORE": str(store_root), "COLUMNS": "100"}
        return CliRunner(env=env).invoke(cli, line)

    return doctor


def findings(outcome):
    """What was found, by name, from the JSON."""
    assert outcome.exit_code == 0, outcome.stderr
    found = json.loads(outcome.stdout)
    return {one["name"]: one for one in found["findings"]}, found["verdicts"]


@pytest.mark.req("S4-54", "S4-41")
@pytest.mark.usefixtures("patient")
def test_an_agent_that_can_do_everything(doctor):
    """All works, and it is said by what earlier sessions go on."""
    wishes = [word for name in ("load", "resume", "list", "fork", "close", "delete") for word in (f"--{name}", "yes")]
    outcome = doctor(*wishes, options=["--json", "--prompt", "hello"])
    found, verdicts = findings(outcome)
    assert {name: one["real"] for name, one in found.items()} == dict.fromkeys(found, "works")
    assert found["load"]["detail"] == "2 updates"
    assert found["prompt"]["detail"] == "end_turn"
    assert verdicts == ["It goes on with earlier sessions by resume."]


@pytest.mark.req("S4-54")
@pytest.mark.usefixtures("patient")
def test_what_an_agent_says_is_compared_with_what_it_does(doctor):
    """Announced and refused, done and not announced, silent, failing, late: each is told."""
    outcome = doctor(
        *("--load", "late", "--resume", "missing", "--list", "hidden", "--fork", "fails"),
        *("--close", "hangs", "--delay", "0.1", "--noise"),
        options=["--json", "--prompt", "hello", "--timeout", "10"],
    )
    found, verdicts = findings(outcome)
    assert {name: one["real"] for name, one in found.items()} == {
        "new": "works",
        "prompt": "works",
        "list": "works",
        "load": "works",
        "resume": "refused",
        "fork": "fails",
        "close": "no answer",
        "delete": "refused",
    }
    assert "It announces resume, and resume is refused." in verdicts
    assert "It does list without announcing it." in verdicts
    assert any("close is not answered" in line for line in verdicts)
    assert any("fork fails: No previous" in line for line in verdicts)
    assert any("came later" in line for line in verdicts)
    assert any("no frames" in line for line in verdicts)
    assert verdicts[-1] == "It goes on with earlier sessions by load."


@pytest.mark.usefixtures("patient")
def test_without_a_prompt_the_model_is_not_called(doctor, tmp_path):
    """The agent is sent no prompt, and the last line says what is therefore not known."""
    journal = tmp_path / "journal"
    outcome = doctor("--load", "yes", "--journal", str(journal))
    assert outcome.exit_code == 0
    assert "session/prompt" not in journal.read_text()
    assert "not tried" in outcome.stdout
    assert "Try --prompt" in outcome.stdout.splitlines()[-1]
    assert outcome.stdout.startswith("scripted 1.0, protocol 1, ready after")


@pytest.mark.usefixtures("patient")
def test_an_agent_that_cannot_go_on(doctor):
    """The proxy is named as the way out."""
    outcome = doctor("--nameless", options=["--prompt", "hello"])
    assert outcome.stdout.startswith("an agent without a name")
    assert "`holdfast acp proxy` does that for it" in outcome.stdout


@pytest.mark.usefixtures("patient")
def test_an_agent_that_loads_nothing_has_lost_it(doctor, tmp_path):
    """A load that brings back nothing of an answered prompt is a failure."""
    forgetful = tmp_path / "forgetful.py"
    forgetful.write_text(SCRIPT.read_text().replace('turns.append(["', 'len(["'))
    options = ["--json", "--prompt", "hi", "--timeout", "60"]
    outcome = doctor("--load", "yes", options=options, script=forgetful)
    found, verdicts = findings(outcome)
    assert found["load"]["real"] == "fails"
    assert "nothing of the conversation" in found["load"]["detail"]
    assert "holdfast acp proxy" in verdicts[-1]


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("phase", ["new", "load", "resume"])
def test_an_agent_that_dies_is_told_of(doctor, phase):
    """A death is a finding, not a failure of the doctor."""
    outcome = doctor("--load", "yes", "--resume", "yes", "--die", phase, options=["--json"])
    found, verdicts = findings(outcome)
    assert found[phase]["real"] == "died"
    if phase == "new":
        assert verdicts == ["It makes no session, so nothing else could be tried."]


@pytest.mark.parametrize("wish", [["--die", "initialize"], None])
def test_an_agent_that_cannot_be_asked_is_an_error(doctor, wish):
    """One sentence and a remedy, exit code 1."""
    outcome = doctor(*wish) if wish else doctor(options=["--", "/no/such/agent"])
    assert outcome.exit_code == 1
    assert outcome.stderr.startswith("error: the agent could not be asked")
    assert "Traceback" not in outcome.stderr


def test_a_command_is_needed(store_root):
    """Without an agent the usage is told, exit code 2."""
    outcome = CliRunner(env={"HOLDFAST_STORE": str(store_root)}).invoke(cli, ["acp", "doctor"])
    assert outcome.exit_code == 2


def test_nothing_is_permitted(doctor, tmp_path):
    """An agent that wants to use a tool, or files, for the prompt is refused."""
    journal = tmp_path / "journal"
    options = ["--json", "--prompt", "use tool"]
    found, _ = findings(doctor("--journal", str(journal), "--rude", options=options))
    assert found["prompt"]["real"] == "works"
    frames = [json.loads(line) for line in journal.read_text().splitlines()]
    answers = [frame for frame in frames if "method" not in frame]
    outcomes = [frame["result"]["outcome"]["optionId"] for frame in answers if "result" in frame]
    assert outcomes == ["no"]
    assert {frame["error"]["code"] for frame in answers if "error" in frame} == {-32601}


def test_an_agent_that_wants_a_login_and_does_not_end(doctor, tmp_path):
    """What it offers is told, and that it has to be killed."""
    script = tmp_path / "closed.py"
    source = SCRIPT.read_text().replace('"authMethods": []', '"authMethods": [{"name": "Key"}]')
    script.write_text(source.replace('self.die("new")', 'raise Refusal(-32000, "log in")'))
    found, verdicts = findings(doctor("--deaf", options=["--json"], script=script))
    assert found["new"]["real"] == "fails"
    assert found["new"]["detail"] == "log in"
    assert verdicts[:2] == [
        "It may want a login first: it offers Key.",
        "It does not end when its input ends, and has to be killed.",
    ]
