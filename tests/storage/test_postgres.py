"""PostgreSQL when things break: connections, the server, its disk; and hosts that come and go."""

from __future__ import annotations

import asyncio
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
from holdfast.errors import (
    Fenced,
    Forbidden,
    HoldfastError,
    StoreError,
    StoreFull,
    Unavailable,
    UsageError,
)
from holdfast.storage.postgres import PostgresStore

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

    with holdfast.open(postgres_url) as hf:
        threads = [threading.Thread(target=work, args=(hf, id)) for id in acknowledged]
        for thread in threads:
            thread.start()
        for _ in range(2):
            time.sleep(0.7)
            postgres_server.kill()
            time.sleep(0.3)
            postgres_server.start()
        before = sum(map(len, acknowledged.values()))
        time.sleep(1.5)
        stop.set()
        for thread in threads:
            thread.join(60)
    assert errors == []
    assert sum(map(len, acknowledged.values())) > before, "work did not go on"
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
            ["mount", "-t", "tmpfs", "-o", "size=90m,mode=0777", "tmpfs", place],
            capture_output=True,
            check=False,
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
    time.sleep(0.5)
    if server.process.poll() is not None:  # a full disk for its own log ends the server
        server.start()
    with holdfast.open(url) as again:
        with again.session("s", **QUICK) as s:
            s.user("goes on")
        texts = [event.data["content"] for event in again.events("s", types=["user"])]
        assert again.verify("s").ok
    assert texts[0] == "first"
    assert texts[-1] == "goes on"
    assert [int(text.partition(" ")[0]) for text in texts[1:-1]][
        : len(acknowledged)
    ] == acknowledged


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
        thread.join(60)
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
    ("change", "error"),
    [
        ("?schema=a;drop", UsageError),
        ("?connections=0", UsageError),
        ("?retry_s=soon", UsageError),
    ],
)
def test_wrong_options_of_an_address(postgres_server, change, error):
    """A wrong option is told before anything is reached."""
    with pytest.raises(error):
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
    if (
        os.geteuid() != 0
        or subprocess.run(["ip", "-V"], capture_output=True, check=False).returncode
    ):
        pytest.skip("network namespaces need root and ip")
    with TwoHosts(postgres_server) as (url, first, second):
        begun = _on_host(first, url, "begin")
        assert begun.returncode == -9
        until = time.monotonic() + 30
        while True:
            resumed = _on_host(second, url, "resume")
            if resumed.returncode == 0 or time.monotonic() > until:
                break
            time.sleep(0.3)
        assert resumed.stdout.startswith("True ['user'"), resumed.stderr
        with holdfast.open(url) as hf:
            assert [e.data["content"] for e in hf.events("trip", types=["user"])] == [
                "plan a trip",
                "go on",
            ]


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
        timeout=60,
    )


