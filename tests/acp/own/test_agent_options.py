"""The options of ``holdfast acp agent``."""

from __future__ import annotations

import os
import sys

import pytest
from click.testing import CliRunner

from holdfast.apps.acp.agent import server
from holdfast.apps.acp.agent.editor import EditorKit
from holdfast.apps.cli import cli

_KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")


@pytest.fixture
def run(monkeypatch, tmp_path, store_root):
    """Runs the command without serving; what it would have served with."""
    served = []
    monkeypatch.setattr(server, "serve_agent", lambda *given: served.append(given))
    monkeypatch.chdir(tmp_path)
    for name in (*_KEYS, "OPENAI_BASE_URL", "OLLAMA_HOST", "OLLAMA_BASE_URL"):
        monkeypatch.delenv(name, raising=False)

    def run(*options, **env):
        order = ["acp", "agent", "--store", str(store_root), *options]
        done = CliRunner(env=env).invoke(cli, order)
        run.errors, run.code = done.stderr, done.exit_code
        return served[-1] if served else None

    return run


def test_without_options_it_is_the_guide_that_asks(run, store_root):
    """No key, no setting: the guide, which is told on standard error, and the mode that asks first."""
    place, kit = run()
    assert run.code == 0
    assert place == str(store_root)
    assert kit.is_plain
    assert kit.is_guide
    assert kit.mode == "ask"
    assert kit.agent_id == "assistant"
    assert "not a language model" in kit.about
    assert kit.about in " ".join(run.errors.split())


def test_the_embedded_model_keeps_its_small_context(run):
    """Asked for by its name, it still gets no tools and a short memory."""
    _, kit = run("--model", "local")
    assert kit.is_plain
    assert kit.small_window == 4096


def test_model_agent_and_mode_are_taken(run):
    """Nothing of the model is loaded before it is needed."""
    _, kit = run("--model", "openai:gpt-5", "--agent", "planner", "--mode", "read-only")
    assert not kit.is_plain
    assert kit.mode == "read-only"
    assert kit.agent_id == "planner"
    assert "openai:gpt-5" in kit.about
    assert kit.late_model._made == []


def test_settings_are_taken_where_no_option_says_more(run, tmp_path):
    """Instructions and agent of the configuration, and the model of the environment."""
    (tmp_path / "holdfast.toml").write_text('agent = "mine"\ninstructions = "Be brief."\n')
    _, kit = run(HOLDFAST_MODEL="openai:gpt-4o")
    assert kit.agent_id == "mine"
    assert kit.instructions == "Be brief."
    assert EditorKit(make_model=list).instructions is None
    assert "gpt-4o" in kit.about


def test_a_mode_that_there_is_not_is_wrong_usage(run):
    """Exit code 2, and nothing is served."""
    assert run("--mode", "yolo") is None
    assert run.code == 2


def test_without_the_engine_it_says_what_to_install(run, monkeypatch):
    """Before anything is served: an editor would only see a prompt fail."""
    monkeypatch.setattr("holdfast.agent._model_choice.find_spec", lambda _: None)
    assert run("--model", "openai:gpt-5") is None
    assert run.code == 2
    assert "pip install" in run.errors


def test_what_a_library_prints_stays_out_of_the_frames(store_root, monkeypatch, capfd):
    """Standard output is for the protocol; anything else goes to standard error."""

    async def noisy(_):
        sys.stdout.write("a greeting\n")

    monkeypatch.setattr(server.AgentServer, "run", noisy)
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        server.serve_agent(str(store_root), EditorKit(make_model=list))
    shown = capfd.readouterr()
    assert shown.out == ""
    assert shown.err == "a greeting\n"
