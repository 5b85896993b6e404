"""PostgreSQL when things break: connections, the server, its disk; and hosts that come and go."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from uuid import uuid4

import pytest

import holdfast
from holdfast.errors import Forbidden, HoldfastError, StoreError, StoreFull, Unavailable, UsageError
from holdfast.storage.postgres.store import PostgresStore

_HERE = Path(__file__).parent


def _proxy(port):
    spec = importlib.util.spec_from_file_location("cutting_proxy", _HERE / "cutting_proxy.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.CuttingProxy(port)


def _texts(url, id="s"):
    with holdfast.open(url) as hf:
        assert hf.verify(id).ok
        return [event.data["content"] for event in hf.events(id, types=["user"])]


QUICK = {"autosave_ms": 0, "snapshot_ms": 0}


@pytest.mark.parametrize(
    ("direction", "sizes"),
    [
        ("up", [0, 1, 5, 20, 60, 120, 200, 300, 450, 700, 1000, 1500]),
        ("down", [0, 1, 3, 5, 8, 12, 16, 20, 25, 30, 35, 40]),
    ],
)
def test_a_connection_cut_at_any_byte_loses_and_doubles_nothing(postgres_server, direction, sizes):
    """Whatever was sent when the line broke: looked up, sent again if it is not there, once."""
    schema = f"t{uuid4().hex}"
    proxy = _proxy(postgres_server.port)
    through = f"postgresql://holdfast@127.0.0.1:{proxy.port}/postgres?schema={schema}"
    acknowledged = []
    try:
        with holdfast.open(through) as hf, hf.session("s", **QUICK) as s:
            s.user("first")
            s.flush()
            for number, size in enumerate(sizes):
                proxy.cut_after(size, direction)
                text = f"{number} " + "x" * 300
                s.user(text)
                s.flush()
                acknowledged.append(text)
    finally:
        proxy.close()
    assert proxy.cuts >= 6
    direct = f"{postgres_server.url}?schema={schema}"
    assert _texts(direct) == ["first", *acknowledged]


@pytest.mark.unmeasured
def test_a_server_killed_and_started_again_under_load(postgres_server, postgres_url):
    """The database killed with -9: nothing acknowledged is lost, and work goes on after."""
    acknowledged: dict[str, list[str]] = {f"s{n}": [] for n in range(4)}
    stop = threading.Event()
    errors = []

    def work(hf, id):
        try:
            with hf.session(id, **QUICK) as s:
                number = 0
                while not stop.is_set():
                    s.user(f"{id} {number}")
                    s.flush()
                    acknowledged[id].append(f"{id} {number}")
                    number += 1
        except HoldfastError as error:
            errors.append(error)

    def go_on():
        """Until each of them has had more acknowledged than before."""
        before = {id: len(texts) for id, texts in acknowledged.items()}
        until = time.monotonic() + 120
        while any(len(acknowledged[id]) <= count for id, count in before.items()):
            assert errors == []
            assert time.monotonic() < until, "work did not go on"
            time.sleep(0.1)

    # A busy machine takes its time to start a server.
    with holdfast.open(f"{postgres_url}&retry_s=200") as hf:
        threads = [threading.Thread(target=work, args=(hf, id)) for id in acknowledged]
        for thread in threads:
            thread.start()
        try:
            for _ in range(2):
                go_on()
                postgres_server.kill()
                time.sleep(0.3)
                postgres_server.start()
            go_on()
        finally:
            stop.set()
            for thread in threads:
                thread.join(120)
    assert errors == []
    for id, texts in acknowledged.items():
        assert _texts(postgres_url, id)[: len(texts)] == texts


def test_a_server_that_stays_away_is_told_and_what_is_unsaved_is_kept(postgres_server):
    """After the time for trying again the session is dead, and its unsaved events are told."""
    schema = f"t{uuid4().hex}"
    proxy = _proxy(postgres_server.port)
    url = f"postgresql://holdfast@127.0.0.1:{proxy.port}/postgres?schema={schema}&retry_s=1"
    hf = holdfast.open(url)
    s = hf.session("s", **QUICK)
    s.user("stored")
    s.flush()
    proxy.close()
    s.user("not stored")
    with pytest.raises(StoreError) as caught:
        s.flush()
    assert b"not stored" in b"".join(
        part if isinstance(part, bytes) else str(part).encode() for part in caught.value.unsaved
    )
    with pytest.raises(StoreError):
        s.user("more")
    hf.close()
    assert _texts(f"{postgres_server.url}?schema={schema}") == ["stored"]


def test_the_disk_of_the_database_is_full(postgres_server):
    """StoreFull or Unavailable, nothing acknowledged is lost, and work goes on after."""
    if os.geteuid() != 0:
        pytest.skip("a small disk can be mounted by root only")
    with tempfile.TemporaryDirectory(prefix="holdfast-small-") as place:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=90m,mode=0777", "tmpfs", place], capture_output=True, check=False
        )
        if done.returncode:
            pytest.skip("nothing can be mounted here: " + done.stderr.decode().strip())
        server = type(postgres_server)(postgres_server._binaries, Path(place))
        try:
            server.make()
            server.start()
            _fill_and_go_on(server, Path(place))
        finally:
            server.stop()
            subprocess.run(["umount", "-l", place], check=False)


def _fill_and_go_on(server, place):
    url = f"{server.url}?retry_s=2"
    acknowledged = []
    with holdfast.open(url) as hf, hf.session("s", **QUICK) as s:
        s.user("first")
    ballast = place / "ballast"
    with ballast.open("wb") as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * (1 << 20))
            file.flush()
    with pytest.raises((StoreFull, Unavailable)):
        _write_until_it_fails(url, acknowledged)
    ballast.unlink()
    with holdfast.open(url) as again:
        with _once_it_is_back(server, again) as s:
            s.user("goes on")
        texts = [event.data["content"] for event in again.events("s", types=["user"])]
        assert again.verify("s").ok
    assert texts[0] == "first"
    assert texts[-1] == "goes on"
    assert [int(text.partition(" ")[0]) for text in texts[1:-1]][: len(acknowledged)] == acknowledged


def _once_it_is_back(server, hf):
    """The session, once the server takes something again."""
    until = time.monotonic() + 120
    while True:
        try:
            return hf.session("s", **QUICK)
        except (StoreFull, Unavailable):
            assert time.monotonic() < until
        if server.process.poll() is not None:  # a full disk for its own log ends the server
            server.start()


def _write_until_it_fails(url, acknowledged):
    with holdfast.open(url) as hf, hf.session("s", **QUICK) as s:
        for number in range(400):
            s.user(f"{number} " + os.urandom(20_000).hex())
            s.flush()
            acknowledged.append(number)


def test_several_starters_make_the_tables_once(postgres_url):
    """Eight stores that open an empty schema at the same moment all find it usable."""
    errors = []

    def start():
        store = PostgresStore(postgres_url)
        try:
            store.check()
        except HoldfastError as error:
            errors.append(error)
        finally:
            store.close()

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert errors == []


def test_a_newer_schema_is_left_alone(postgres_url):
    """Tables of a later version are refused, and not touched."""
    from holdfast.errors import TooNew

    store = PostgresStore(postgres_url)
    store.check()
    store.link.run(lambda connection: connection.execute("UPDATE migrations SET version = 99"))
    store.close()
    store = PostgresStore(postgres_url)
    with pytest.raises(TooNew):
        store.check()
    store.close()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("?schema=a;drop", "no name for a schema"),
        ("?connections=0", "connections='0'"),
        ("?retry_s=soon", "retry_s='soon'"),
    ],
)
def test_wrong_options_of_an_address(postgres_server, change, said):
    """A wrong option is told before anything is reached, and which one it is."""
    with pytest.raises(UsageError, match=said):
        PostgresStore(postgres_server.url + change)


def test_an_unknown_database_is_told(postgres_server):
    """What the server says comes out as a clear error, at once."""
    url = postgres_server.url.replace("/postgres", "/nothing") + "?retry_s=1"
    store = PostgresStore(url)
    with pytest.raises((Unavailable, Forbidden), match="nothing"):
        store.check()
    store.close()


def test_the_password_is_shown_nowhere(postgres_server):
    """A location is for people to read: it has no password in it."""
    store = PostgresStore("postgresql://me:secret@127.0.0.1:1/db")
    assert "secret" not in store.location("sessions/a")
    store.close()


def test_a_follower_on_another_connection_hears_at_once(postgres_url):
    """What one writes another one follows, live."""
    with (
        holdfast.open(postgres_url) as writing,
        holdfast.open(postgres_url) as reading,
        writing.session("s", **QUICK) as s,
    ):
        s.user("one")
        s.flush()
        followed = reading.follow("s")
        assert [next(followed).type for _ in range(3)][-1] == "user"
        s.user("two")
        s.flush()
        assert next(followed).data["content"] == "two"
        followed.close()


AGENT_HOST = """
import sys, os, signal, holdfast
hf = holdfast.open(sys.argv[1])
s = hf.session("trip", lease_ms=1000, autosave_ms=0, snapshot_ms=0)
if sys.argv[2] == "begin":
    s.user("plan a trip")
    call = s.tool_call("Book", {"where": "Oslo"})
    s.flush()
    os.kill(os.getpid(), signal.SIGKILL)
