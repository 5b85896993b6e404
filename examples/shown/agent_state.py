"""An agent whose whole state stays: begun, gone on with, saved by hand, on a store of one's own.

Shows S0-55 to S0-60. A scripted model answers, so that it runs anywhere and says the same each
time:

    python examples/shown/agent_state.py
"""

from __future__ import annotations

import os
import tempfile
import time

from holdfast.agent import Agent, PersistentSession
from holdfast.storage import Disk, FileStore, MemoryStore, Store
from holdfast.testing.model_server import Request, Say, ScriptedModel


def answer(request: Request) -> Say:
    """A model that knows a name only if it is in what it was sent."""
    known = "Alice" in str(request.messages)
    return Say("You are Alice." if known else "I do not know you.")


def agent(storage: str | Store, **settings: object) -> Agent:
    """The agent `guide` on a store."""
    kept = PersistentSession(storage=storage, **settings)
    return Agent("openai:scripted", agent_id="guide", persistent_session=kept)


def first_and_second_run(store: str) -> None:
    """Nothing is there, everything is kept, and another object knows it."""
    with agent(store) as first:
        print("S0-55 the first run begins without a session:", first.session is None)
        first.run_sync("My name is Alice.")
        print("      and is saved without being asked:", len(first.session.history), "messages")
    with agent(store) as second:
        print("S0-56 a second agent is asked who I am:", second.run_sync("Who am I?").output)


def by_hand(store: str) -> None:
    """With autosave and loading off, load() and save() do the work."""
    manual = {"autosave_ms": 0, "save_on_close": False, "load_on_create": False}
    with agent(store, **manual) as careless:
        careless.run_sync("Forget this.")
    with agent(store, **manual) as careful:
        print("S0-57 closed without save(), something to load:", careful.load())
        careful.run_sync("My name is Alice.")
        careful.save()
    with agent(store, **manual) as again:
        print("      after save(), something to load:", again.load())


class Counting(Disk):
    """Counts how often something was made durable."""

    syncs = 0

    def sync(self, descriptor: int) -> None:
        """Count, and do it."""
        self.syncs += 1
        super().sync(descriptor)


def timer_and_end(folder: str) -> None:
    """What is dirty is flushed while the agent lives, and a last time when it is closed."""
    disk = Counting()
    store = FileStore(folder, disk=disk)
    timed = agent(store, autosave_ms=20)
    timed.run_sync("Hello.")
    before = disk.syncs
    timed.session.variables["city"] = "Lisbon"
    end = time.monotonic() + 30
    while disk.syncs == before and time.monotonic() < end:
        time.sleep(0.01)
    print("S0-58 a change between two runs was flushed by the timer:", disk.syncs > before)
    timed.session.variables["city"] = "Porto"
    timed.close()
    at_the_end = disk.syncs
    time.sleep(0.1)
    print("      and the timer ended with the agent:", disk.syncs == at_the_end)
    with agent(store) as again:
        print("S0-59 closing saved the last change:", again.session.variables["city"])


def store_of_ones_own() -> None:
    """Any object that implements the store can be the backend."""

    class Bucket(MemoryStore):
        """Objects below a prefix of a bucket; examples/custom_storage.py has a whole one."""

        def __init__(self, bucket: str, prefix: str) -> None:
            super().__init__()
            self.address = f"{bucket}/{prefix}"

    bucket = Bucket("my-bucket", "agents")
    with agent(bucket) as first:
        first.run_sync("My name is Alice.")
    with agent(bucket) as second:
        print(f"S0-60 from {bucket.address}:", second.run_sync("Who am I?").output)


def main() -> None:
    """Show each of them, on stores that go with the program."""
    with ScriptedModel(answer) as model, tempfile.TemporaryDirectory() as folder:
        os.environ |= {"OPENAI_BASE_URL": model.openai_url, "OPENAI_API_KEY": "none"}
        first_and_second_run(f"{folder}/one")
        by_hand(f"{folder}/two")
        timer_and_end(f"{folder}/three")
        store_of_ones_own()


if __name__ == "__main__":
    main()
