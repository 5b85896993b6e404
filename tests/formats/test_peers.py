"""Real coding agents go on with what was exported, against a scripted model and without a network.

`make test` runs the quickest of them, `make test-peers` all; see ``tests/peers.py``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

import holdfast
from holdfast.formats.writers import claude_code, codex, gemini_cli, opencode
from holdfast.testing.model_server import Say, ScriptedModel

RUN_SECONDS = 120
PROMPT = "And how does it go on?"

pytestmark = pytest.mark.peers
rarely = pytest.mark.skipif(os.environ.get("PEERS") != "all", reason="run by `make test-peers`")


CLAUDE = ("claude-code", "@anthropic-ai/claude-code", claude_code.VERSION, "claude")
CODEX = ("codex", "@openai/codex", codex.VERSION, "codex")
GEMINI = ("gemini-cli", "@google/gemini-cli", gemini_cli.VERSION, "gemini")
OPENCODE = ("opencode", "opencode-ai", opencode.VERSION, "opencode")


@pytest.fixture
def installed(peers):
    """The command of a tool; the test is skipped where it cannot be had."""
    return lambda peer: peers.install(peers.Peer(*peer)).command


class Bench:
    """A home, a project, a scripted model, and a session to be moved."""

    def __init__(self, root: Path, monkeypatch, peers) -> None:
        self.peers = peers
        self.home, self.work = root / "home", root / "work"
        self.home.mkdir()
        self.work.mkdir()
        monkeypatch.setenv("HOME", str(self.home))
        monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
        monkeypatch.delenv("CODEX_HOME", raising=False)
        self.model = ScriptedModel(lambda _: Say("It goes on."))

    def run(self, *command: object, **settings: str) -> None:
        """Run a tool to its end, in a process group of its own, with nothing of ours around."""
        env = self.peers.environment(self.home, os.environ["PATH"])
        process = subprocess.Popen(
            [str(part) for part in command],
            env=env | settings,
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            told, _ = process.communicate(timeout=RUN_SECONDS)
        finally:
            _end_group(process)
        assert process.returncode == 0, told.decode(errors="replace")[-2000:]

    def install(self, tool: str, **options) -> object:
        """A session with tools that no other knows, put where the tool finds it.

        It has thinking, calls side by side, one that failed, and one that was cut off.
        """
        with holdfast.open("memory:") as library:
            with library.session("moved", title="Moved here") as session:
                session.user("Please remember the word HELIOTROPE.")
                session.append("thinking", {"content": "Where are my notes?", "signature": "c2ln"})
                session.assistant("I will look into my notes.")
                call = session.tool_call("ReadNotes", {"topic": "garden"})
                session.tool_result(call, {"content": "plant QUINCES in autumn"})
                session.assistant("The notes speak of QUINCES; I remember HELIOTROPE.")
                session.user("Look at both beds")
                beds = [session.tool_call("Look", {"bed": name}) for name in ("east", "west")]
                session.append(
                    "tool_result", {"toolCallId": beds[1].id, "result": "the gate is LOCKED", "is_error": True}
                )
                session.tool_result(beds[0], "full of THISTLES")
                session.user("Water the PRIMROSES")
                session.tool_call("Water", {"what": "primroses"})
            return library.install("moved", tool, cwd=self.work, **options)

    def check(self, provider: str) -> None:
        """The model was given the history, in its order, and would have accepted it."""
        assert self.model.requests
        assert not self.model.refused
        asked = self.model.requests[-1]
        assert asked.provider == provider
        text = json.dumps(asked.messages, ensure_ascii=False)
        words = ("word HELIOTROPE.", "into my notes", "ReadNotes", "plant QUINCES")
        words += ("speak of QUINCES", "both beds", "THISTLES", "LOCKED")
        words += ("PRIMROSES", "interrupted", PROMPT)
        places = [text.find(word) for word in words]
        assert -1 not in places, text[-4000:]
        assert places == sorted(places)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


@pytest.fixture
def bench(tmp_path, monkeypatch, peers):
    found = Bench(tmp_path, monkeypatch, peers)
    with found.model:
        yield found


def test_claude_code(bench, installed):
    """Claude Code resumes by the id that the export names."""
    command = installed(CLAUDE)
    done = bench.install("claude-code")
    bench.run(
        command,
        *("-p", PROMPT, "--output-format", "json", "--resume", done.session_id),
        ANTHROPIC_BASE_URL=bench.model.url,
        ANTHROPIC_API_KEY="dummy",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        DISABLE_AUTOUPDATER="1",
        IS_SANDBOX="1",
    )
    bench.check("anthropic")


CODEX_SETTINGS = """
model = "scripted"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
[model_providers.scripted]
name = "scripted"
base_url = "{url}"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 1
stream_max_retries = 1
"""


@rarely
def test_codex(bench, installed):
    """Codex resumes by the id that the export names, without an index of its own."""
    command = installed(CODEX)
    done = bench.install("codex")
    settings = CODEX_SETTINGS.format(url=bench.model.openai_url)
    (bench.home / ".codex" / "config.toml").write_text(settings)
    bench.run(command, *("exec", "--skip-git-repo-check", "resume", done.session_id, PROMPT), SCRIPTED_KEY="dummy")
    bench.check("openai-responses")


@rarely
def test_opencode(bench, installed):
    """The session that opencode imports from the file goes on there."""
    command = installed(OPENCODE)
    done = bench.install("opencode", model="scripted/scripted")
    limit = {"context": 100_000, "output": 8_000}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": bench.model.openai_url, "apiKey": "dummy"},
        "models": {"scripted": {"tool_call": True, "limit": limit}},
    }
    settings = {
        "model": "scripted/scripted",
        "small_model": "scripted/scripted",
        "autoupdate": False,
        "share": "disabled",
        "provider": {"scripted": provider},
    }
    folder = bench.home / ".config" / "opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.json").write_text(json.dumps(settings))
    quiet = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD")
    env = {f"OPENCODE_DISABLE_{name}": "1" for name in quiet}
    bench.run(command, "import", done.path, **env)
    bench.run(command, "run", "--session", done.session_id, PROMPT, **env)
    bench.check("openai")


@rarely
def test_gemini_cli(bench, installed):
    """Gemini CLI goes on from the file that it is given."""
    command = installed(GEMINI)
    done = bench.install("gemini-cli")
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"sessionRetention": {"enabled": False}},
    }
    (bench.home / ".gemini").mkdir()
    (bench.home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    bench.run(
        command,
        *("--session-file", done.path, "-m", "gemini-2.5-flash", "-p", PROMPT),
        GEMINI_API_KEY="dummy",
        GOOGLE_GEMINI_BASE_URL=bench.model.url,
        GEMINI_CLI_TRUST_WORKSPACE="true",
    )
    bench.check("gemini")
