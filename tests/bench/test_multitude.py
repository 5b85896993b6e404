"""Very many sessions, made one by one: what an early and a late one cost, and what all of them hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FULL = os.environ.get("CRASH_CAMPAIGN") == "full"
LATE_MAX = 1.3
ASKED_MAX = 2.0
MEMORY_MAX = 150e6


@pytest.mark.slow
@pytest.mark.skipif(not FULL, reason="part of make torture")
@pytest.mark.parametrize("kind", ["files", "sqlite", "postgres"])
def test_a_hundred_thousand_sessions_cost_what_a_hundred_do(kind):
    """Making one takes the same processor time, so do list and search, and nothing holds all of them."""
    command = [
        sys.executable,
        "-m",
        "bench.multitude",
        "--on",
        kind,
        "--sessions",
        os.environ.get("SESSIONS", "100000"),
    ]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    rows = {}
    for line in done.stdout.splitlines():
        head, brace, told = line.partition("{")
        if brace and len(head.split(maxsplit=2)) == 3:
            _, count, name = head.split(maxsplit=2)
            rows[int(count.replace(",", "")), name.strip()] = json.loads(brace + told)
    few, many = min(rows)[0], max(rows)[0]
    made = rows[many, "make"]
    assert made["late"][1] <= LATE_MAX * made["early"][1]
    for asked in ("list", "search"):
        assert rows[many, asked]["processor"] <= ASKED_MAX * rows[few, asked]["processor"]
    assert max(row["peak"] for row in rows.values()) <= MEMORY_MAX
