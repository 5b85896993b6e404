"""One SQLite file that several processes make at the same moment."""

from __future__ import annotations

import sqlite3
import threading

import pytest

from holdfast.errors import Forbidden
from holdfast.storage import Disk
from holdfast.storage.sqlite.connection import connect_file, use_wal
from holdfast.storage.sqlite.database import SharedDatabase


class OvertakenDisk(Disk):
    """A disk on which another process makes the file between the look and the making."""

    def __init__(self, overtake):
        self._overtake = overtake

    def open_new(self, name, parent):
        self._overtake()
        return super().open_new(name, parent)


def made(path, overtake):
    """The rows of a database whose file appears while it is made."""
    database = SharedDatabase(str(path), ("CREATE TABLE t (x INTEGER)",), disk=OvertakenDisk(overtake))
    try:
        return database.write(lambda rows: rows.execute("INSERT INTO t VALUES (1)").rowcount)
    finally:
        database.close()


def test_a_file_that_another_process_made_meanwhile_is_used(tmp_path):
    """Who comes second writes into the file of the first."""
    path = tmp_path / "sessions.db"
    assert made(path, path.touch) == 1
    with sqlite3.connect(path) as found:
        assert found.execute("SELECT x FROM t").fetchall() == [(1,)]
    found.close()


def test_what_was_put_there_meanwhile_is_looked_at(tmp_path):
    """A symlink is refused also if it came between the look and the making."""
    path = tmp_path / "sessions.db"
    with pytest.raises(Forbidden, match="not a plain file"):
        made(path, lambda: path.symlink_to(tmp_path / "elsewhere"))


def test_the_log_of_a_file_waits_for_another_maker(tmp_path):
    """SQLite refuses at once to change the mode of a file that is written; it is asked again."""
    path = str(tmp_path / "sessions.db")
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    connection = connect_file(path)
    ending = threading.Timer(0.05, lambda: other.execute("COMMIT"))
    ending.start()
    use_wal(connection, path)
    assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    ending.join()
    connection.close()
    other.close()
