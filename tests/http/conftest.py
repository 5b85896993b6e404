"""A server of the API on a real port, on a thread of the test's own process, and its clients."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import contextmanager

import httpx2
import pytest
import uvicorn
from tests.scripts import make_kit
from websockets.sync.client import connect

from holdfast.apps.gate.limits import Buckets
from holdfast.apps.http._service import Service
from holdfast.apps.http.server import http_app
from holdfast.library import Holdfast

PATIENCE_S = 120


class Server:
    """One server; ``client`` speaks to it with a token of its own."""

    def __init__(self, hf, kit=None, **options):
        self.hf = hf
        self._ready = threading.Event()
        self._kit = kit
        self._options = options
        self.service = None
        self.url = ""
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        asyncio.run(self._serve())

    async def _serve(self):
        self.loop = asyncio.get_running_loop()
        self.service = Service(self.hf, self._kit, rate=100_000, **self._options)
        self.service._failures = Buckets(1000, 100_000)  # tests ask wrongly all the time
        app = http_app(self.service)
        config = uvicorn.Config(app, port=0, log_level="error", ws="websockets-sansio", lifespan="on")
        self.server = uvicorn.Server(config)
        self.server.capture_signals = _no_signals
        task = asyncio.ensure_future(self.server.serve())
        while not self.server.started:  # noqa: ASYNC110 - uvicorn tells it so
            await asyncio.sleep(0.01)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._ready.set()
        await task

    def start(self):
        """Begin to serve."""
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)
        return self

    def stop(self):
        """As a signal does it."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.service.begin_stop)
            self.server.should_exit = True
            self._thread.join(PATIENCE_S)
            assert not self._thread.is_alive()

    def token(self, space="alice", scope="admin", **more):
        """A new token."""
        return self.service.tokens.create(space, scope, **more)[0]

    def client(self, space="alice", scope="admin", token=None):
        """A client with a token."""
        headers = {"authorization": f"Bearer {token or self.token(space, scope)}"}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=PATIENCE_S)

    def input(self, token, query="", **more):
        """A WebSocket; a dict is sent and read as JSON."""
        url = f"{self.url.replace('http', 'ws')}/input{query}"
        headers = {"authorization": f"Bearer {token}"}
        return connect(url, additional_headers=headers, open_timeout=PATIENCE_S, **more)


@contextmanager
def _no_signals():
    yield


@pytest.fixture(scope="module")
def module_root(tmp_path_factory):
    """A private directory for the stores of one module."""
    root = tmp_path_factory.mktemp("http")
    root.chmod(0o700)
    return root


@pytest.fixture(scope="module")
def server(module_root):
    """One server for all tests of a module, each of which has a space of its own."""
    with Holdfast(module_root / "store") as hf:
        running = Server(hf, make_kit("hello there")).start()
        yield running
        running.stop()


@pytest.fixture
def space(request):
    """A space that no other test has."""
    import hashlib

    return "t" + hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:16]


@pytest.fixture
def client(server, space):
    """A client that may do everything in the test's space."""
    with server.client(space) as found:
        yield found


class Talk:
    """How tests speak to a WebSocket and read a stream of events."""

    @staticmethod
    def say(socket, message):
        """Send a message."""
        socket.send(message if isinstance(message, (str, bytes)) else json.dumps(message))

    @staticmethod
    def hear(socket, *names):
        """The payload of the next message of one of these names."""
        while True:
            message = json.loads(socket.recv(timeout=PATIENCE_S))
            if not names or message["event"] in names:
                return message["payload"]

    @staticmethod
    def events(stream):
        """The events of a stream: name, data, id."""
        found = {}
        for line in stream.iter_lines():
            if line:
                name, _, value = line.partition(": ")
                found[name] = value
            elif "event" in found:
                yield found.pop("event"), json.loads(found.pop("data")), found.pop("id", None)


@pytest.fixture
def talk():
    """Saying and hearing."""
    return Talk


@pytest.fixture
def serving(module_root):
    """Start servers with a model of one's own; they are stopped with the test."""
    running = []

    def start(*steps, where=None, **options):
        hf = Holdfast(where or module_root / "store", redaction=options.pop("redaction", "off"))
        kit = options.pop("kit", make_kit(*steps))
        running.append((Server(hf, kit, **options).start(), hf))
        return running[-1][0]

    yield start
    for server, hf in running:
        server.stop()
        hf.close()