print(s.restored, [m["role"] for m in s.messages("anthropic")])
s.user("go on")
s.close(); hf.close()
"""


def test_a_session_moves_from_a_host_that_died_to_another(postgres_server):
    """Two hosts (network namespaces): one dies in the middle of a call, the other one resumes."""
    if os.geteuid() != 0 or subprocess.run(["ip", "-V"], capture_output=True, check=False).returncode:
        pytest.skip("network namespaces need root and ip")
    with TwoHosts(postgres_server) as (url, first, second):
        begun = _on_host(first, url, "begin")
        assert begun.returncode == -9
        until = time.monotonic() + 120
        while True:
            resumed = _on_host(second, url, "resume")
            if resumed.returncode == 0 or time.monotonic() > until:
                break
            time.sleep(0.3)
        assert resumed.stdout.startswith("True ['user'"), resumed.stderr
        with holdfast.open(url) as hf:
            assert [e.data["content"] for e in hf.events("trip", types=["user"])] == ["plan a trip", "go on"]


def _on_host(name, url, what):
    return subprocess.run(
        [
            *("ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c"),
            f'hostname {name}; exec "$0" -c "$1" "$2" "$3"',
            *(sys.executable, AGENT_HOST, url, what),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


class TwoHosts:
    """Two namespaces on a bridge of their own, from which the server can be reached."""

    def __init__(self, server):
        self._server = server
        self._tag = uuid4().hex[:6]

    def __enter__(self):
        tag = self._tag
        self._names = [f"hf{tag}{n}" for n in (1, 2)]
        net = f"10.213.{int(tag[:2], 16)}"  # hardly that of another run at the same time
        try:
            _ip("link", "add", f"br{tag}", "type", "bridge")
        except subprocess.CalledProcessError as error:
            pytest.skip("no network namespaces here: " + error.stderr.decode().strip())
        _ip("addr", "add", f"{net}.1/24", "dev", f"br{tag}")
        _ip("link", "set", f"br{tag}", "up")
        for number, name in enumerate(self._names, 2):
            _ip("netns", "add", name)
            _ip("link", "add", f"v{number}{tag}", "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", f"v{number}{tag}", "master", f"br{tag}", "up")
            _ip("-n", name, "addr", "add", f"{net}.{number}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        self._relay = _Relay(f"{net}.1", self._server.port)
        url = f"postgresql://holdfast@{net}.1:{self._relay.port}/postgres?schema=t{tag}"
        return (url, *self._names)

    def __exit__(self, *_):
        self._relay.close()
        for name in self._names:
            _ip("netns", "del", name)
        _ip("link", "del", f"br{self._tag}")


def _ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class _Relay:
    """The server listens on loopback; this passes on what reaches the bridge."""

    def __init__(self, address, port):
        import socket

        self._listener = socket.create_server((address, 0))
        self.port = self._listener.getsockname()[1]
        self._proxy = _proxy(port)
        self._proxy._listener.close()
        self._proxy._listener = self._listener
        threading.Thread(target=self._proxy._accept, daemon=True).start()

    def close(self):
        self._proxy.close()
