"""The ACP proxy: the time that it adds to each frame, and the time of a session load."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any, ClassVar

from bench.figures import Line, line_of, median, micros, millis

__all__ = ["Loaded", "Proxied"]

_HERE = os.path.dirname(os.path.abspath(__file__))
_HOLDFAST = os.path.join(os.path.dirname(sys.executable), "holdfast")
_TURN = {"prompt": [{"type": "text", "text": "go on"}]}


def _agent(kind: str, count: int) -> list[str]:
    return [sys.executable, os.path.join(_HERE, "acp_agent.py"), kind, str(count)]


def _proxy(folder: str, agent: list[str]) -> list[str]:
    return [_HOLDFAST, "--store", os.path.join(folder, "store"), "acp", "proxy", "--", *agent]


class Connection:
    """An editor that only reads."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._number = 0
        self.call("initialize", {"protocolVersion": 1})
        self.id = self.call("session/new", {"cwd": "/", "mcpServers": []})["sessionId"]

    def call(self, method: str, params: dict[str, Any]) -> Any:
        """Send a request, and read until the answer."""
        self._number += 1
        frame = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(frame).encode() + b"\n")
        stdin.flush()
        mark = b'"id":%d,' % self._number
        for line in stdout:
            if mark in line[:40]:
                return json.loads(line)["result"]
        raise EOFError(method)

    def spend(self, method: str, **params: Any) -> int:
        """Return the nanoseconds from a request to its answer."""
        begin = time.perf_counter_ns()
        self.call(method, {"sessionId": self.id, **params})
        return time.perf_counter_ns() - begin

    def end(self) -> None:
        """Close it."""
        self._process.communicate()


class Proxied:
    """A stream of updates through the proxy against a process that copies line by line."""

    ROUNDS = 3
    MARK = 5.0

    def __init__(self, *, quick: bool) -> None:
        self._count = 2_000 if quick else 20_000
        self._turns = 3
        self._ours: list[float] = []
        self._bare: list[float] = []

    def measure(self, folder: str) -> None:
        """Run one round: turns through each in turn."""
        agent = _agent("chunks", self._count)
        copier = [sys.executable, os.path.join(_HERE, "acp_copier.py"), *agent]
        both = (Connection(_proxy(folder, agent)), Connection(copier))
        spent: tuple[list[int], list[int]] = ([], [])
        for _ in range(self._turns):
            for connection, times in zip(both, spent, strict=True):
                times.append(connection.spend("session/prompt", **_TURN))
        for connection in both:
            connection.end()
        self._ours.append(median(spent[0]) / self._count)
        self._bare.append(median(spent[1]) / self._count)

    def lines(self) -> list[Line]:
        """Return the table's lines."""
        return [
            line_of(
                "ACP frame through the proxy, recorded (copied from pipe to pipe)",
                [one / least for one, least in zip(self._ours, self._bare, strict=True)],
                self.MARK,
                ours=micros(median(self._ours)),
                floor=micros(median(self._bare)),
            )
        ]


# The snapshot and the indexing that a turn triggers are done by then; both are measured elsewhere.
_SETTLED_S = 3.0


class Loaded:
    """``session/load`` of a long session against a process that writes the same frames."""

    ROUNDS = 5
    MARK = 2.0
    COUNT = 10_000

    KINDS: ClassVar = {"chunks": "of messages", "mixed": "of messages and, 4 in 10, of tool calls"}

    def __init__(self, *, quick: bool) -> None:
        self._loads = 2 if quick else 5
        self._ours: dict[str, list[float]] = {kind: [] for kind in self.KINDS}
        self._bare: dict[str, list[float]] = {kind: [] for kind in self.KINDS}

    def measure(self, folder: str) -> None:
        """Run one round: the session is made, then loaded, in turn with the bare writer."""
        for kind in self.KINDS:
            agent = _agent(kind, self.COUNT)
            proxy, bare = Connection(_proxy(folder, agent)), Connection(agent)
            proxy.spend("session/prompt", **_TURN)
            time.sleep(_SETTLED_S)
            spent: tuple[list[int], list[int]] = ([], [])
            for _ in range(self._loads):
                spent[0].append(proxy.spend("session/load", cwd="/", mcpServers=[]))
                spent[1].append(bare.spend("session/prompt", **_TURN))
            proxy.end()
            bare.end()
            self._ours[kind].append(median(spent[0]))
            self._bare[kind].append(median(spent[1]))

    def lines(self) -> list[Line]:
        """Return the table's lines."""
        return [
            line_of(
                f"ACP load of {self.COUNT:,} updates, {what} (writing those frames to a pipe)",
                [a / b for a, b in zip(self._ours[kind], self._bare[kind], strict=True)],
                self.MARK,
                ours=millis(median(self._ours[kind])),
                floor=millis(median(self._bare[kind])),
            )
            for kind, what in self.KINDS.items()
        ]
