"""The chat as `make chat` starts it, where there is neither a key nor a model server."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def missing():
    """What keeps `make chat` from running here; nothing if it can."""
    if shutil.which("make") is None or not (ROOT / ".venv" / "bin" / "holdfast").exists():
        return "make or the environment in .venv"
    return ""


@pytest.mark.skipif(bool(missing()), reason=f"needs {missing()}")
def test_make_chat_answers_and_goes_on(store_root, hf):
    """Lines through a pipe are answered by the guide; the second start goes on."""
    environment = {**os.environ, "HOLDFAST_STORE": str(store_root), "PYTHONWARNINGS": "error"}
    # -o: the environment is taken as it is; a test must not install anything.
    for count, words in enumerate(["My name is Alice", "What is my name?"]):
        done = subprocess.run(
            ["make", "--no-print-directory", "-o", ".venv/.chat", "chat"],
            input=f"{words}\nexit\n",
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=environment,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "the guide answers" in done.stderr.lower()
        assert "Alice" in done.stdout
        assert ("Restored session" in done.stderr) == bool(count)
    [row] = hf.list()
    assert row.title == "My name is Alice"
