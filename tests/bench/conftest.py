"""What the tests of cost share: the bench package on the path, and a disk that counts."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from holdfast.storage import Disk, FileStore

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _bench_on_path(monkeypatch):
    """bench/ is a package of the checkout, not of the installation."""
    monkeypatch.syspath_prepend(str(ROOT))


class CountingDisk(Disk):
    """The real disk, with a note of every write and sync."""

    def __init__(self):
        self.counts = Counter()

    def write(self, descriptor, data):
        self.counts["write"] += 1
        self.counts["bytes"] += len(data)
        return super().write(descriptor, data)

    def sync(self, descriptor):
        self.counts["sync"] += 1
        super().sync(descriptor)

    def sync_directory(self, descriptor):
        self.counts["sync_directory"] += 1
        super().sync_directory(descriptor)


@pytest.fixture
def disk():
    return CountingDisk()


@pytest.fixture
def store(store_root, disk):
    return FileStore(store_root, disk=disk)


@pytest.fixture
def run_python():
    """Runs code in a fresh interpreter and gives what it printed."""
    import subprocess

    def run(code, *arguments, prefix=()):
        command = [*prefix, sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        return done.stdout

    return run
