"""What the five demonstrations print is what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "shown.md").read_text("utf-8")
SHOWN = re.findall(r"^```text\n\$ python (examples/shown/\w+\.py)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
CARRIED = {
    "agent_state": ["S0-55", "S0-56", "S0-57", "S0-58", "S0-59", "S0-60"],
    "live_session": ["S1-46"],
    "terminal_sessions": ["S2-104", "S2-106", "S2-107", "S2-108"],
    "recovery": ["S3-66"],
    "snapshots": ["S4-69"],
}


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        pytest.param(program, printed, id=Path(program).stem, marks=pytest.mark.req(*CARRIED[Path(program).stem]))
        for program, printed in SHOWN
    ],
)
def test_a_demonstration_prints_what_the_page_says(tmp_path, program, printed):
    """Every line of it, in a process of its own, anywhere."""
    done = subprocess.run(
        [sys.executable, ROOT / program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
        cwd=tmp_path,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed


def test_every_demonstration_is_on_the_page():
    """None is forgotten."""
    programs = {path.stem for path in (ROOT / "examples" / "shown").glob("*.py")}
    assert {Path(program).stem for program, _ in SHOWN} == programs == set(CARRIED)
