"""Real MCP clients that people use, set up with the line that the page on MCP gives."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.formats.writers import claude_code
from holdfast.testing.model_server import AskForTool, Say, ScriptedModel

RUN_SECONDS = 120
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "mcp.md"
CLAUDE = ("claude-code", "@anthropic-ai/claude-code", claude_code.VERSION, "claude")
SEARCH = "mcp__holdfast__search_sessions"
pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(os.environ.get("PEERS") != "all", reason="run by `make test-peers`"),
]


def script(request):
    """A model that looks into past sessions, and then says that it has."""
    if "bollard" in json.dumps(request.messages):
        return Say("A post to tie ships to.")
    names = {tool["name"] for tool in request.body.get("tools", [])}
    return AskForTool(SEARCH, {"query": "ships"}) if SEARCH in names else Say("I have no tools.")


def test_claude_code_looks_into_past_sessions(past, store_root, tmp_path, peers):
    """One line sets it up; then its model finds what was said in a session."""
    past.close()
    claude = peers.install(peers.Peer(*CLAUDE))
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    path = f"{Path(sys.executable).parent}{os.pathsep}{claude.path}"
    [line] = re.findall(r"^claude (mcp add --scope user .*)$", PAGE.read_text("utf-8"), re.MULTILINE)
    # Not strict: it tells its model of new servers by a system message in the conversation.
    with ScriptedModel(script, strict=False) as model:
        env = peers.environment(home, path) | {
            "HOLDFAST_STORE": str(store_root),
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "dummy",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",
            "ENABLE_TOOL_SEARCH": "false",
        }

        def run(*arguments):
            process = subprocess.Popen(
                [str(claude.command), *arguments],
                env=env,
                cwd=work,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
            try:
                told, _ = process.communicate(timeout=RUN_SECONDS)
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()
            assert process.returncode == 0, told[-2000:]
            return told

        run(*shlex.split(line))
        assert "Connected" in run("mcp", "list")
        run("-p", "What was that post called?", "--allowedTools", SEARCH)
    assert "What is a bollard" in json.dumps(model.requests[-1].messages)
