"""What the crash tests share is in crash_campaign.py and crash_checker.py, beside this file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _untraced():
    """Measuring coverage would make the many thousand runs of this folder several times slower."""
    trace = sys.gettrace()
    sys.settrace(None)
    yield
    if sys.gettrace() is None:  # after an unmeasured test there is a new one already
        sys.settrace(trace)
