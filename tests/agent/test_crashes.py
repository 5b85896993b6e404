"""Killed with -9 at every step of a task: it goes on, and nothing happens twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import holdfast

STUCK = """
import sys, time
from holdfast.agent import Agent, PersistentSession

def wait() -> str:
    \"\"\"Wait.\"\"\"
    print("begun", flush=True)
    time.sleep(60)
    return "late"

kept = PersistentSession(storage=sys.argv[1])
with Agent("test", agent_id="bot", persistent_session=kept, tools=[wait]) as agent:
    try:
        agent.run_sync("go")
    except KeyboardInterrupt:
        print("stopped", flush=True)
"""
PROGRAM = Path(__file__).with_name("crash_program.py")


def test_an_interrupt_from_the_keyboard_is_on_record(store_root):
    """Ctrl-C stops the run at once, also in a tool; the call has a result that says cancelled."""
    child = subprocess.Popen([sys.executable, "-c", STUCK, str(store_root)], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "begun\n"
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=120)[0] == "stopped\n"
    assert child.returncode == 0
    with holdfast.open(store_root) as hf:
        [row] = hf.list()
        events = list(hf.events(row.session_id))
        assert row.status == "idle"
    ended = {event.type: event.data for event in events}
    assert ended["tool_result"]["result"]["cancelled"]
    assert ended["turn_end"]["reason"] == "cancelled"


@pytest.fixture
def quick_folder(tmp_path):
    """A directory in memory where there is one: kill -9 does not care, and syncs cost nothing."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    folder = tempfile.mkdtemp(prefix="holdfast-", dir="/dev/shm")
    yield folder
    shutil.rmtree(folder)


@pytest.mark.req("S3-44", "S4-2", "S4-3", "S3-73")
@pytest.mark.parametrize("first", [1, 2, 3])
def test_killed_at_every_step_the_task_ends_and_no_tool_runs_twice(quick_folder, first):
    """Before a call, in the tool, after the result, while streaming: each step happens once.

    The program kills the agent at its N-th step for every third N, goes on with a new process, and
    checks the recovered history each time it opens the session.
    """
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(quick_folder), str(first), "3"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    trials = [json.loads(line) for line in done.stdout.splitlines()]
    killed = [trial for trial in trials if trial["codes"][0] == -9]
    assert len(killed) >= 20
    for trial in trials:
        assert trial["codes"][-1] == 0, (trial, done.stderr)
        assert len(trial["codes"]) <= 2, (trial, done.stderr)
        assert sorted(trial["effects"]) == ["1", "2", "3"], trial
