"""An interrupt between any two instructions: this process goes on, another one does, and nothing is lost or left."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from campaign_log import FULL, record

PROGRAM = Path(__file__).parent / "interrupt_points.py"
SHORT = ("append", "append named", "append first", "append new", "extend", "flush", "open", "open new", "close")
LONG = ("tool", "snapshot", "fork", "archive", "redact", "erase", "copy", "import", "list", "search")
AWAITED = ("aflush", "aclose")
HOURS_S = 6 * 3600


def campaign(url, how, operations, few, many):
    """Interrupt each operation at so many boundaries, fewer in the push suite; fails with what went wrong."""
    count = str(many if FULL else few)
    command = [sys.executable, str(PROGRAM), url, how, count, *operations]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HOURS_S if FULL else 250, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    tried, wrong = sum(one["tried"] for one in found), [said for one in found for said in one["wrong"]]
    record("interrupts", tried, wrong=len(wrong))
    assert not wrong, "\n".join(wrong)
    assert all(one["tried"] for one in found), found


@pytest.mark.slow
@pytest.mark.parametrize("operations", [SHORT, LONG], ids=["short", "long"])
def test_a_key_press_at_any_instruction_on_files(operations):
    """Whatever is interrupted on files can be done again, here and elsewhere, and leaves nothing behind."""
    campaign("{}/store", "press", operations, 8, 0 if operations is SHORT else 3000)


@pytest.mark.slow
@pytest.mark.parametrize("operations", [SHORT, LONG], ids=["short", "long"])
def test_a_key_press_at_any_instruction_on_sqlite(operations):
    """The same on SQLite, where no transaction stays open either."""
    campaign("sqlite://{}/x.db", "press", operations, 4, 0 if operations is SHORT else 2000)


@pytest.mark.slow
def test_a_task_cancelled_at_any_instruction():
    """An awaited flush or close that is cancelled is done or not done, and everything goes on."""
    campaign("{}/store", "cancel", AWAITED, 6, 0)


@pytest.mark.slow
@pytest.mark.parametrize("url", ["{}/store", "sqlite://{}/x.db"], ids=["files", "sqlite"])
def test_a_process_that_ends_at_any_instruction(url):
    """What another process finds is whole, and has all that was acknowledged."""
    campaign(url, "exit", ("append", "append new", "extend", "flush", "close"), 4, 2000)
