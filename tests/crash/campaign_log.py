"""What the campaign leaves for its report: one line of JSON for each figure.

``CAMPAIGN_RESULTS`` names the file; without it nothing is written. ``tools/campaign_report.py``
adds the lines of a row together and writes the table of docs/internals/testing.md.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

FULL = os.environ.get("CRASH_CAMPAIGN") == "full"


def record(row, count, *, wrong=0, note=""):
    """Note that ``count`` more things of a row were tried, ``wrong`` of them with a wrong end."""
    place = os.environ.get("CAMPAIGN_RESULTS")
    if place:
        day = datetime.now(UTC).date().isoformat()
        line = {"row": row, "count": count, "wrong": wrong, "date": day, "note": note}
        with open(place, "a", encoding="utf-8") as results:
            results.write(json.dumps(line) + "\n")
