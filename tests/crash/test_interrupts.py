"""A key press at any moment: what was recorded stays whole, and the session goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PRESSES = 800
CHILD = Path(__file__).parent / "interrupt_child.py"


@pytest.mark.slow
def test_interrupted_at_any_moment(store_root, capsys):
    """Of hundreds of interrupts none leaves damage or a false state, or loses what returned."""
    done = subprocess.run(
        [sys.executable, str(CHILD), str(store_root), str(PRESSES)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    with capsys.disabled():
        counts = f"{found['interrupted']:,} interrupts, {found['returned']:,} appends"
        print(f" [{counts}] ", end="")  # noqa: T201 - how much was tried
    assert found["ok"], found["why"]
    assert found["in_step"]
    assert found["interrupted"] > PRESSES // 2
    assert found["kept"]
    assert found["doubled"] == 0
