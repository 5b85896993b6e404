"""kill -9 while logs are branched, detached and archived, on a real disk."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from form_child import LINE, append

from holdfast.storage import FileStore

CHILD = Path(__file__).with_name("form_child.py")
ROUNDS = 500 if os.environ.get("CRASH_CAMPAIGN") == "full" else 12


@pytest.mark.slow
@pytest.mark.req("S2-104")
def test_kill_while_forms_change(store_root):
    """Every log is whole after each kill, has what was safe, and goes on."""
    chance = random.Random(7)
    promises = 0
    for number in range(ROUNDS):
        safe = {}
        child = subprocess.Popen(
            [sys.executable, str(CHILD), str(store_root), str(number)], stdout=subprocess.PIPE, text=True
        )
        first = child.stdout.readline()
        time.sleep(chance.uniform(0, 0.25))
        child.kill()
        for line in [first, *child.stdout]:
            if line.endswith("\n"):
                _, key, size = line.split()
                safe[key] = int(size)
        child.stdout.close()
        child.wait(120)
        check(store_root, safe)
        promises += len(safe)
    assert promises >= ROUNDS


def check(root, safe):
    store = FileStore(root)
    sizes = {entry.key: entry.size for entry in store.entries()}
    for key, size in safe.items():
        assert sizes[key] >= size
    for key in sizes:
        before = b"".join(store.log(key).read())
        assert before.startswith(b"0\n" + LINE)
        assert before.endswith(b"\n")
        append(store, key, b"after\n")
        assert b"".join(store.log(key).read()) == before + b"after\n"
        store.drop(key)
    store.close()
