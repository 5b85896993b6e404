"""A PostgreSQL store of an earlier version comes up to date, and heads are moved in their place."""

from __future__ import annotations

import threading
import time
from importlib.resources import files

import pytest

from holdfast.errors import HoldfastError, TooNew
from holdfast.storage.postgres.store import PostgresStore
from holdfast.storage.postgres.tables import CHANGES_TOGETHER_BITS, MIGRATIONS

_WAIT_S = 120
_BEFORE = MIGRATIONS.steps[:3]
_A = "sessions/a"
_HEADS_BEFORE = """
DROP INDEX heads_by_change;
ALTER TABLE heads DROP COLUMN changed;
CREATE INDEX heads_by_version ON heads (version);
"""
_NO_ROOM = "".join(f"ALTER TABLE heads_{number} RESET (fillfactor);" for number in range(16))
_FORM = """
SELECT c.relname, a.attname, a.attgenerated::text AS made, c.reloptions::text AS options,
    pg_get_expr(d.adbin, d.adrelid) AS expression, i.indexdef
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
LEFT JOIN pg_indexes i ON i.schemaname = current_schema() AND i.indexname = c.relname
WHERE c.relnamespace = current_schema()::regnamespace AND c.relname ~ '^heads'
    AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY c.relname, a.attname
"""


@pytest.fixture
def earlier(postgres_url, monkeypatch):
    """What was in a store of the third version: the keys, the writer of one, and a mark of then."""
    with monkeypatch.context() as patched:
        patched.setattr(MIGRATIONS, "steps", _BEFORE)
        store = PostgresStore(postgres_url)
        store.check()
        store.link.run(lambda connection: connection.execute(_HEADS_BEFORE + _NO_ROOM))
        for name in ("a", "b", "c"):
            lease = store.lease(f"sessions/{name}")
            epoch = lease.acquire("me", 600_000)
            log = store.log(f"sessions/{name}")
            log.append(b"one\n", 0, 1, epoch)
            log.sync()
            store.documents(f"sessions/{name}").put("note", b"kept")
            if name != "a":
                lease.release()
        epoch = store.link.fetch("SELECT epoch FROM heads JOIN names USING (id) WHERE key = $1", _A)
        _wait_for_quiet(store)
        mark = store.changes("").mark
        entries = sorted(store.entries())
        store.close()
    return entries, epoch[0]["epoch"], mark


def _wait_for_quiet(store):
    """Until no transaction goes on that began before the last change: a mark is of now then."""
    question = "SELECT 1 FROM heads WHERE version >= pg_snapshot_xmin(pg_current_snapshot())"
    until = time.monotonic() + _WAIT_S
    while store.link.fetch(question):
        assert time.monotonic() < until, "some transaction does not end"
        time.sleep(0.01)


def test_an_earlier_store_keeps_everything_and_its_marks(earlier, postgres_url):
    """Entries are the same, a writer goes on, and an old mark finds what changed since."""
    entries, epoch, mark = earlier
    store = PostgresStore(postgres_url)
    try:
        assert sorted(store.entries()) == entries
        assert store.changes(mark).keys == frozenset()
        log = store.log(_A)
        log.append(b"two\n", 1, 1, epoch)
        log.sync()
        assert b"".join(log.read()) == b"one\ntwo\n"
        assert store.documents("sessions/b").get("note")[0] == b"kept"
        store.drop("sessions/c")
        found = store.changes(mark)
        assert found.keys == {_A, "sessions/c"}
        assert not found.listed
    finally:
        store.close()


def test_an_earlier_store_has_the_form_of_a_new_one(earlier, postgres_url):
    """Columns, indexes and room of the heads are those that are made today."""
    schema = postgres_url.rpartition("=")[2]
    forms = []
    for url in (postgres_url, postgres_url + "_new"):
        store = PostgresStore(url)
        rows = store.link.fetch(_FORM)
        forms.append([str(tuple(row)).replace(schema + "_new", schema) for row in rows])
        store.close()
    assert forms[0] == forms[1]
    assert any("fillfactor" in row for row in forms[0])


def test_what_an_earlier_program_still_writes_is_found_by_its_change(earlier, postgres_url):
    """One that was open before the tables changed moves heads as it always did."""
    _, _, mark = earlier
    store = PostgresStore(postgres_url)
    try:
        store.check()
        moved = "UPDATE heads h SET size = h.size, version = pg_current_xact_id()"
        moved += " FROM names n WHERE n.id = h.id AND n.key = 'sessions/b'"
        store.link.run(lambda connection: connection.execute(moved))
        assert store.changes(mark).keys == {"sessions/b"}
    finally:
        store.close()


