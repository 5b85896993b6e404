"""A chat on a scripted model: in this process through a pipe, or in a real terminal."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from holdfast.apps.cli import cli
from holdfast.testing.model_server import Say, ScriptedModel

COMMAND = str(Path(sys.executable).with_name("holdfast"))
WAIT_S = 120  # a loaded machine takes its time to start
_KEYS = "ANTHROPIC_API_KEY OPENAI_API_KEY OPENAI_BASE_URL GEMINI_API_KEY GOOGLE_API_KEY OLLAMA_BASE_URL OLLAMA_HOST"


class Outcome(NamedTuple):
    """What a run of the command gave."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch):
    """A working directory and a home of the test's own, and no provider's key."""
    place = tmp_path / "project"
    (place / ".git").mkdir(parents=True)
    monkeypatch.chdir(place)
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    for name in _KEYS.split():
        monkeypatch.delenv(name, raising=False)
    return place


def echo(request):
    """Answers with the words that it was given last, and with how many messages it saw."""
    said = [message for message in request.messages if message["role"] == "user"]
    content = said[-1]["content"]
    text = content if isinstance(content, str) else content[-1]["text"]
    return Say(f"{len(said)}: you said {text}")


@pytest.fixture
def model():
    """A model that echoes; a test may give it another script."""
    scripts = [echo]

    def answer(request):
        return scripts[-1](request)

    with ScriptedModel(answer) as model:
        model.follow = scripts.append
        yield model


@pytest.fixture
def run(store_root, model):
    """Run the command in this process; ``text`` is what comes through the pipe."""

    def run(*arguments, text=None, env=None, **options):
        settings = {
            "HOLDFAST_STORE": str(store_root),
            "HOLDFAST_MODEL": "openai:scripted",
            "OPENAI_BASE_URL": model.openai_url,
            "COLUMNS": "100",
            **(env or {}),
        }
        result = CliRunner(env=settings).invoke(cli, list(arguments), input=text, **options)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return run


class Terminal:
    """A terminal that a person could sit at, inside tmux."""

    def __init__(self, socket: str, environment: dict[str, str]) -> None:
        self._socket = socket
        given = [f"{name}={value}" for name, value in environment.items()]
        shell = ["env", *given, "bash", "--norc", "--noprofile"]
        self._tmux("new-session", "-d", "-x", "100", "-y", "50", *shell)
        self._tmux("set-option", "-g", "history-limit", "5000")

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._socket, "-f", "/dev/null", *words],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        return done.stdout

    def type(self, text: str) -> None:
        """Type a line and press Enter."""
        self._tmux("send-keys", "-l", text)
        self.press("Enter")

    def press(self, *keys: str) -> None:
        """Press keys by their names, such as C-c."""
        self._tmux("send-keys", *keys)

    def shown(self) -> str:
        """Everything on the screen and above it."""
        return self._tmux("capture-pane", "-p", "-J", "-S", "-5000")

    def wait_for(self, text: str, count: int = 1) -> str:
        """Wait until the text is on the screen so many times."""
        return self._wait(lambda shown: shown.count(text) >= count, text)

    def wait_for_prompt(self) -> str:
        """Wait until the chat asks for a line."""
        return self._wait(lambda shown: shown.rstrip().endswith("\nyou>"), "the prompt")

    def say(self, text: str, answer: str) -> str:
        """Type a line at the prompt, and wait for what comes of it."""
        self.wait_for_prompt()
        self.type(text)
        return self.wait_for(answer)

    def _wait(self, is_there, what: str) -> str:
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            shown = self.shown()
            if is_there(shown):
                return shown
            time.sleep(0.1)
        raise AssertionError(f"{what!r} never came; the screen:\n{self.shown()}")

    def wipe(self) -> None:
        """Forget everything that was shown."""
        self._tmux("send-keys", "-R")
        self._tmux("clear-history")

    def close(self) -> None:
        """End the terminal and all that runs in it."""
        subprocess.run(["tmux", "-L", self._socket, "kill-server"], check=False, capture_output=True, timeout=120)


@pytest.fixture
def terminal(store_root, model, own_place):
    """A terminal in the project, where `holdfast` is the command."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    environment = {
        "HOLDFAST_STORE": str(store_root),
        "HOLDFAST_MODEL": "openai:scripted",
        "OPENAI_BASE_URL": model.openai_url,
        "PATH": f"{Path(COMMAND).parent}:{os.environ['PATH']}",
        "NO_COLOR": "1",
        "PYTHONWARNINGS": "error",
    }
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        environment[name] = os.environ[name]
    made = Terminal(f"holdfast-{uuid.uuid4().hex[:8]}", environment)
    try:
        made.type(f'cd {own_place}; clear; echo rea""dy')
        made.wait_for("ready")
        yield made
    finally:
        made.close()
