"""Saving and loading an agent from a program with an event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast.agent import Agent, PersistentSession
from holdfast.storage import MemoryLog, MemoryStore


class SlowLog(MemoryLog):
    """A log whose medium takes until somebody lets it go on."""

    _store: SlowStore

    def sync(self):
        self._store.syncing.set()
        self._store.in_time = self._store.go_on.wait(30)


class SlowStore(MemoryStore):
    """Memory with such logs."""

    def __init__(self):
        super().__init__()
        self.syncing, self.go_on, self.in_time = threading.Event(), threading.Event(), None

    def log(self, key):
        return SlowLog(self, key)


@pytest.mark.req("S0-27", "S0-28", "S0-82")
async def test_saving_and_loading_do_not_block_the_event_loop(script):
    """While a save waits for the medium the loop goes on; what was saved is loaded the same way."""
    store = SlowStore()
    kept = PersistentSession(storage=store, autosave_ms=0, load_on_create=False)
    agent = Agent(script("one").model, agent_id="bot", persistent_session=kept)
    await agent.run("first")
    saving = asyncio.create_task(agent.asave())
    await asyncio.to_thread(store.syncing.wait, 30)
    assert not saving.done()
    store.go_on.set()  # only a loop that is not blocked gets here
    await saving
    assert store.in_time
    again = Agent(script("two").model, agent_id="bot", persistent_session=kept)
    assert await again.aload() is True
    assert [turn["content"] for turn in again.session.history] == ["first", "one"]
    await again.aclose()
    await agent.aclose()
