"""What tests of several stores need."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "crash")]


@pytest.fixture
def open_below():
    """Tells what this process has open in a folder; what other threads do elsewhere is theirs."""

    def open_below(folder):
        found = []
        for number in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                found.append(os.readlink(f"/proc/self/fd/{number}"))
        return [path for path in found if path.startswith(str(folder))]

    return open_below
