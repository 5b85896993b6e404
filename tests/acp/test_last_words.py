"""What an end of a JSON-RPC connection does when the other side has said everything."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.apps.acp.proxy import server
from holdfast.apps.wire.peer import Peer
from holdfast.apps.wire.pipes import AgentProcess, connect

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))


class Said:
    """A pipe from which all requests come at once, and then the end."""

    def __init__(self, *methods):
        self._lines = [
            json.dumps({"jsonrpc": "2.0", "id": id, "method": method}).encode() for id, method in enumerate(methods)
        ]
        self.answers = {}

    async def read(self):
        lines, self._lines = self._lines, None
        return lines

    def write(self, line):
        answer = json.loads(line)
        self.answers[answer["id"]] = answer

    async def drain(self):
        await asyncio.sleep(0)


async def quick(_):
    await asyncio.sleep(0.01)
    return "done"


async def endless(_):
    await asyncio.sleep(60)


async def test_what_was_asked_before_the_end_is_answered():
    """As in a pipe of a shell; what takes as long as a model does is cancelled, and says so."""
    pipe = Said("quick", "no such", "endless", "quick")
    methods = {"quick": quick, "endless": endless}
    await asyncio.wait_for(Peer(pipe, methods=methods, endless={"endless"}).run(), 120)
    assert [pipe.answers[id].get("result") for id in (0, 3)] == ["done", "done"]
    assert [pipe.answers[id]["error"]["code"] for id in (1, 2)] == [-32601, -32800]


@pytest.mark.parametrize("what", ["proxy", "agent"])
def test_an_input_that_has_nothing_ends_at_once(agent_command, store_place, what):
    """``< /dev/null``, as in a job without a terminal: nothing was asked, and that is no fault."""
    words = ["proxy", "--", *agent_command()] if what == "proxy" else ["agent"]
    done = subprocess.run(
        [HOLDFAST, "--store", str(store_place), "acp", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert (done.stdout, "Traceback" in done.stderr) == ("", False)


def test_the_proxy_answers_what_was_asked_before_the_end(agent_command, store_place, tmp_path):
    """All that a program put into a pipe, though it ended long before the agent was up."""
    asked = [
        ("initialize", {"protocolVersion": 1, "clientCapabilities": {}}),
        ("session/new", {"cwd": str(tmp_path), "mcpServers": []}),
        ("session/list", {}),
    ]
    frames = [
        json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        for id, (method, params) in enumerate(asked)
    ]
    command = [HOLDFAST, "--store", str(store_place), "acp", "proxy", "--", *agent_command()]
    done = subprocess.run(
        command,
        input="".join(f"{frame}\n" for frame in frames),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    assert sorted(answers) == [0, 1, 2]
    assert answers[1]["result"]["sessionId"]


async def test_an_editor_that_is_gone_while_the_agent_starts_is_not_answered(store_place, monkeypatch):
    """Its window was closed, both ends are: proxy and agent end, though the agent never answers."""
    monkeypatch.setattr(server, "_LAST_WORDS_S", 1e9)
    source, from_editor = os.pipe()
    to_editor, target = os.pipe()
    pipe = await connect(os.fdopen(source, "rb"), os.fdopen(target, "wb", buffering=0))
    started = []

    async def launch():
        started.append(await AgentProcess.start(["sleep", "600"]))
        return started[0]

    with holdfast.open(store_place) as hf:
        running = asyncio.ensure_future(server.Proxy(hf, pipe, launch, command=["sleep"]).run())
        greeting = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
        os.write(from_editor, json.dumps(greeting).encode() + b"\n")
        while not started:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
        os.close(from_editor)
        os.close(to_editor)
        await asyncio.wait_for(running, 120)
    pipe.close()
