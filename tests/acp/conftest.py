"""An editor on the other end of a pipe, frame by frame, with nothing hidden."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

import holdfast
from holdfast.apps.acp.handover import Waits
from holdfast.apps.acp.proxy.server import Proxy
from holdfast.apps.wire.pipes import AgentProcess, connect
from holdfast.library import Holdfast

AGENT = Path(__file__).parent / "agents" / "scripted.py"
HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
PATIENCE_S = 120
QUICK = Waits(resume_s=PATIENCE_S, load_s=PATIENCE_S, quiet_s=0.1, quiet_max_s=30)
LATE = QUICK._replace(quiet_s=3)
"""For an agent that replays after its answer: a busy machine makes it pause in between."""


class Editor:
    """Speaks JSON-RPC lines with the other side; permissions are given at once."""

    def __init__(self, output, input, stderr=None):
        self.output = output
        self.input = input
        self.stderr = stderr
        self.numbers = itertools.count(1)
        self.seen = []
        self.answers = {}
        self.option = "allow_once"
        self.on_frame = None
        self.errors = b""
        self._news = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()
        self._listener.start()

    def _read(self):
        for line in self._lines():
            if not line.endswith(b"\n"):
                break  # cut off in the middle of it
            frame = json.loads(line)
            self.seen.append(frame)
            if self.on_frame is not None:
                self.on_frame(frame)
            self._serve(frame)
            self._news.put(frame)
        self._news.put(None)

    def _lines(self):
        with contextlib.suppress(ValueError):  # closed with the test
            yield from self.input

    def _listen(self):
        self.errors = b"" if self.stderr is None else self.stderr.read()

    def _serve(self, frame):
        if frame.get("method") == "session/request_permission" and self.option is not None:
            chosen = [o for o in frame["params"]["options"] if o["kind"] == self.option]
            outcome = {"outcome": "selected", "optionId": chosen[0]["optionId"]}
            self.send({"jsonrpc": "2.0", "id": frame["id"], "result": {"outcome": outcome}})

    def send(self, frame):
        """Send one frame, or bytes as they are."""
        data = frame if isinstance(frame, bytes) else json.dumps(frame).encode() + b"\n"
        self.output.write(data)
        self.output.flush()

    def ask(self, method, **params):
        """Send a request; its id."""
        number = next(self.numbers)
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    def tell(self, method, **params):
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def wait(self, number):
        """The answer to a request."""
        return self.until(lambda frame: frame.get("id") == number and "method" not in frame)

    def until(self, fits):
        """The next frame that fits; those before it are passed over."""
        while True:
            try:
                frame = self._news.get(timeout=PATIENCE_S)
            except queue.Empty:
                raise AssertionError("nothing came") from None
            assert frame is not None, f"the other side ended: {self._end_text()}"
            if fits(frame):
                return frame

    def _end_text(self):
        self._listener.join(5)
        return self.errors.decode(errors="replace")[-3000:]

    def call(self, method, **params):
        """Ask and wait; the result. An error fails."""
        answer = self.wait(self.ask(method, **params))
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def fail(self, method, **params):
        """Ask and wait; the error. A result fails."""
        answer = self.wait(self.ask(method, **params))
        assert "error" in answer, answer
        return answer["error"]

    def initialize(self):
        """The first request of every editor."""
        can = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": False}
        return self.call("initialize", protocolVersion=1, clientCapabilities=can)

    def new(self, cwd, **params):
        """A new session's id."""
        return self.call("session/new", cwd=str(cwd), mcpServers=[], **params)["sessionId"]

    def prompt(self, id, text):
        """Say something and wait for the end of the turn."""
        return self.call("session/prompt", sessionId=id, prompt=[{"type": "text", "text": text}])

    def load(self, id, cwd, method="session/load", **params):
        """Load a session: the updates that came until the answer, and the answer."""
        start = len(self.seen)
        answer = self.call(method, sessionId=id, cwd=str(cwd), mcpServers=[], **params)
        return [f["params"]["update"] for f in self.seen[start:] if "update" in f.get("params", {})], answer

    def updates(self, start=0):
        """The updates that came so far."""
        return [
            frame["params"]["update"] for frame in list(self.seen)[start:] if frame.get("method") == "session/update"
        ]


