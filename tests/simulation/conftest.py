"""What the simulation shares is beside this file; how logs are kept it has from the crash tests."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "crash")]


@pytest.fixture(autouse=True, scope="module")
def _only_new_garbage():
    """What was there before is not looked through after each handful of worlds."""
    gc.collect()
    gc.freeze()
