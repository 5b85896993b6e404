"""A real client drives our agent, is killed together with it, and goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.library import Holdfast
from holdfast.testing.model_server import AskForTool, Say, ScriptedModel

pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(os.environ.get("PEERS") != "all", reason="run by `make test-peers`"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc"),
]
COMMAND = Path(sys.executable).with_name("holdfast")
PATIENCE_S = 120


@pytest.fixture
def acpx(tmp_path, peers, store_root):
    """Runs acpx on our agent, with a model that follows a script."""
    # Before 0.19 it cannot begin again after it was killed, whatever the agent.
    found = peers.install(peers.Peer("acpx", "acpx", "0.19.1", "acpx", newer_node=True))
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    script = [
        AskForTool("write_file", {"path": "notes.txt", "content": "QUINCES"}),
        Say("I wrote it."),
        Say("You asked for QUINCES."),
    ]
    with ScriptedModel(script) as model:
        env = peers.environment(home, found.path) | {
            "HOLDFAST_STORE": str(store_root),
            "HOLDFAST_MODEL": "openai:scripted",
            "OPENAI_BASE_URL": model.openai_url,
        }

        def run(*arguments):
            order = [found.command, "--approve-all", "--agent", f"{COMMAND} acp agent", *arguments]
            done = subprocess.run(
                order, cwd=project, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        run.model, run.project = model, project
        run.kill = lambda: peers.kill(home)
        yield run
        run.kill()


def test_acpx_drives_our_agent_and_reconnects_after_a_kill(acpx, store_root):
    """A prompt with a tool, kill -9 of client and agent, the next prompt with the whole history."""
    acpx("sessions", "new")
    assert "I wrote it." in acpx("Write QUINCES into notes.txt")
    assert (acpx.project / "notes.txt").read_text() == "QUINCES"
    acpx.kill()
    assert "You asked for QUINCES." in acpx("What did I ask for?")
    told = json.dumps(acpx.model.requests[-1].messages)
    assert "Write QUINCES into notes.txt" in told
    assert "I wrote it." in told
    assert not acpx.model.refused
    with Holdfast(store_root) as hf:
        [row] = hf.list()
        assert row.message_count == 5
