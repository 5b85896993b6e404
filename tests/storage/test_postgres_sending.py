"""How a PostgreSQL store sends: on the link's own thread, whatever becomes of that."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast.errors import Fenced, Unavailable
from holdfast.storage.postgres import sender
from holdfast.storage.postgres.store import PostgresStore
from holdfast.storage.postgres.tables import MIGRATIONS

KEY = "sessions/a"


@pytest.fixture
def store(postgres_url):
    """A store that works, and is closed in the end."""
    made = PostgresStore(postgres_url)
    yield made
    made.close()


def _log(store, key=KEY):
    """A log with one line, and the epoch of its writer."""
    epoch = store.lease(key).acquire("me", 60_000)
    log = store.log(key)
    log.append(b"one\n", 0, 1, epoch)
    log.sync()
    return log, epoch


def test_a_link_closed_while_sending_leaves_nobody_waiting(store, monkeypatch):
    """What was under way is unknown and said to be; what waited behind it is stored."""
    (first, epoch), (second, other) = _log(store), _log(store, "sessions/b")
    begun, send = threading.Event(), store._sender._send

    async def held(packets):
        if not begun.is_set():
            begun.set()
            await asyncio.sleep(60)
        return await send(packets)

    monkeypatch.setattr(store._sender, "_send", held)
    first.append(b"two\n", 1, 1, epoch)
    assert begun.wait(120)
    second.append(b"two\n", 1, 1, other)
    store.link.close()
    with pytest.raises(Unavailable, match="closed meanwhile") as caught:
        first.sync()
    assert caught.value.fields["outcome"] == "unknown"
    assert first.unsaved() == b"two\n"
    second.sync()
    assert b"".join(second.read()) == b"one\ntwo\n"
    assert store._sender._bytes == 0


def test_where_no_thread_can_start_a_flush_ends_with_an_error(store, monkeypatch):
    """When the interpreter is about to end nobody waits for a thread that never comes."""
    log, epoch = _log(store)
    store.link.close()

    def refuse(_thread):
        raise RuntimeError("can't start new thread at interpreter shutdown")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        log.append(b"two\n", 1, 1, epoch)
        with pytest.raises(Unavailable, match="no thread"):
            log.sync()
    assert log.unsaved() == b"two\n"


async def _raise(_packets):
    raise KeyError("x")


async def _too_few(_packets):
    return []


@pytest.mark.parametrize("wrong", [_raise, _too_few])
def test_a_mistake_while_sending_reaches_those_who_wait(store, monkeypatch, wrong):
    """The log is told that its outcome is unknown, and the next one is served."""
    log, epoch = _log(store)
    with monkeypatch.context() as patched:
        patched.setattr(store._sender, "_send", wrong)
        log.append(b"two\n", 1, 1, epoch)
        with pytest.raises(Unavailable, match="sending failed"):
            log.sync()
    assert b"".join(_log(store, "sessions/b")[0].read()) == b"one\n"


def _compressions(store):
    """How the columns of bytes are compressed, in all parts of the tables."""
    rows = store.link.fetch(
        "SELECT DISTINCT attcompression::text AS how FROM pg_attribute"
        " JOIN pg_class c ON c.oid = attrelid"
        " WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')"
        " AND c.relname ~ '^(pieces|documents)' AND attname = 'data'"
    )
    return {row["how"] for row in rows}


def _kept_before(postgres_url, monkeypatch):
    """A store whose tables are of the second version, with a long line and a document in it."""
    with monkeypatch.context() as patched:
        patched.setattr(MIGRATIONS, "steps", MIGRATIONS.steps[:2])
        old = PostgresStore(postgres_url)
        log, epoch = _log(old)
        log.append(b"old " * 20_000 + b"\n", 1, 1, epoch)
        log.sync()
        old.documents(KEY).put("note", b"note " * 20_000)
        old.close()
    return epoch


def test_tables_of_an_older_version_keep_what_is_in_them(store, postgres_url, monkeypatch):
    """Old rows stay readable, and new ones are put beside them."""
    epoch = _kept_before(postgres_url, monkeypatch)
    log = store.log(KEY)
    log.append(b"new " * 20_000 + b"\n", 2, 1, epoch)
    log.sync()
    expected = b"one\n" + b"old " * 20_000 + b"\n" + b"new " * 20_000 + b"\n"
    assert b"".join(log.read()) == expected
    assert b"".join(log.read(40_000)) == expected[40_000:]
    assert store.documents(KEY).get("note")[0] == b"note " * 20_000
    (built,) = store.link.fetch(
        "SELECT 'lz4' = ANY (enumvals) AS has FROM pg_settings WHERE name = 'default_toast_compression'"
    )
    assert _compressions(store) == ({"l"} if built["has"] else {""})


def test_a_server_without_the_better_compression_is_good_enough(store, postgres_url, monkeypatch):
    """The tables come up to date all the same."""
    epoch = _kept_before(postgres_url, monkeypatch)
    lacking = MIGRATIONS.steps[2].replace(
        "EXECUTE format(", "RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = ("
    )
    assert lacking != MIGRATIONS.steps[2]
    changed = (*MIGRATIONS.steps[:2], lacking, *MIGRATIONS.steps[3:])
    monkeypatch.setattr(MIGRATIONS, "steps", changed)
    log = store.log(KEY)
    log.append(b"new\n", 2, 1, epoch)
    log.sync()
    assert _compressions(store) == {""}
    assert store.link.fetch("SELECT version FROM migrations")[0]["version"] == len(changed)


@pytest.mark.unmeasured
def test_a_batch_of_very_many_logs_is_stored_whole(store):
    """Each line is where it belongs, whatever the order of the logs on the server."""

    async def make(connection):
        await connection.execute(
            "INSERT INTO names SELECT 'sessions/' || n, 'sessions/', 'sessions/' || n,"
            " gen_random_uuid() FROM generate_series(1, 300) n"
        )
        await connection.execute("INSERT INTO heads (id) SELECT id FROM names")

    store.link.run(make)
    logs = [store.log(f"sessions/{number}") for number in range(1, 301)]
    for log in logs:
        log.append(b"line of %b\n" % log.key.encode(), 0, 1, 0)
    store.sync({log.key: log for log in logs}).result(120)
    for log in logs[::50]:
        assert b"".join(log.read()) == b"line of %b\n" % log.key.encode()
    sizes = store.link.fetch(
        "SELECT count(*) AS n FROM pieces p JOIN names n USING (id)"
        " WHERE convert_from(p.data, 'UTF8') = 'line of ' || n.key || E'\\n'"
    )
    assert sizes[0]["n"] == 300


@pytest.mark.parametrize("how", ["drop", "move"])
def test_a_key_that_went_and_came_back_is_written_at_its_new_place(store, how):
    """The id that is remembered of a log is out of date then, and nobody is fenced for it."""
    log, epoch = _log(store)
    log.append(b"two\n", 1, 1, epoch)
    log.sync()
    store.link.run(lambda connection: connection.execute("UPDATE heads SET holder = NULL"))
    store.drop(KEY) if how == "drop" else store.move(KEY, "sessions/b")
    again, _ = _log(store)
    assert b"".join(again.read()) == b"one\n"
    log.append(b"late\n", 2, 1, epoch)
    with pytest.raises(Fenced):
        log.sync()
    assert b"".join(store.log(KEY).read()) == b"one\n"
    if how == "move":
        assert b"".join(store.log("sessions/b").read()) == b"one\ntwo\n"


def test_ids_that_are_remembered_do_not_grow_for_ever(store, monkeypatch):
    """After so many logs they are forgotten, and learnt again."""
    monkeypatch.setattr(sender, "_KNOWN_MAX", 1)
    for key in ("sessions/a", "sessions/b", "sessions/c"):
        log, epoch = _log(store, key)
        log.append(b"two\n", 1, 1, epoch)
        log.sync()
        assert b"".join(log.read()) == b"one\ntwo\n"
    assert len(store._sender._send.keywords["known"]) == 1


def test_one_log_is_sent_without_looking_for_its_name_again(store, monkeypatch):
    """From its second batch on: one statement that touches one partition."""
    log, epoch = _log(store)
    monkeypatch.setattr(sender, "_APPEND", "SELECT 1/0")
    for number, line in enumerate((b"two\n", b"three\n"), 1):
        log.append(line, number, 1, epoch)
        log.sync()
    assert b"".join(log.read()) == b"one\ntwo\nthree\n"
