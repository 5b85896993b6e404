"""Sessions with agents behind a protocol: snapshots, restores, agents that cannot load.

Shows S4-69. Two small agents speak the Agent Client Protocol, one that can load and one that
cannot:

    python examples/shown/snapshots.py
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

import holdfast
from holdfast.apps.acp.client import ClientConfig, SessionSnapshot, SnapshotStore, Snapshotter, create_or_resume
from holdfast.errors import HoldfastError

AGENT = """
import json, pathlib, sys

def send(**frame):
    print(json.dumps({"jsonrpc": "2.0", **frame}), flush=True)

def say(kind, words):
    update = {"sessionUpdate": kind, "content": {"type": "text", "text": words}}
    send(method="session/update", params={"sessionId": "its-own-id", "update": update})

memory = pathlib.Path(sys.argv[0] + ".memory")
can_load = sys.argv[1] == "loads"
for line in sys.stdin:
    frame = json.loads(line)
    result = {}
    if frame["method"] == "initialize":
        result = {"protocolVersion": 1, "agentCapabilities": {"loadSession": can_load}}
    elif frame["method"] == "session/new":
        result = {"sessionId": "its-own-id"}
    elif frame["method"] == "session/load":
        for words in memory.read_text().splitlines():
            say("user_message_chunk", words)
            say("agent_message_chunk", "You said: " + words)
    elif frame["method"] == "session/prompt":
        words = frame["params"]["prompt"][-1]["text"]
        with memory.open("a") as kept:
            kept.write(words + "\\n")
        say("agent_message_chunk", "You said: " + words)
        result = {"stopReason": "end_turn"}
    if "id" in frame:
        send(id=frame["id"], result=result)
"""


async def save_and_restore(hf: holdfast.Holdfast, agent: list[str]) -> None:
    """A session with a task, ended in order, and gone on with."""
    config = ClientConfig(enable_persistence=True, on_warning=lambda _: None)
    async with await create_or_resume([*agent, "loads"], "work", config, library=hf) as session:
        await session.ask("Hello")
        session.current_task = "tidy up"
    print("graceful shutdown takes a snapshot:", len(list(hf.snapshots("work"))) > 0)
    snapshot = SnapshotStore(hf).load("work")
    print("saved:", [message.role for message in snapshot.messages], snapshot.current_task)
    print("metrics:", snapshot.metrics.request_count, "request; agent's id:", snapshot.acp_session_id)
    async with await create_or_resume([*agent, "loads"], "work", config, library=hf) as session:
        print("restored, the agent by:", session.attached, "- task:", session.current_task)
        await session.ask("Again")
        print("history:", len(session.snapshot().messages), "messages")


async def agent_without_load(hf: holdfast.Holdfast, agent: list[str]) -> None:
    """It gets a new session of its own, is told what happened, and the user is warned."""
    warnings: list[HoldfastError] = []
    config = ClientConfig(on_warning=warnings.append)
    for words in "Hello", "Again":
        async with await create_or_resume([*agent, "cannot"], "other", config, library=hf) as session:
            await session.ask(words)
            attached = session.attached
    print("an agent without load:", attached, "with", type(warnings[0]).__name__)


async def interval(hf: holdfast.Holdfast) -> None:
    """A timer takes one when something changed, and none after it was stopped."""
    snapshotter = Snapshotter(hf)
    with hf.session("timed") as session:
        session.user("words")
        snapshotter.start_auto_snapshot(session, 0.02)
        for _ in range(1_000):
            if snapshotter.stats.taken:
                break
            await asyncio.sleep(0.02)
        snapshotter.stop_auto_snapshot("timed")
    print("the interval took a snapshot:", snapshotter.stats.taken >= 1)
    snapshotter.close()


def versions(hf: holdfast.Holdfast) -> None:
    """Version 1 is migrated, version 2 read, another refused by its number."""
    current = SnapshotStore(hf).load("work")
    print("version", SessionSnapshot.from_json(current.to_json()).version, "is read")
    old = b'{"version": 1, "session_id": "old", "messages": [{"role": "user", "content": "hi"}]}'
    print("version 1 becomes", SessionSnapshot.from_json(old).version)
    try:
        SessionSnapshot.from_json(b'{"version": 99, "session_id": "new"}')
    except HoldfastError as error:
        print("version 99:", type(error).__name__)


def main() -> None:
    """Show each of them on a store that goes with the program."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "agent.py"
        program.write_text(AGENT, "utf-8")
        agent = [sys.executable, str(program)]
        with holdfast.open(f"{folder}/store") as hf:
            asyncio.run(save_and_restore(hf, agent))
            asyncio.run(agent_without_load(hf, agent))
            asyncio.run(interval(hf))
            versions(hf)


if __name__ == "__main__":
    main()
