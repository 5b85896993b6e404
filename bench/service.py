"""The service under load: requests per second, and the events lost by a kill -9.

200 WebSocket sessions append while 50 readers follow; the server is killed and started again. Every
client comes back with the id of its session and sends again what was not acknowledged. Then each
session is read: what was acknowledged must be there, once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from typing import Any, Self

from bench.figures import Line, line_of, median

__all__ = ["Service"]

_HERE = os.path.dirname(os.path.abspath(__file__))
_HOLDFAST = os.path.join(os.path.dirname(sys.executable), "holdfast")
_CLIENTS = 32
_PATIENCE_S = 60
_EVENT = {"type": "user", "data": {"role": "user", "content": "x" * 200}}


class Service:
    """Requests per second next to bare handlers, and acknowledged events lost."""

    ROUNDS = 2
    WRITERS = 200
    READERS = 50

    def __init__(self, *, quick: bool) -> None:
        self._requests = 400 if quick else 3_000
        self._events = 6 if quick else 25
        self._rates: dict[str, list[float]] = {"ours": [], "append": [], "sync": []}
        self._acknowledged: list[int] = []
        self._lost: list[int] = []
        self._doubled: list[int] = []
        self._missed: list[int] = []
        self._load_rates: list[float] = []

    def measure(self, folder: str) -> None:
        """Run one round: the floors before ours, then the load."""
        for kind in ("append", "sync"):
            with _floor(os.path.join(folder, kind), kind) as port:
                found = asyncio.run(_hammer(port, ["/append"], "", self._requests))
                self._rates[kind].append(found)
        self._rates["ours"].append(self._rate(os.path.join(folder, "rate")))
        load = _Load(os.path.join(folder, "load"), self.WRITERS, self.READERS, self._events)
        asyncio.run(load.run())
        self._acknowledged.append(len(load.acknowledged))
        self._load_rates.append(len(load.acknowledged) / load.seconds)
        lost, doubled = load.judge()
        self._lost.append(lost)
        self._doubled.append(doubled)
        self._missed.append(load.missed)

    def lines(self) -> list[Line]:
        """Ratios of requests per second, and counts whose mark is 0."""
        ours = self._rates["ours"]
        told = f"{median(ours):,.0f} /s"
        found = []
        for kind, words in (("append", "one file append"), ("sync", "one append and sync")):
            ratios = [floor / mine for floor, mine in zip(self._rates[kind], ours, strict=True)]
            what = f"append by HTTP, requests per second (bare starlette, {words})"
            floor = f"{median(self._rates[kind]):,.0f} /s"
            found.append(line_of(what, ratios, None, ours=told, floor=floor))
        load = f"{self.WRITERS} writers, {self.READERS} readers, kill -9"
        count = f"{median(self._acknowledged):,.0f} acknowledged"
        rate = f"{median(self._load_rates):,.0f} /s"
        return [
            *found,
            line_of(f"acknowledged events lost ({load})", self._lost, 0, ours=count, floor=rate),
            line_of(f"events recorded twice ({load})", self._doubled, 0, ours=count),
            line_of(f"events that a reader missed ({load})", self._missed, 0, ours=count),
        ]

    def _rate(self, store: str) -> float:
        token = _token(store)
        with _Server(store) as server:
            paths = []
            for number in range(_CLIENTS):
                _post(server.port, token, "/v1/sessions", {"id": f"s{number}"})
                paths.append(f"/v1/sessions/s{number}/events")
            return asyncio.run(_hammer(server.port, paths, token, self._requests))


class _Server:
    """A server as users start it, on the same port each time."""

    def __init__(self, store: str, port: int = 0) -> None:
        self._store = store
        self.port = port or _free_port()

    def __enter__(self) -> Self:
        command = [_HOLDFAST, "--store", self._store, "serve", "--no-agent"]
        command += ["--port", str(self.port), "--rate", "1000000"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE)
        line = self.process.stderr.readline()
        assert line.startswith(b"Serving at"), line + self.process.stderr.read()
        self._drain = subprocess.Popen(["cat"], stdin=self.process.stderr, stdout=subprocess.DEVNULL)
        return self

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._drain.wait()
        self.process.stderr.close()

    def __exit__(self, *_: object) -> None:
        self.kill()


@contextlib.contextmanager
def _floor(path: str, kind: str) -> Any:
    command = [sys.executable, os.path.join(_HERE, "service_floor.py"), path, kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


class _Load:
    """Writers and readers, before, during and after the death of their server."""

    def __init__(self, store: str, writers: int, readers: int, events: int) -> None:
        self._store = store
        self._writers = writers
        self._readers = readers
        self._events = events
        self._token = _token(store)
        self._port = _free_port()
        self._ids: dict[int, str] = {}
        self._heard: dict[int, list[str]] = {}
        self.acknowledged: set[tuple[int, int]] = set()
        self.missed = 0
        self.seconds = 0.0

    async def run(self) -> None:
        """Run the whole measurement."""
        with _Server(self._store, self._port) as first:
            begin = time.perf_counter()
            writing = [asyncio.ensure_future(self._write(n)) for n in range(self._writers)]
            reading = [asyncio.ensure_future(self._read(n)) for n in range(self._readers)]
            half = self._writers * self._events // 2
            while len(self.acknowledged) < half:  # noqa: ASYNC110 - many count, and none should wait
                await asyncio.sleep(0.005)
            first.kill()
            with _Server(self._store, self._port):
                await asyncio.wait_for(asyncio.gather(*writing), _PATIENCE_S * 3)
                self.seconds = time.perf_counter() - begin
                await asyncio.wait(reading, timeout=_PATIENCE_S)
                for task in reading:
                    task.cancel()
                await asyncio.gather(*reading, return_exceptions=True)
        for number in range(self._readers):
            wanted = [f"{number}.{n}" for n in range(self._events)]
            self.missed += wanted != self._heard.get(number)

    def judge(self) -> tuple[int, int]:
        """Return the numbers of acknowledged events that are missing and that are there twice."""
        import holdfast

        lost = doubled = 0
        with holdfast.open(self._store, space="load") as hf:
            for number, id in self._ids.items():
                found = Counter(e.data["n"] for e in hf.events(id, types=("note",)))
                lost += sum(not found[n] for who, n in self.acknowledged if who == number)
                doubled += sum(count - 1 for count in found.values())
        return lost, doubled

    async def _write(self, number: int) -> None:
        from websockets.asyncio.client import connect
        from websockets.exceptions import WebSocketException

        headers = {"authorization": f"Bearer {self._token}"}
        done = 0
        while done < self._events:
            query = f"?session_id={self._ids[number]}" if number in self._ids else ""
            url = f"ws://127.0.0.1:{self._port}/input{query}"
            try:
                async with connect(url, additional_headers=headers) as socket:
                    hello = json.loads(await socket.recv())
                    self._ids[number] = hello["payload"]["session_id"]
                    while done < self._events:
                        await socket.send(_wish(number, done))
                        told = json.loads(await socket.recv())
                        assert told["event"] == "session.appended", told
                        self.acknowledged.add((number, done))
                        done += 1
            except (OSError, WebSocketException, TimeoutError):
                await asyncio.sleep(0.05)

    async def _read(self, number: int) -> None:
        heard = self._heard.setdefault(number, [])
        last = -1
        while len(heard) < self._events:
            try:
                async for seq, event in self._followed(number, last):
                    last = seq
                    if event["type"] == "note":
                        heard.append(event["key"])
                    if len(heard) >= self._events:
                        return
            except (OSError, asyncio.IncompleteReadError, ValueError):
                pass
            await asyncio.sleep(0.05)

    async def _followed(self, number: int, last: int) -> Any:
        if number not in self._ids:
            return
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            given = f"Last-Event-ID: {last}\r\n" if last >= 0 else ""
            writer.write(
                f"GET /v1/sessions/{self._ids[number]}/follow HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                f"Authorization: Bearer {self._token}\r\n{given}\r\n".encode()
            )
            status = await reader.readline()
            if b" 200 " not in status:
                return
            while line := await reader.readline():
                if line.startswith(b"data: {") and b'"seq"' in line:
                    event = json.loads(line[6:])
                    yield event["seq"], event
        finally:
            writer.close()


def _wish(number: int, n: int) -> str:
    data = {"n": n, "text": "x" * 200}
    wish = {"type": "append", "event": "note", "data": data, "key": f"{number}.{n}"}
    return json.dumps(wish)


def _token(store: str) -> str:
    command = [_HOLDFAST, "--store", store, "serve", "token", "create", "--space", "load"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _post(port: int, token: str, path: str, body: Any) -> None:
    import urllib.request

    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        json.dumps(body).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=_PATIENCE_S):
        pass


async def _hammer(port: int, paths: list[str], token: str, count: int) -> float:
    """Return the requests per second of clients that each send the next request when they get a response."""
    body = json.dumps(_EVENT).encode()
    left = [count]

    async def client(path: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        request = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode() + body
        while left[0] > 0:
            left[0] -= 1
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in head.split(b"\r\n", 1)[0], head
            size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n", 1)[0])
            await reader.readexactly(size)
        writer.close()

    begin = time.perf_counter()
    await asyncio.gather(*(client(paths[n % len(paths)]) for n in range(_CLIENTS)))
    return count / (time.perf_counter() - begin)