class TwoHosts:
    """Two namespaces on a bridge of their own, from which the server can be reached."""

    def __init__(self, server):
        self._server = server
        self._tag = uuid4().hex[:6]

    def __enter__(self):
        tag = self._tag
        self._names = [f"hf{tag}{n}" for n in (1, 2)]
        try:
            _ip("link", "add", f"br{tag}", "type", "bridge")
        except subprocess.CalledProcessError as error:
            pytest.skip("no network namespaces here: " + error.stderr.decode().strip())
        _ip("addr", "add", "10.213.77.1/24", "dev", f"br{tag}")
        _ip("link", "set", f"br{tag}", "up")
        for number, name in enumerate(self._names, 2):
            _ip("netns", "add", name)
            _ip(
                "link",
                "add",
                f"v{number}{tag}",
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                name,
            )
            _ip("link", "set", f"v{number}{tag}", "master", f"br{tag}", "up")
            _ip("-n", name, "addr", "add", f"10.213.77.{number}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        self._relay = _Relay("10.213.77.1", self._server.port)
        url = f"postgresql://holdfast@10.213.77.1:{self._relay.port}/postgres?schema=t{tag}"
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


@pytest.fixture
def store(postgres_url):
    """A store in a schema of its own."""
    made = PostgresStore(postgres_url)
    yield made
    made.close()


KEY = "sessions/a"


def test_a_stale_packet_in_the_same_batch_as_the_new_writers_is_not_stored(store):
    """One batch with lines of both epochs: the old one is fenced, wherever its lines would lie."""
    from holdfast.storage._postgres_parts import send
    from holdfast.storage._sending import Packet

    old = _stolen(store)
    new = store.lease(KEY).acquire("new", 60_000)
    for start in (0, 4, 100):
        size = store.log(KEY).size()
        stale = Packet(KEY, old, start, b"stale\n")
        results = send(store.link, [stale, Packet(KEY, new, size, b"new\n")])
        assert [type(one) for one in results] == [Fenced, type(None)], start
    assert b"".join(store.log(KEY).read()) == b"new\n" * 3


def _stolen(store, key=KEY):
    """The epoch of a writer whose time ran out."""
    epoch = store.lease(key).acquire("old", 1)
    time.sleep(0.05)
    return epoch


def test_two_packets_for_the_same_place_are_stored_once(store):
    """Two objects of one log that took lines for one offset: one of them is told."""
    from holdfast.storage._postgres_parts import send
    from holdfast.storage._sending import Packet

    epoch = store.lease(KEY).acquire("me", 60_000)
    results = send(store.link, [Packet(KEY, epoch, 0, b"one\n"), Packet(KEY, epoch, 0, b"two\n")])
    assert sorted(str(type(one)) for one in results) == sorted([str(type(None)), str(Fenced)])
    assert b"".join(store.log(KEY).read()) in (b"one\n", b"two\n")


def test_a_late_writer_that_unpacks_an_archive_takes_nothing_from_its_successor(store):
    """Its look at the archived log is out of date: what was added since stays."""
    from holdfast.storage import _postgres_parts as parts
    from holdfast.storage._sending import Packet

    epoch = store.lease(KEY).acquire("me", 1)
    log = store.log(KEY)
    log.append(b"one\n", 0, 1, epoch)
    log.sync()
    time.sleep(0.05)
    store.archive(KEY)
    new = []

    class Between:
        """A connection beside which another writer is quick, just before anything is unpacked."""

        def __init__(self, connection):
            self._connection = connection

        def __getattr__(self, name):
            return getattr(self._connection, name)

        async def fetch(self, query, *values):
            if "packed" in query and "FROM pieces" in query and not new:
                new.append(1)
                task = asyncio.get_running_loop().run_in_executor(None, succeed)
                await asyncio.wait([task], timeout=1)
            return await self._connection.fetch(query, *values)

    other = PostgresStore(store.url)

    def succeed():
        lease = other.lease(KEY)
        later = lease.acquire("new", 60_000)
        mine = other.log(KEY)
        mine.append(b"two\n", 1, 1, later)
        mine.sync()

    packet = Packet(KEY, epoch, 4, b"late\n")
    store.link.run(lambda connection: parts._outcome(Between(connection), packet))
    deadline = time.monotonic() + 20
    while b"two" not in b"".join(other.log(KEY).read()) and time.monotonic() < deadline:
        time.sleep(0.1)
    other.close()
    assert b"".join(store.log(KEY).read()) in (b"one\ntwo\n", b"one\nlate\ntwo\n")
    assert b"".join(store.log(KEY).read()).endswith(b"two\n")


@pytest.mark.parametrize("how", ["drop", "move"])
def test_the_writer_of_a_key_that_went_is_not_taken_for_that_of_a_new_one(store, how):
    """A key made anew under the same name has higher epochs than the one before it."""
    store.documents(KEY).put("x", b"x")
    old = _stolen(store)
    log = store.log(KEY)
    assert log.size() == 0
    store.drop(KEY) if how == "drop" else store.move(KEY, "trash/a")
    new = store.lease(KEY).acquire("new", 60_000)
    assert new > old
    log.append(b"stale\n", 0, 1, old)
    with pytest.raises(Fenced):
        log.sync()
    assert store.log(KEY).size() == 0


def test_a_drop_that_waited_for_a_move_removes_nothing(store, postgres_url):
    """Whoever waits for a key that is being moved away finds that it is not there any more."""
    from holdfast.errors import NotFound

    epoch = store.lease(KEY).acquire("me", 1)
    log = store.log(KEY)
    log.append(b"one\n", 0, 1, epoch)
    log.sync()
    time.sleep(0.05)
    other = PostgresStore(postgres_url)
    other.check()
    results = []

    def drop():
        try:
            other.drop(KEY)
        except HoldfastError as error:
            results.append(type(error))

    thread = threading.Thread(target=drop)

    async def slowly(connection):
        from holdfast.storage import postgres

        async with connection.transaction():
            await postgres._move(connection, KEY, "trash/a")
            thread.start()
            await asyncio.sleep(0.7)

    store.link.run(slowly)
    thread.join(20)
    other.close()
    assert results == [NotFound]
    assert b"".join(store.log("trash/a").read()) == b"one\n"


def test_a_document_put_while_its_key_goes_is_not_lost(store):
    """A put that finds the key dropped makes it anew."""
    store.documents(KEY).put("a", b"1")
    dropped = []

    async def made(connection, key):
        id = await real(connection, key)
        if not dropped:
            dropped.append(await connection.execute("DELETE FROM heads WHERE id = $1", id))
            await connection.execute("DELETE FROM names WHERE id = $1", id)
        return id

    from holdfast.storage import _postgres_parts as parts

    real = parts.made
    parts.made = made
    try:
        store.documents("sessions/b").put("b", b"2")
    finally:
        parts.made = real
    assert dropped
    assert store.documents("sessions/b").get("b")[0] == b"2"


def test_closing_lets_go_of_whoever_still_waits(store):
    """A thread in the middle of a question gets an error, and is not left waiting for ever."""
    caught = []

    def ask():
        try:
            store.link.run(lambda connection: connection.execute("SELECT pg_sleep(30)"))
        except HoldfastError as error:
            caught.append(error)

    store.check()
    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.3)
    store.close()
    thread.join(20)
    assert not thread.is_alive()
    assert isinstance(caught[0], Unavailable)
    store.check()  # and it can be used again


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("postgresql://me:pa55/word@127.0.0.1/db", UsageError),
        ("postgresql://me:pa55word@127.0.0.1:1/db?sslmode=never", UsageError),
        ("postgresql://me:pa55word@no.such.host.invalid/db", Unavailable),
        ("postgresql://me:pa55word@127.0.0.1:1/db", Unavailable),
    ],
)
def test_a_wrong_address_is_told_soon_and_without_its_password(url, error):
    """Whoever mistyped an address hears of it before long, and the password is in no message."""
    # With this much patience for a server that is known, only a bound for strangers ends it.
    url += "&retry_s=3000" if "?" in url else "?retry_s=3000"
    with pytest.raises(error) as caught, contextlib.closing(PostgresStore(url)) as store:
        store.check()
    assert "pa55" not in f"{caught.value!r} {caught.value.fields} {caught.value.remedy}"


