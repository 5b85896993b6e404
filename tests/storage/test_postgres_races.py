"""PostgreSQL when several are at work at the same moment, and when an address is wrong."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from uuid import uuid4

import pytest

from holdfast.errors import Fenced, Forbidden, HoldfastError, Unavailable, UsageError
from holdfast.storage.postgres import tables
from holdfast.storage.postgres.store import PostgresStore


@pytest.fixture
def store(postgres_url):
    """A store in a schema of its own."""
    made = PostgresStore(postgres_url)
    yield made
    made.close()


KEY = "sessions/a"


def test_a_stale_packet_in_the_same_batch_as_the_new_writers_is_not_stored(store):
    """One batch with lines of both epochs: the old one is fenced, wherever its lines would lie."""
    from holdfast.storage._deferred import Packet

    old = _stolen(store)
    new = store.lease(KEY).acquire("new", 60_000)
    for start in (0, 4, 100):
        size = store.log(KEY).size()
        stale = Packet(KEY, old, start, b"stale\n")
        results = _sent(store, [stale, Packet(KEY, new, size, b"new\n")])
        assert [type(one) for one in results] == [Fenced, type(None)], start
    assert b"".join(store.log(KEY).read()) == b"new\n" * 3


def _sent(store, packets):
    """What became of a batch."""
    from holdfast.storage.postgres.sender import send

    return store.link._on_thread(lambda: send(store.link, packets))


def _stolen(store, key=KEY):
    """The epoch of a writer whose time ran out."""
    epoch = store.lease(key).acquire("old", 1)
    time.sleep(0.05)
    return epoch


def test_two_packets_for_the_same_place_are_stored_once(store):
    """Two objects of one log that took lines for one offset: one of them is told."""
    from holdfast.storage._deferred import Packet

    epoch = store.lease(KEY).acquire("me", 60_000)
    results = _sent(store, [Packet(KEY, epoch, 0, b"one\n"), Packet(KEY, epoch, 0, b"two\n")])
    assert sorted(str(type(one)) for one in results) == sorted([str(type(None)), str(Fenced)])
    assert b"".join(store.log(KEY).read()) in (b"one\n", b"two\n")


def test_a_late_writer_that_unpacks_an_archive_takes_nothing_from_its_successor(store):
    """Its look at the archived log is out of date: what was added since stays."""
    from holdfast.storage._deferred import Packet
    from holdfast.storage.postgres.sender import _outcome

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
    store.link.run(lambda connection: _outcome(Between(connection), packet))
    deadline = time.monotonic() + 120
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
        from holdfast.storage.postgres.store import move_key

        async with connection.transaction():
            await move_key(connection, KEY, "trash/a")
            thread.start()
            await asyncio.sleep(0.7)

    store.link.run(slowly)
    thread.join(120)
    other.close()
    assert results == [NotFound]
    assert b"".join(store.log("trash/a").read()) == b"one\n"


@pytest.mark.parametrize("dropped", [False, True])
def test_a_document_put_while_another_makes_its_key_is_not_lost(store, dropped):
    """Whoever comes second waits for the one that makes the key, and takes it as that one left it, or makes it."""
    store.check()
    putting = threading.Thread(target=lambda: store.documents("sessions/b").put("b", b"2"))
    named = "INSERT INTO names (key, folder, folded, id) VALUES ('sessions/b', 'sessions/', 'sessions/b', $1)"

    async def make(connection):
        id = uuid4()
        async with connection.transaction():
            await connection.execute(named, id)
            await connection.execute("INSERT INTO heads (id) VALUES ($1)", id)
            putting.start()
            while not await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
                await connection.execute("SELECT pg_sleep(0.01)")
            if dropped:
                await connection.execute("DELETE FROM names WHERE id = $1", id)
                await connection.execute("DELETE FROM heads WHERE id = $1", id)
        return id

    with contextlib.closing(PostgresStore(store.url)) as other:
        id = other.link.run(make)
    putting.join()
    assert store.documents("sessions/b").get("b")[0] == b"2"
    [row] = store.link.fetch("SELECT id FROM names JOIN heads USING (id) WHERE key = 'sessions/b'")
    assert (row["id"] == id) is not dropped


def _until_it_sleeps(url):
    """Return once the server is at the question that takes long."""
    asked = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(30)'"
    deadline = time.monotonic() + 120
    with contextlib.closing(PostgresStore(url)) as other:
        while not other.link.run(lambda connection: connection.fetchval(asked)):
            assert time.monotonic() < deadline
            time.sleep(0.05)


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
    _until_it_sleeps(store.url)
    store.close()
    thread.join(120)
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
    store.link.run(lambda connection: connection.execute("CREATE ROLE stranger LOGIN PASSWORD 'right'"))
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


def _rows_asked_for(log, lines, monkeypatch):
    """How many rows each question of a whole reading asked for; what was read is right."""
    counts = []
    real = log._link.fetch

    def fetch(query, *values):
        if query == tables.READ:
            counts.append(values[-1])
        return real(query, *values)

    monkeypatch.setattr(log._link, "fetch", fetch)
    assert b"".join(log.read()) == b"".join(lines)
    return counts


def test_a_long_log_of_large_pieces_is_read_a_few_at_a_time(store, monkeypatch):
    """Large pieces are not fetched by the hundred."""
    epoch = store.lease(KEY).acquire("me", 60_000)
    log = store.log(KEY)
    lines = [b"%d" % n + b"x" * (1 << 19) + b"\n" for n in range(12)]
    for number, line in enumerate(lines):
        log.append(line, number, 1, epoch)
        log.sync()
    counts = _rows_asked_for(log, lines, monkeypatch)
    assert max(counts) <= 4


def test_a_follower_hears_again_after_its_connection_broke(store, postgres_url):
    """The line on which the server says what changed is opened again when it was cut."""
    epoch = store.lease(KEY).acquire("me", 60_000)
    log = store.log(KEY)
    log.append(b"1\n", 0, 1, epoch)
    log.sync()
    with contextlib.closing(PostgresStore(postgres_url)) as reading:
        reading.wait(KEY, 0.01)
        store.link.run(
            lambda connection: connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE query LIKE 'LISTEN%' AND application_name = 'holdfast'"
            )
        )
        deadline = time.monotonic() + 120
        while not reading.link._listener.is_closed() and time.monotonic() < deadline:
            time.sleep(0.05)
        reading.wait(KEY, 0.01)
        assert not reading.link._listener.is_closed()
        heard = threading.Event()
        thread = threading.Thread(target=lambda: (reading.wait(KEY, 60), heard.set()))
        thread.start()
        for number in range(1, 100):
            log.append(b"more\n", number, 1, epoch)
            log.sync()
            if heard.wait(0.2):
                break
        thread.join(70)
        assert heard.is_set()


def test_a_log_replaced_by_the_same_bytes_is_another_generation(store):
    """Followers begin again, and the old bytes are set aside, whatever the new ones are."""
    epoch = store.lease(KEY).acquire("me", 60_000)
    log = store.log(KEY)
    marks = []
    for _ in range(3):
        log.replace([b"1\n"], epoch)
        marks.append(log.generation())
    assert len(set(marks)) == 3
    assert len(store.documents(KEY).names("quarantine/")) == 2


def test_followers_hear_of_a_store_that_was_closed_before_it_had_spoken(store, postgres_url, monkeypatch):
    """What a close kept from being said does not silence what is written after it."""
    from holdfast.storage.postgres import link

    epoch = store.lease(KEY).acquire("me", 60_000)
    log = store.log(KEY)
    with monkeypatch.context() as patched:
        patched.setattr(link, "_SAY_AFTER_S", 60)
        log.append(b"1\n", 0, 1, epoch)
        log.sync()
        store.close()
    with contextlib.closing(PostgresStore(postgres_url)) as reading:
        reading.wait(KEY, 0.01)
        ear = next(iter(reading._ears.values()))[1]
        log.append(b"2\n", 1, 1, epoch)
        log.sync()
        assert ear.wait(120)


def test_following_many_keys_keeps_no_ear_for_each_for_ever(store, monkeypatch):
    """Whoever followed many sessions, one after the other, listens for the last ones only."""
    from holdfast.storage.postgres import store as postgres

    monkeypatch.setattr(postgres, "_EARS_MAX", 3)
    for number in range(6):
        key = f"sessions/n{number}"
        store.documents(key).put("x", b"x")
        store.wait(key, 0.01)
    assert len(store._ears) == 3
    assert len(store.link._changed) == 3


def test_a_short_log_of_many_pieces_is_read_with_one_question(store, monkeypatch):
    """Who reads many sessions waits for few answers of the server."""
    epoch = store.lease(KEY).acquire("me", 60_000)
    log = store.log(KEY)
    lines = [b"%d\n" % number for number in range(30)]
    for number, line in enumerate(lines):
        log.append(line, number, 1, epoch)
        log.sync()
    counts = _rows_asked_for(log, lines, monkeypatch)
    assert len(counts) == 1


def test_threads_that_begin_to_listen_at_once_share_one_connection(store, monkeypatch):
    """However many wait, the store has one line for them, and closes whatever it opened."""
    import asyncpg

    made, asked, all_asked = [], [], threading.Event()
    connect = asyncpg.connect

    async def noted(*args, **options):
        await asyncio.to_thread(all_asked.wait)
        made.append(await connect(*args, **options))
        return made[-1]

    monkeypatch.setattr(asyncpg, "connect", noted)

    def listen(name):
        asked.append(name)
        if len(asked) == 6:
            all_asked.set()
        store.link.listen(name)

    threads = [threading.Thread(target=listen, args=(name,)) for name in "abcdef"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([one for one in made if one._listeners]) == 1
    store.close()
    assert [one for one in made if not one.is_closed()] == []
