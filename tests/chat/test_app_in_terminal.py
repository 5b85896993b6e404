"""The terminal app in a real terminal: list, search, open, talk, killed, and taken up again."""

from __future__ import annotations

import os
import signal

import pytest


@pytest.mark.req("S2-52")
@pytest.mark.req("S2-85")
def test_a_day_with_the_app(terminal, hf):
    """Everything that was said is there again after a kill, with --restore."""
    with hf.session("trip-planner", title="Trip to Lisbon") as s:
        s.user("Plan a week in Lisbon")
        s.assistant("Take the train to Sintra.")
    terminal.wipe()
    terminal.type("holdfast")
    terminal.wait_for("1 session")
    terminal.press("f")
    terminal.wait_for("Back")
    terminal.press(*"sintra")
    terminal.wait_for("1 hit")
    terminal.press("Down", "Enter")
    terminal.wait_for("▶ assistant")
    terminal.press("c")
    terminal.wait_for("Enter sends")
    terminal.type("and then home")
    terminal.wait_for("2: you said and then home")
    [pid] = {event.data["pid"] for event in hf.events("trip-planner", types=["opened"])} - {os.getpid()}
    os.kill(pid, signal.SIGKILL)
    terminal.wait_for("Killed")
    terminal.press("Enter")
    terminal.type("reset; clear; holdfast tui --restore trip")
    terminal.wait_for("2: you said and then home")
    terminal.wait_for("restored")
    terminal.press("Escape")
    terminal.wait_for("TITLE")
    terminal.press("q")
    terminal.wait_for("bash-")
    assert hf.verify("trip-planner").ok
    assert hf.info("trip-planner").message_count == 4
