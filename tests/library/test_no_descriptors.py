"""A process that may open no more files: what it is told, whatever it asks for."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from campaign_log import FULL, record

CHILD = str(Path(__file__).parent / "descriptor_child.py")
VERBS = list(runpy.run_path(CHILD)["VERBS"])
FEW = [
    "blob",
    "list",
    "search",
    "session",
    "verify",
    "export",
    "messages",
    "redact",
    "aflush",
    "fork",
    "recover",
    "once",
    "s3",
]
LEFT_MAX = 20


def chosen():
    """In full every verb with none up to twenty descriptors left; else some verbs, each with another number."""
    if FULL:
        return [[verb, left] for verb in VERBS for left in range(LEFT_MAX)]
    return [[verb, 0 if number < 4 else 1 if verb in ("once", "s3") else number % 7] for number, verb in enumerate(FEW)]


@pytest.mark.slow
def test_with_hardly_a_descriptor_left_every_verb_works_or_tells_a_remedy(tmp_path):
    """Whatever could not be opened or loaded: an error of ours says what to do, and with descriptors again it works."""
    command = [sys.executable, CHILD, str(tmp_path), json.dumps(chosen())]
    done = subprocess.run(command, capture_output=True, timeout=3000, check=False, text=True)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    wrong = [(verb, left, what) for verb, left, what in found if what]
    record("descriptors", len(found), wrong=len(wrong))
    assert wrong == []
    assert len(found) == len(chosen())
