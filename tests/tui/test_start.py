"""How the app is started, and what is said where it cannot be."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from holdfast.apps.cli import cli, tui


@pytest.fixture
def run(store_root):
    """Run the command in this process."""

    def run(*arguments):
        result = CliRunner(env={"HOLDFAST_STORE": str(store_root)}).invoke(cli, list(arguments))
        return result.exit_code, result.stdout, result.stderr

    return run


@pytest.fixture
def at_a_terminal(monkeypatch):
    """As if someone sat there; what the app is started with."""
    started = []
    monkeypatch.setattr(tui, "has_terminal", lambda: True)
    monkeypatch.setattr(tui, "start", lambda app, **options: started.append(options))
    return started


def test_in_a_pipe_there_is_help(run):
    """`holdfast` alone prints its help where nobody sits; `holdfast tui` refuses."""
    code, out, err = run()
    assert (code, err) == (0, "")
    assert "Usage: holdfast" in out
    code, _, err = run("tui")
    assert code == 2
    assert "needs a terminal" in err


def test_at_a_terminal_the_app_opens(run, at_a_terminal):
    """`holdfast` alone is the app."""
    assert run()[0] == 0
    assert at_a_terminal == [{}]


@pytest.mark.req("S2-52")
def test_a_session_to_go_on_with(run, hf, trip, at_a_terminal):
    """`--restore` takes an id, its beginning, or - for the newest; a wrong one is told."""
    for given in ("trip-planner", "trip", "-"):
        assert run("tui", "--restore", given, "--model", "local", "--light")[0] == 0
    wanted = {"session_id": trip, "model": "local", "agent": None, "light": True}
    assert at_a_terminal == [wanted] * 3
    code, _, err = run("tui", "--session", "nothing")
    assert code == 3
    assert "nothing" in err


def test_without_the_library(run, at_a_terminal, monkeypatch):
    """Both say what to install."""
    monkeypatch.setattr(tui, "is_installed", lambda: False)
    code, out, err = run()
    assert code == 0
    assert "Usage: holdfast" in out
    assert "pip install 'holdfast[tui]'" in err
    code, _, err = run("tui")
    assert code == 2
    assert "pip install 'holdfast[tui]'" in err
    assert at_a_terminal == []


def test_other_verbs_load_nothing_of_it():
    """The library of the app is loaded for the app only."""
    import subprocess
    import sys

    code = (
        "import sys; from holdfast.apps.cli import cli, list, tui; print('textual' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_it_is_installed():
    """Here it is."""
    assert tui.is_installed()
