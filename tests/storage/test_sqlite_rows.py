"""Where the bytes of a log lie in a SQLite store."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from unittest.mock import patch

import pytest

from holdfast.errors import Damaged, Fenced, StoreFull
from holdfast.storage.sqlite import tables
from holdfast.storage.sqlite.store import SQLiteLease, SQLiteStore


def test_a_log_ends_where_the_next_key_begins(tmp_path):
    """64 GiB of a log are all: StoreFull, and what another key has stays what it is."""
    path = str(tmp_path / "sessions.db")
    with contextlib.closing(SQLiteStore(path)) as store:
        logs = {}
        for key in ("sessions/a", "sessions/b"):
            logs[key] = store.log(key), store.lease(key).acquire("me", 60_000)
            logs[key][0].append(b"first\n", 0, 1, logs[key][1])
        with contextlib.closing(sqlite3.connect(path)) as other, other:
            id = other.execute("SELECT id FROM keys WHERE key = 'sessions/a'").fetchone()[0]
            last = (id << 36) + (1 << 36) - 2 * len("first\n")
            other.execute("INSERT INTO pieces VALUES (?, ?, ?, 0)", (last, len("first\n"), b"other\n"))
        with pytest.raises(StoreFull, match="64 GiB"):
            store.log("sessions/a").append(b"second\n", 1, 1, logs["sessions/a"][1])
        assert b"".join(logs["sessions/b"][0].read()) == b"first\n"


def test_a_log_of_many_small_rows_is_read_in_few_pieces(tmp_path):
    """A reader has some work with each piece: a session of thousands of events opens in no time."""
    with contextlib.closing(SQLiteStore(str(tmp_path / "sessions.db"))) as store:
        log, epoch = store.log("sessions/a"), store.lease("sessions/a").acquire("me", 60_000)
        for number in range(500):
            log.append(b"%03d\n" % number, number, 1, epoch)
        pieces = list(log.read(2))
    assert b"".join(pieces) == b"".join(b"%03d\n" % number for number in range(500))[2:]
    assert len(pieces) < 10


def test_what_stands_before_a_damaged_row_is_read(tmp_path):
    """Rows are read together, and one that is torn hides none before it."""
    path = str(tmp_path / "sessions.db")
    with contextlib.closing(SQLiteStore(path)) as store:
        log, epoch = store.log("sessions/a"), store.lease("sessions/a").acquire("me", 60_000)
        for word in (b"first\n", b"second\n", b"third\n"):
            log.append(word, 0, 1, epoch)
        with contextlib.closing(sqlite3.connect(path)) as other, other:
            other.execute("UPDATE pieces SET data = x'00' WHERE data = ?", (b"third\n",))
        found = []
        with pytest.raises(Damaged):
            found.extend(log.read())
    assert found == [b"first\nsecond\n"]


@pytest.fixture
def store(tmp_path):
    """A store with one log that was begun just now."""
    with contextlib.closing(SQLiteStore(str(tmp_path / "sessions.db"))) as store:
        yield store


def begun(store):
    """A log with its first piece, and the epoch of its writer."""
    log, epoch = store.log("sessions/a"), store.lease("sessions/a").acquire("me", 60_000)
    log.append(b"first\n", 0, 1, epoch)
    return log, epoch


def row_of(store):
    """All that the store has noted of the log besides its pieces."""
    return store.database.read("SELECT * FROM keys WHERE key = 'sessions/a'")


@pytest.mark.parametrize("size", [7, 5_000, 20_000])
def test_an_append_soon_after_another_writes_its_piece_alone(store, size):
    """The row of the key is left as it was; size and content are those of all pieces."""
    with patch("holdfast.storage.sqlite.tables.NOTED_MS", 3_600_000):
        log, epoch = begun(store)
        before, line = row_of(store), b"x" * (size - 1) + b"\n"
        log.append(line, 1, 1, epoch)
        assert row_of(store) == before
    assert b"".join(log.read()) == b"first\n" + line
    assert log.size() == store.entry("sessions/a").size == 6 + size


def test_an_append_to_a_log_that_was_emptied_begins_it(store):
    """The first piece after a cut to nothing is at the beginning, also soon after the cut."""
    log, epoch = begun(store)
    log.cut(0, epoch)
    log.append(b"second\n", 0, 1, epoch)
    assert b"".join(log.read()) == b"second\n"


def test_a_log_is_listed_as_changed_for_appends_that_leave_its_row(store):
    """Whoever looked between two of them is told of the second."""
    with patch("holdfast.storage.sqlite.tables.NOTED_MS", 3_600_000):
        log, epoch = begun(store)
        mark, etag = store.changes("").mark, store.entry("sessions/a").etag
        log.append(b"second\n", 1, 1, epoch)
        assert store.changes(mark).keys == {"sessions/a"}
        assert store.entry("sessions/a").etag != etag


def test_a_log_that_rests_is_no_longer_listed(store):
    """Soon after its last append nobody looks at it again."""
    begun(store)
    time.sleep(3 * tables.NOTED_MS / 1000)
    mark = store.changes("").mark
    assert store.changes(mark).keys == frozenset()


@pytest.mark.parametrize("step_ms", [-86_400_000, -1_000, 1_000, 86_400_000])
def test_no_append_is_missed_when_the_clock_is_set(store, step_ms):
    """Set forward or back between two appends, with a look after it: the second one is listed."""
    log, epoch = begun(store)
    with contextlib.closing(sqlite3.connect(store.path)) as other, other:
        # As if the clock had shown another time at the first one.
        other.execute("UPDATE keys SET modified = modified - ?", (step_ms,))
    mark = store.changes("").mark
    log.append(b"second\n", 1, 1, epoch)
    assert store.changes(mark).keys == {"sessions/a"}


def test_a_writer_that_was_replaced_is_fenced_at_once(store):
    """Also within the time in which it need not change the row."""
    with patch("holdfast.storage.sqlite.tables.NOTED_MS", 3_600_000):
        log, epoch = begun(store)
        log.append(b"second\n", 1, 1, epoch)
        with patch("holdfast.storage.sqlite.tables.check_free"):  # its time ran out
            SQLiteLease(store.database, store.renewer, "sessions/a").acquire("heir", 60_000)
        with pytest.raises(Fenced):
            log.append(b"third\n", 2, 1, epoch)
    assert b"".join(log.read()) == b"first\nsecond\n"


def test_no_append_is_missed_that_had_to_wait_for_another_writer(store):
    """Whoever looked while it waited for its turn is told of it: its time is that of its turn."""
    log, epoch = begun(store)
    with contextlib.closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = threading.Thread(target=log.append, args=(b"second\n", 1, 1, epoch))
        waiting.start()
        time.sleep(4 * tables.NOTED_MS / 1000)
        mark = store.changes("").mark
        other.execute("COMMIT")
    waiting.join()
    assert store.changes(mark).keys == {"sessions/a"}
    assert b"".join(log.read()) == b"first\nsecond\n"
