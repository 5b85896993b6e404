"""Where the bytes of a log lie in a SQLite store."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest

from holdfast.errors import Damaged, StoreFull
from holdfast.storage.sqlite.store import SQLiteStore


def test_a_log_ends_where_the_next_key_begins(tmp_path):
    """64 GiB of a log are all: StoreFull, and what another key has stays what it is."""
    path = str(tmp_path / "sessions.db")
    with contextlib.closing(SQLiteStore(path)) as store:
        logs = {}
        for key in ("sessions/a", "sessions/b"):
            logs[key] = store.log(key), store.lease(key).acquire("me", 60_000)
            logs[key][0].append(b"first\n", 0, 1, logs[key][1])
        with contextlib.closing(sqlite3.connect(path)) as other, other:
            other.execute("UPDATE keys SET size = ? WHERE key = 'sessions/a'", ((1 << 36) - len("first\n"),))
        log, epoch = logs["sessions/a"]
        with pytest.raises(StoreFull, match="64 GiB"):
            log.append(b"second\n", 1, 1, epoch)
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
