"""Adapters are tested where the frameworks are installed: `make test-frameworks`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("agents") else ["test_*.py"]


class Programs:
    """Runs a program of a test, which gets a store and a mode as its arguments."""

    def __init__(self, store_root):
        self._store_root = store_root

    def killed(self, source):
        """In the mode "hang", ended by kill -9 when it says "waiting"; what it said before."""
        said = []
        with subprocess.Popen(
            self._command(source, "hang"), stdout=subprocess.PIPE, text=True
        ) as run:
            while (line := run.stdout.readline()) != "waiting\n":
                assert line, "it ended by itself"
                said.append(line)
            os.kill(run.pid, signal.SIGKILL)
        return "".join(said)

    def finished(self, source, mode="answer"):
        """To its end, which is a good one; what it said."""
        done = subprocess.run(
            self._command(source, mode), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _command(self, source, mode):
        return [sys.executable, "-c", textwrap.dedent(source), str(self._store_root), mode]


@pytest.fixture
def programs(store_root):
    """Programs of the test, with its store."""
    return Programs(store_root)
