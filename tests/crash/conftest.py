"""What the crash tests share is in crash_campaign.py and crash_checker.py, beside this file."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
