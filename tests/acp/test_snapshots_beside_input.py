"""Snapshots of sessions with external agents are taken beside what people say."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path

import pytest

import holdfast
from holdfast.apps.acp.client import ClientConfig, create_or_resume
from holdfast.storage import MemoryDocuments, MemoryStore

SCRIPT = str(Path(__file__).with_name("agents") / "scripted.py")


class SlowSnapshots(MemoryStore):
    """Memory in which a snapshot takes until somebody lets it go on."""

    def __init__(self):
        super().__init__()
        self.begun, self.go_on, self.in_time = threading.Event(), threading.Event(), []

    def documents(self, key):
        return SlowDocuments(self, key)


class SlowDocuments(MemoryDocuments):
    """The documents of such a store."""

    def put(self, name, data, **options):
        if name.startswith("snapshots/"):
            self._store.begun.set()
            self._store.in_time.append(self._store.go_on.wait(60))
        return super().put(name, data, **options)


@pytest.mark.req("S4-26")
async def test_a_snapshot_does_not_hold_up_the_next_input(tmp_path):
    """While the snapshot after a turn is still being stored, the next prompt is answered."""
    store = SlowSnapshots()
    command = [sys.executable, SCRIPT, "--store", str(tmp_path / "a.json"), "--load", "yes"]
    settings = ClientConfig(cwd=str(tmp_path), quiet_s=0.1, enable_persistence=True)
    with holdfast.open(store) as library:
        async with await create_or_resume(command, "talk", settings, library=library) as session:
            await session.ask("hello")
            assert await asyncio.to_thread(store.begun.wait, 60)
            await session.ask("and again")  # only if nobody waits for the snapshot
            assert store.in_time == []
            store.go_on.set()
    assert all(store.in_time)