def test_an_earlier_program_writes_on_while_the_tables_change(earlier, postgres_url, monkeypatch):
    """One that appends all along loses and doubles nothing, and one that starts later is told TooNew."""
    _, epoch, _ = earlier
    with monkeypatch.context() as patched:
        patched.setattr(MIGRATIONS, "steps", _BEFORE)
        old = PostgresStore(postgres_url)
        old.check()
    written, errors, stop = [b"one\n"], [], threading.Event()

    def write():
        log = old.log(_A)
        try:
            while not stop.is_set():
                line = b"%d\n" % len(written)
                log.append(line, len(written), 1, epoch)
                log.sync()
                written.append(line)
        except HoldfastError as error:
            errors.append(error)

    def go_on():
        least, until = len(written) + 5, time.monotonic() + _WAIT_S
        while len(written) < least and not errors:
            assert time.monotonic() < until, "it does not go on"
            time.sleep(0.01)

    thread = threading.Thread(target=write)
    thread.start()
    go_on()
    new = PostgresStore(postgres_url)
    new.check()
    go_on()
    stop.set()
    thread.join()
    assert errors == []
    assert b"".join(new.log(_A).read()) == b"".join(written)
    monkeypatch.setattr(MIGRATIONS, "steps", _BEFORE)
    later = PostgresStore(postgres_url)
    with pytest.raises(TooNew):
        later.check()
    for store in (later, new, old):
        store.close()


def test_of_many_that_open_an_earlier_store_one_changes_it(earlier, postgres_url):
    """All of them find it whole, and the step was made once."""
    entries, _, _ = earlier
    found, errors = [], []

    def start():
        store = PostgresStore(postgres_url)
        try:
            found.append(sorted(store.entries()))
        except HoldfastError as error:
            errors.append(error)
        finally:
            store.close()

    threads = [threading.Thread(target=start) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_WAIT_S)
    assert errors == []
    assert found == [entries] * 6


def test_an_earlier_program_says_that_the_tables_are_newer(postgres_url, monkeypatch):
    """It does not touch them, and says why."""
    store = PostgresStore(postgres_url)
    store.check()
    store.close()
    monkeypatch.setattr(MIGRATIONS, "steps", _BEFORE)
    older = PostgresStore(postgres_url)
    try:
        with pytest.raises(TooNew, match="made by a newer version"):
            older.check()
    finally:
        older.close()


def test_heads_are_moved_inside_their_page(postgres_url):
    """Most appends touch no index of the heads: what they leave is swept up at once."""
    store = PostgresStore(postgres_url)
    log, count = store.log(_A), 60
    epoch = store.lease(_A).acquire("me", 600_000)
    for number in range(count):
        log.append(b"line\n", number, 1, epoch)
        log.sync()
    store.close()  # what a connection counted is told at its end
    store = PostgresStore(postgres_url)
    try:
        until = time.monotonic() + _WAIT_S
        while (counts := _moved(store))[0] < count and time.monotonic() < until:
            time.sleep(0.05)
    finally:
        store.close()
    moved, in_place = counts
    assert moved >= count
    assert in_place > moved / 2


def _moved(store):
    (row,) = store.link.fetch(
        "SELECT sum(n_tup_upd) AS moved, sum(n_tup_hot_upd) AS in_place"
        " FROM pg_stat_user_tables WHERE schemaname = current_schema() AND relname ~ '^heads'"
    )
    return int(row["moved"] or 0), int(row["in_place"] or 0)


@pytest.mark.parametrize("seen", ["9" * 19, "0", "9" * 20, "x"])
def test_marks_that_nobody_gave(postgres_url, seen):
    """A number too large for a change finds nothing or asks for all; it never fails."""
    store = PostgresStore(postgres_url)
    try:
        identity = store.changes("").mark.partition(":")[0]
        assert store.changes(f"{identity}:{seen}").keys in (None, frozenset())
    finally:
        store.close()


@pytest.mark.parametrize("package", ["holdfast.storage.postgres", "holdfast.catalog.postgres"])
def test_steps_are_numbered_without_a_gap(package):
    """The number in the name of a step is the version that it brings the tables to."""
    names = sorted(step.name for step in (files(package) / "migrations").iterdir())
    numbers = [int(name.partition("_")[0]) for name in names if name.endswith(".sql")]
    assert numbers == list(range(1, len(names) + 1))


def test_the_change_of_a_head_is_as_coarse_as_questions_take_it_for(postgres_url):
    """What the first step writes into the tables is what the store asks for."""
    store = PostgresStore(postgres_url)
    try:
        [row] = [row for row in store.link.fetch(_FORM) if row[:2] == ("heads", "changed")]
    finally:
        store.close()
    assert f">> {CHANGES_TOGETHER_BITS})" in row["expression"]
