"""The tests of this room may import what they share; the campaign's log is with the crash tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "crash")]
