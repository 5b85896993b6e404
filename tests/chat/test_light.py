"""What does not talk to a model does not load one."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from holdfast.agent import resolve_model
from holdfast.errors import UsageError

HEAVY = {"pydantic_ai", "pydantic", "openai", "anthropic", "httpx", "xllamacpp", "asyncio"}
LOOK = "; import json, sys; print(json.dumps(sorted(sys.modules)))"
COMMAND = "from holdfast.apps.cli import cli; cli.main({0!r}, standalone_mode=False)"


def loaded(code):
    """The top-level modules that a program has loaded when it is done."""
    done = subprocess.run(
        [sys.executable, "-c", code + LOOK],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


@pytest.mark.parametrize(
    "words", [["list"], ["config"], ["chat", "--help"], ["run", "--help"], ["doctor"]], ids="-".join
)
def test_commands_that_do_not_talk(words, store_root, monkeypatch):
    """Neither the engine nor a provider's library is loaded."""
    monkeypatch.setenv("HOLDFAST_STORE", str(store_root))
    assert loaded(COMMAND.format(words)) & (HEAVY - {"asyncio"}) == set()


def test_the_library_the_logger_and_the_configuration():
    """``import holdfast`` loads nothing heavy, and the event logger and configuration neither."""
    assert loaded("import holdfast") & HEAVY == set()
    code = "import holdfast; holdfast.EventLogger(holdfast.open('memory:'), 's').log('x', {})"
    assert loaded(code) & HEAVY == set()


def test_a_missing_engine_is_told_with_its_command(monkeypatch):
    """A model that needs the extra is refused in a sentence, with the command that installs it."""
    monkeypatch.setitem(sys.modules, "holdfast.agent._providers", None)
    with pytest.raises(UsageError, match="which is not installed") as caught:
        resolve_model("openai:gpt-5")
    assert "pip install 'holdfast[agent]'" in caught.value.remedy


@pytest.mark.parametrize("words", [["chat"], ["run", "hi"]])
def test_the_guide_needs_no_engine(words, store_root, monkeypatch):
    """Whoever talks to the guide loads no provider's library."""
    monkeypatch.setenv("HOLDFAST_STORE", str(store_root))
    assert loaded(COMMAND.format(words)) & (HEAVY - {"asyncio"}) == set()
