"""PostgreSQL behind a pooler in transaction mode: nothing is relied on that outlives a transaction."""

from __future__ import annotations

import asyncio
import threading

import pytest

import holdfast
from holdfast.errors import Fenced, Locked
from holdfast.storage import open_store
from holdfast.storage.postgres.store import PostgresStore
from holdfast.testing import StoreContract

QUICK = {"autosave_ms": 0, "snapshot_ms": 0}


@pytest.mark.contract("C01-C78")
class TestContractBehindPooler(StoreContract):
    """Every numbered promise, by way of the pooler."""

    @pytest.fixture(autouse=True)
    def _place(self, pooled_url):
        self.url = pooled_url

    def make_store(self):
        return open_store(self.url)

    def reopen(self, store):
        return open_store(self.url)


@pytest.mark.parametrize("ignored", [False, True])
def test_a_pooler_is_found_out_and_a_server_is_not_taken_for_one(postgres_url, pooled_url, ignored, pooler):
    """By the start-up setting it refuses; where it was told to ignore those, by the number of the server's process."""
    if ignored:
        _tell(
            pooler,
            "SET ignore_startup_parameters = 'search_path,plan_cache_mode,jit,statement_timeout,"
            "idle_in_transaction_session_timeout'",
        )
    try:
        for url, pooled in ((postgres_url, False), (pooled_url, True)):
            store = PostgresStore(url)
            store.check()
            assert store.link.is_pooled is pooled
            store.close()
    finally:
        if ignored:
            _tell(pooler, "SET ignore_startup_parameters = ''")


def _tell(port, statement):
    """Say something to the pooler itself, as one who may."""
    import asyncpg

    async def work():
        connection = await asyncpg.connect(f"postgresql://holdfast@127.0.0.1:{port}/pgbouncer", statement_cache_size=0)
        await connection.execute(statement)
        await connection.close()

    asyncio.run(work())


def test_many_sessions_at_once_behind_a_pooler(pooled_url):
    """Eight stores over two connections of the server: each session is whole, and the catalogue finds all."""
    errors = []

    def work(number):
        try:
            with holdfast.open(pooled_url) as hf, hf.session(f"s{number}", **QUICK) as s:
                for turn in range(10):
                    s.user(f"{number} {turn}")
                    s.flush()
        except Exception as error:  # noqa: BLE001 - told by the test
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert errors == []
    with holdfast.open(pooled_url) as hf:
        for number in range(8):
            texts = [event.data["content"] for event in hf.events(f"s{number}", types=["user"])]
            assert texts == [f"{number} {turn}" for turn in range(10)]
            assert hf.verify(f"s{number}").ok
        assert len(list(hf.list())) == 8
        assert len(list(hf.search("7 9"))) >= 1


def test_a_follower_behind_a_pooler_looks_again(pooled_url):
    """Nobody calls it: it finds what was written all the same, and there is no line on which to be called."""
    with holdfast.open(pooled_url) as writing, holdfast.open(pooled_url) as reading, writing.session("s", **QUICK) as s:
        s.user("one")
        s.flush()
        followed = reading.follow("s")
        assert [next(followed).type for _ in range(3)][-1] == "user"
        s.user("two")
        s.flush()
        assert next(followed).data["content"] == "two"
        followed.close()
        assert reading.store.link._listener is None


def test_a_writer_behind_a_pooler_is_fenced(pooled_url):
    """The lease is a row and not a lock of a session: it holds over connections that change hands."""
    first, second = PostgresStore(pooled_url), PostgresStore(pooled_url)
    lease = first.lease("sessions/a")
    epoch = lease.acquire("first", 60_000)
    with pytest.raises(Locked):
        second.lease("sessions/a").acquire("second", 60_000)
    log = first.log("sessions/a")
    log.append(b"one\n", 0, 1, epoch)
    log.sync()
    first.link.fetch("UPDATE heads SET expires = clock_timestamp() - interval '1 hour' RETURNING id")
    second.lease("sessions/a").acquire("second", 60_000)
    log.append(b"two\n", 1, 1, epoch)
    with pytest.raises(Fenced):
        log.sync()
    assert b"".join(second.log("sessions/a").read()) == b"one\n"
    first.close()
    second.close()
