"""Where the bytes of a log lie in a SQLite store."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest

from holdfast.errors import StoreFull
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
