"""What does not talk to a model does not load one."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {"pydantic_ai", "pydantic", "openai", "anthropic", "httpx", "xllamacpp", "asyncio"}
LOOK = "; import json, sys; print(json.dumps(sorted(sys.modules)))"
COMMAND = "from holdfast.apps.cli import cli; cli.main({0!r}, standalone_mode=False)"


def loaded(code):
    """The top-level modules that a program has loaded when it is done."""
    done = subprocess.run([sys.executable, "-c", code + LOOK], capture_output=True, text=True, check=True, timeout=120)
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


@pytest.mark.parametrize("verb", [["chat"], ["run", "hi"]])
def test_a_missing_engine_is_told_with_its_command(verb, run, monkeypatch):
    """Without the extra there is a sentence and the command that installs it."""
    import holdfast.agent

    monkeypatch.delitem(vars(holdfast.agent), "Agent", raising=False)  # the door keeps what it gave
    monkeypatch.delitem(sys.modules, "holdfast.agent._agent", raising=False)
    monkeypatch.setitem(sys.modules, "holdfast.agent._agent", None)
    done = run(*verb, text="hello\n")
    assert done.code == 2
    assert "which is not installed" in done.err
    assert "pip install 'holdfast[agent,local]'" in done.err