class Process(Editor):
    """The other side is a command."""

    def __init__(self, command, **options):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, **pipes, start_new_session=True, **options)
        super().__init__(self.process.stdin, self.process.stdout, self.process.stderr)

    def kill(self):
        """As the worst crash does it: this process, not its children."""
        self.process.kill()
        self.process.wait()

    def end(self):
        """Close the input and wait; the exit code."""
        with contextlib.suppress(BrokenPipeError, ValueError):
            self.output.close()
        return self.process.wait(PATIENCE_S)

    def clean_up(self):
        """Leave nothing behind."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.output, self.input, self.stderr):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


class Inside(Editor):
    """The other side is a thread of this process: ``serve(pipe)`` on an event loop of its own."""

    def __init__(self, serve):
        to_them, from_us = os.pipe()
        to_us, from_them = os.pipe()
        self._work = threading.Thread(target=self._run, args=(serve, to_them, from_them))
        self._work.start()
        super().__init__(os.fdopen(from_us, "wb"), os.fdopen(to_us, "rb"))

    def _run(self, serve, source, target):
        async def work():
            pipe = await connect(os.fdopen(source, "rb"), os.fdopen(target, "wb", buffering=0))
            await serve(pipe)
            pipe.close()

        asyncio.run(work())

    def end(self):
        """Close the input and wait."""
        with contextlib.suppress(BrokenPipeError, ValueError):
            self.output.close()
        self._work.join(PATIENCE_S)
        assert not self._work.is_alive()
        return 0

    def clean_up(self):
        """Leave nothing behind."""
        self.end()
        self._reader.join(PATIENCE_S)
        self.input.close()


@pytest.fixture
def start():
    """Start a command, or what serves a pipe, with an editor on it; ended with the test."""
    editors = []

    def begin(what, **options):
        editors.append(Inside(what) if callable(what) else Process(what, **options))
        return editors[-1]

    yield begin
    for editor in editors:
        editor.clean_up()


@pytest.fixture
def store_place(tmp_path):
    """Where the proxy keeps its sessions."""
    return tmp_path / "store"


@pytest.fixture
def agent_command(tmp_path):
    """The command of a scripted agent that keeps its own history."""

    def make(*arguments, store=True):
        kept = ["--store", str(tmp_path / "agent.json")] if store else []
        journal = ["--journal", str(tmp_path / "journal.jsonl")]
        return [sys.executable, str(AGENT), *kept, *journal, *map(str, arguments)]

    return make


@pytest.fixture
def proxy_process(start, store_place, agent_command):
    """The command ``holdfast acp proxy`` in front of a scripted agent, greeted by an editor."""

    def begin(*arguments, store=True, greet=True, **options):
        command = [HOLDFAST, "--store", str(store_place), "acp", "proxy", "--"]
        editor = start([*command, *agent_command(*arguments, store=store)], **options)
        if greet:
            editor.hello = editor.initialize()
        return editor

    return begin


@pytest.fixture
def proxy(start, store_place, agent_command):
    """The same in this process, which is quicker."""

    def begin(*arguments, store=True, greet=True, place=None, waits=None, **options):
        command = agent_command(*arguments, store=store)
        waits = waits or (LATE if "late" in arguments else QUICK)
        said = []

        async def serve(pipe):
            # As the command does it.
            with Holdfast(store_place if place is None else place, redaction="mark") as hf:
                launch = partial(AgentProcess.start, command)
                proxy = Proxy(hf, pipe, launch, command=command, waits=waits, say=said.append, **options)
                await proxy.run()

        editor = start(serve)
        editor.said = said
        if greet:
            editor.hello = editor.initialize()
        return editor

    return begin


@pytest.fixture
def journal(tmp_path):
    """What the agent was told, frame by frame."""

    def read(method=None):
        lines = (tmp_path / "journal.jsonl").read_text().splitlines()
        frames = [json.loads(line) for line in lines]
        return [frame for frame in frames if method is None or frame.get("method") == method]

    return read


@pytest.fixture
def kept(store_place):
    """The store of the proxy, to look at."""
    with holdfast.open(store_place) as hf:
        yield hf