def test_a_wrong_password_is_told_at_once(postgres_server):
    """Forbidden, not tried again, and without the password."""
    store = PostgresStore(postgres_server.url)
    store.link.run(
        lambda connection: connection.execute("CREATE ROLE stranger LOGIN PASSWORD 'right'")
    )
    config = postgres_server.data / "pg_hba.conf"
    before = config.read_text()
    config.write_text("host all stranger 127.0.0.1/32 scram-sha-256\n" + before)
    try:
        reload = "SELECT pg_reload_conf()"
        store.link.run(lambda connection: connection.execute(reload))
        time.sleep(0.3)
        url = postgres_server.url.replace("holdfast@", "stranger:wr0ng@")
        other = PostgresStore(url)
        with pytest.raises(Forbidden) as caught:
            other.check()
        other.close()
        assert "wr0ng" not in repr(caught.value)
        url = postgres_server.url.replace("holdfast@", "stranger:right@")
        other = PostgresStore(f"{url}?schema=t{uuid4().hex}")
        with pytest.raises(Forbidden):  # no right to make a schema
            other.check()
        other.close()
    finally:
        config.write_text(before)
        store.link.run(lambda connection: connection.execute(reload))
        store.link.run(lambda connection: connection.execute("DROP ROLE stranger"))
        store.close()


def test_a_server_without_tls_is_told_when_it_is_required(postgres_server):
    """sslmode=require against a server that cannot: a clear error."""
    store = PostgresStore(f"{postgres_server.url}?sslmode=require&retry_s=1")
    with pytest.raises(Unavailable, match="SSL"):
        store.check()
    store.close()


def test_a_long_log_of_large_pieces_is_read_a_few_at_a_time(store, monkeypatch):
    """Large pieces are not fetched by the hundred."""
    epoch = store.lease(KEY).acquire("me", 60_000)
    log = store.log(KEY)
    lines = [b"%d" % n + b"x" * (1 << 19) + b"\n" for n in range(12)]
    for number, line in enumerate(lines):
        log.append(line, number, 1, epoch)
        log.sync()
    counts = []
    real = type(log)._rows
    monkeypatch.setattr(
        type(log),
        "_rows",
        lambda self, head, start, n: counts.append(n) or real(self, head, start, n),
    )
    assert b"".join(log.read()) == b"".join(lines)
    assert max(counts) <= 4
