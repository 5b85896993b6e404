"""What real agents do that no specification foresees, shown with the scripted one."""

from __future__ import annotations

import os
import signal
import time

import pytest

PATIENCE_S = 20


def ends(pid):
    """Whether a process that is nobody's child here is gone within a while."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("deaf", [(), ("--deaf",)], ids=["orderly", "deaf"])
def test_an_agent_does_not_outlive_the_proxy(proxy_process, tmp_path, journal, deaf):
    """Not even one that goes on when its input ends and when it is asked to end."""
    editor = proxy_process(*deaf)
    editor.prompt(editor.new(tmp_path), "hello")
    pid = int(journal("session/prompt")[0]["params"]["sessionId"].split("-")[1])
    editor.process.send_signal(signal.SIGKILL)
    assert ends(pid)


def test_a_deaf_agent_is_ended_with_the_connection(proxy_process, tmp_path, journal):
    """The end of the input ends all, by force where nothing else does."""
    editor = proxy_process("--deaf")
    editor.prompt(editor.new(tmp_path), "hello")
    pid = int(journal("session/prompt")[0]["params"]["sessionId"].split("-")[1])
    assert editor.end() == 0
    assert ends(pid)
