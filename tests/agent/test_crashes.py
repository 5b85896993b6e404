"""Killed with -9 at every step of a task: it goes on, and nothing happens twice."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("crash_program.py")


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
