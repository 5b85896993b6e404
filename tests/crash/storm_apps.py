"""The apps as people start them, each with a client that says what it was told is safe.

Each of them is made on a store, may be stopped, continued and killed at any moment, and gives with
``work`` the tokens that were acknowledged, one after the other, until it is gone.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import pty
import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from holdfast.apps.http.tokens import TokenBook
from holdfast.storage import open_store

COMMAND = str(Path(sys.executable).with_name("holdfast"))
AGENT = Path(__file__).parents[1] / "acp" / "agents" / "scripted.py"
GONE = (OSError, EOFError, http.client.HTTPException, ValueError)
_tokens = itertools.count(1)


def next_token():
    return f"<storm-{next(_tokens)}>"


class App:
    """One process of the command; ``session`` is the id of what it writes."""

    arguments = ()
    session = None
    space = None
    writes = True
    calm_s_max = 0.4
    """How long it may do what it does before it is killed."""

    def __init__(self, store):
        self.store = store
        self.process = self.start([COMMAND, "--store", str(store), *self.arguments])
        self.begin()

    def start(self, command):
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def begin(self):
        """Whatever comes before the first work."""

    def work(self):
        """Every token that was acknowledged."""
        raise NotImplementedError

    def end(self):
        """Kill it, whatever it does, and let go of it."""
        self.process.kill()
        self.process.wait(120)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


class Lines(App):
    """One that is spoken to in lines of JSON."""

    def ask(self, message, is_answer):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        while True:
            line = self.process.stdout.readline()
            if not line.endswith(b"\n"):
                raise EOFError
            frame = json.loads(line)
            if is_answer(frame):
                return frame


class Bridge(Lines):
    """A program's connection to the bridge; a turn that was answered is safe."""

    arguments = ("bridge", "--stdio")

    def begin(self):
        hello = {"type": "initialize", "id": "1", "demo_mode": True}
        self.ask(hello, lambda frame: frame["type"] == "initialized")
        made = self.ask({"type": "session_create", "id": "2"}, lambda frame: frame["type"] == "session_created")
        self.session = made["session_id"]

    def work(self):
        while True:
            token = next_token()
            message = {"type": "query", "id": token, "query": token}
            self.ask(message, lambda frame: frame["type"] == "query_result")
            yield token


class Proxy(Lines):
    """An editor's connection through the proxy to an agent."""

    arguments = ("acp", "proxy", "--", sys.executable, str(AGENT), "--resume", "yes")
    numbers = itertools.count(1)

    def begin(self):
        self.call("initialize", protocolVersion=1)
        self.session = self.call("session/new", cwd=str(self.store), mcpServers=[])["sessionId"]

    def call(self, method, **params):
        number = next(self.numbers)
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        answer = self.ask(message, lambda frame: frame.get("id") == number and "method" not in frame)
        return answer["result"]

    def work(self):
        while True:
            token = next_token()
            said = [{"type": "text", "text": token}]
            self.call("session/prompt", sessionId=self.session, prompt=said)
            yield token


def is_answer(frame, number):
    return frame.get("id") == number and "method" not in frame


class Server(App):
    """The API over HTTP; what was answered is on the medium."""

    arguments = ("serve", "--port", "0", "--no-agent")
    session = "served"
    space = "storm"

    def start(self, command):
        store = open_store(str(self.store))
        self.token = TokenBook(store).create(self.space, "admin")[0]
        store.close()
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def begin(self):
        line = self.process.stderr.readline().decode()
        if not line.startswith("Serving at "):
            raise EOFError(line)
        self.place = line.split()[-1].removeprefix("http://")
        self.post("/v1/sessions", {"id": self.session})

    def post(self, path, body):
        connection = http.client.HTTPConnection(self.place, timeout=120)
        try:
            headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
            connection.request("POST", path, json.dumps(body), headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()

    def work(self):
        while True:
            token = next_token()
            event = {"type": "user", "data": {"role": "user", "content": token}}
            status = self.post(f"/v1/sessions/{self.session}/events", event)
            assert status in (200, 201), status
            yield token

    def end(self):
        super().end()
        self.process.stderr.close()


class Indexer(App):
    """The catalogue, made anew; it writes no session."""

    arguments = ("reindex",)
    writes = False
    calm_s_max = 1.0

    def work(self):
        yield None


class Terminal(App):
    """The terminal app on a terminal of its own, with keys pressed at random."""

    arguments = ("tui",)
    writes = False
    keys = (b"\x1b[B", b"\x1b[A", b"\r", b"\x1b", b"/", b"a", b"\t", b"?")

    def start(self, command):
        self.screen, inside = pty.openpty()
        env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
        try:
            return subprocess.Popen(
                command, stdin=inside, stdout=inside, stderr=inside, env=env, start_new_session=True
            )
        finally:
            os.close(inside)

    def work(self):
        os.read(self.screen, 1)  # it has begun to draw
        for key in itertools.cycle(self.keys):
            while select.select([self.screen], [], [], 0.05)[0]:
                if not os.read(self.screen, 65536):
                    raise EOFError
            os.write(self.screen, key)
            yield None

    def end(self):
        super().end()
        os.close(self.screen)


APPS = {"bridge": Bridge, "proxy": Proxy, "server": Server, "indexer": Indexer, "terminal": Terminal}
