"""The SQLite store: one file for many sessions and processes."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import warnings

import pytest

import holdfast
from holdfast.errors import Damaged, Fenced, Forbidden, StoreFull, SyncFailed, TooNew, UsageError
from holdfast.storage import Disk, open_store
from holdfast.storage.sqlite import database as _sqlite_shared
from holdfast.storage.sqlite.connection import connect, connect_file, connect_memory
from holdfast.storage.sqlite.database import SharedDatabase
from holdfast.storage.sqlite.store import SQLiteStore


@pytest.fixture
def path(tmp_path):
    """The path of a database that is not there yet."""
    return str(tmp_path / "sessions.db")


class CountingDisk(Disk):
    """Counts syncs."""

    def __init__(self):
        self.syncs = 0

    def sync(self, descriptor):
        self.syncs += 1
        super().sync(descriptor)


def test_many_sessions_share_each_sync(path):
    """64 sessions that append and flush at once: at most one sync for twenty appends."""
    store = SQLiteStore(path)
    disk = store.database._disk = CountingDisk()
    rounds = 20
    logs = {}
    for number in range(64):
        key = f"sessions/s{number}"
        logs[key] = (store.log(key), store.lease(key).acquire("me", 60_000))
    disk.syncs = 0
    for turn in range(rounds):
        for log, epoch in logs.values():
            log.append(b"%d\n" % turn, turn, 1, epoch)
        futures = [store.sync({key: log}) for key, (log, _) in logs.items()]
        for future in futures:
            future.result(timeout=120)
    assert all(log.unsaved() == b"" for log, _ in logs.values())
    assert disk.syncs / (64 * rounds) <= 0.05
    store.close()


def test_what_was_appended_survives_a_kill(path):
    """An append that returned is there after kill -9, without any flush."""
    program = (
        "import os, sys, signal, holdfast\n"
        "s = holdfast.open(sys.argv[1]).session('s')\n"
        "for n in range(50): s.user(f'message {n}')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, f"sqlite://{path}"], check=False)
    assert done.returncode == -signal.SIGKILL
    with holdfast.open(f"sqlite://{path}") as hf:
        texts = [event.data["content"] for event in hf.events("s", types=["user"])]
        assert texts == [f"message {n}" for n in range(50)]
        with hf.session("s") as s:  # the dead writer's lease is in nobody's way
            s.user("goes on")


def test_the_file_is_private(path):
    """The file and what SQLite keeps beside it can be read by their owner alone."""
    with holdfast.open(f"sqlite://{path}") as hf, hf.session("s") as s:
        s.user("x")
        for name in os.listdir(os.path.dirname(path)):
            mode = os.stat(os.path.join(os.path.dirname(path), name)).st_mode
            assert stat.S_IMODE(mode) == 0o600, name


def test_looking_makes_no_file(path):
    """Asking a store that is not there yet does not make it."""
    with holdfast.open(f"sqlite://{path}") as hf:
        assert hf.list() == []
        assert not hf.exists("s")
    assert not os.path.exists(path)


def test_a_database_of_another_program_is_left_alone(path):
    """A file that is not ours is refused, and not changed."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = open_bytes(path)
    store = SQLiteStore(path)
    with pytest.raises(Forbidden, match="another program"):
        store.log("sessions/a").append(b"x\n", 0, 1, 0)
    with pytest.raises(Forbidden, match="another program"):
        store.check()
    store.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
    connection.close()
    assert open_bytes(path) == before


def open_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def test_what_is_no_database_is_told(path):
    """A file of other bytes is a typed error."""
    with open(path, "wb") as file:
        file.write(b"this is a text file\n" * 100)
    store = SQLiteStore(path)
    with pytest.raises(Damaged):
        store.exists("sessions/a")
    store.close()


def test_a_newer_file_is_refused(path):
    """Tables of a later version are left as they are."""
    store = SQLiteStore(path)
    store.lease("sessions/a").acquire("me", 1000)
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    store = SQLiteStore(path)
    with pytest.raises(TooNew):
        store.exists("sessions/a")
    store.close()


@pytest.mark.parametrize("url", ["sqlite:", "sqlite:relative.db", "sqlite://host/x", "sqlite://"])
def test_wrong_addresses(url):
    """An address without an absolute path of this machine is a mistake."""
    with pytest.raises(UsageError):
        open_store(url)


def test_damage_in_the_file_is_found_by_verify(path):
    """Verify reads the whole file, and says what SQLite finds wrong with it."""
    with holdfast.open(f"sqlite://{path}") as hf:
        with hf.session("s") as s:
            for number in range(200):
                s.user(f"message {number} " + "x" * 500)
        assert hf.verify("s").ok
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'keys_by_fold'").fetchone()[0]
        page = connection.execute("PRAGMA page_size").fetchone()[0]
    connection.close()
    with open(path, "r+b") as file:
        file.seek(root * page - 60)  # cells lie at the end of a page
        file.write(b"\xff" * 60)
    with holdfast.open(f"sqlite://{path}") as hf:
        report = hf.verify("s")
        assert not report.ok
        assert report.damage


def test_a_sync_that_fails_is_never_tried_again(path):
    """After a failed sync the store takes no more: what the disk has is not known."""

    class Failing(Disk):
        broken = False

        def sync(self, descriptor):
            if self.broken:
                raise OSError(5, "input/output error")
            super().sync(descriptor)

    store = SQLiteStore(path)
    disk = store.database._disk = Failing()
    epoch = store.lease("sessions/a").acquire("me", 60_000)
    log = store.log("sessions/a")
    log.append(b"1\n", 0, 1, epoch)
    log.sync()
    disk.broken = True
    log.append(b"2\n", 1, 1, epoch)
    with pytest.raises(SyncFailed):
        log.sync()
    assert log.unsaved() == b"2\n"
    disk.broken = False
    with pytest.raises(SyncFailed):
        log.append(b"3\n", 2, 1, epoch)
    with pytest.raises(SyncFailed):
        log.sync()
    store.close()


def test_a_forked_child_uses_connections_of_its_own(path):
    """The child reads and writes beside its parent, and leaves the parent's lease alone."""
    program = f"""
import os, holdfast
hf = holdfast.open("sqlite://{path}")
s = hf.session("parent"); s.user("one"); s.flush()
pid = os.fork()
if pid == 0:
    try:
        with hf.session("child") as c:
            c.user("from the child")
        try:
            s.user("not mine"); os._exit(3)
        except holdfast.errors.UsageError:
            os._exit(0)
    except BaseException as error:
        print(repr(error)); os._exit(4)
_, code = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(code) == 0, code
s.user("two"); s.close()
assert [e.data["content"] for e in hf.events("parent", types=["user"])] == ["one", "two"]
assert hf.exists("child")
hf.close()
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_writer_of_an_old_epoch_is_fenced_in_the_data_path(path):
    """Whoever lost the lease cannot append, cut or replace, even without asking for the lease."""
    store = SQLiteStore(path)
    first = store.lease("sessions/a")
    old = first.acquire("me", 60_000)
    log = store.log("sessions/a")
    log.append(b"1\n", 0, 1, old)
    first.release()
    store.lease("sessions/a").acquire("you", 60_000)
    for work in (
        lambda: log.append(b"2\n", 1, 1, old),
        lambda: log.cut(0, old),
        lambda: log.replace([b"x\n"], old),
        lambda: first.renew(1000),
    ):
        with pytest.raises(Fenced):
            work()
    assert b"".join(log.read()) == b"1\n"
    store.close()


def test_a_writer_of_a_key_that_went_stays_fenced(path):
    """After a move or a drop the old epoch is worth nothing, also if the key is made anew."""
    store = SQLiteStore(path)
    lease = store.lease("sessions/a")
    old = lease.acquire("me", 60_000)
    log = store.log("sessions/a")
    log.append(b"1\n", 0, 1, old)
    lease.release()
    store.move("sessions/a", "trash/a")
    with pytest.raises(Fenced):
        log.append(b"2\n", 1, 1, old)
    store.drop("trash/a")
    assert not store.exists("sessions/a")
    store.close()


def test_threads_share_a_database(path):
    """Writers and readers of many threads see whole transactions."""
    database = SharedDatabase(path, ("CREATE TABLE t (x INTEGER)",))

    def work():
        for number in range(50):
            database.write(lambda c, n=number: c.execute("INSERT INTO t VALUES (?)", (n,)))
            assert database.read("SELECT count(*) FROM t")[0][0] > 0

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert database.read("SELECT count(*) FROM t") == [(200,)]
    database.close()


def _opened(path, key="sessions/a"):
    store = SQLiteStore(path)
    return store, store.log(key), store.lease(key).acquire("me", 60_000)


def test_a_full_disk_is_told_and_leaves_nothing_half(path):
    """StoreFull, nothing of it is in the log, and it goes on once there is space."""
    store, log, epoch = _opened(path)
    log.append(b"first\n", 0, 1, epoch)
    pages = store.database.read("PRAGMA page_count")[0][0]
    store.database._writer.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreFull):
        log.append(b"x" * 500_000, 1, 1, epoch)
    assert b"".join(log.read()) == b"first\n"
    assert log.unsaved() == b"first\n"
    with pytest.raises(StoreFull):
        store.documents("sessions/a").put("big", b"y" * 500_000)
    store.database._writer.execute("PRAGMA max_page_count = 1000000")
    log.append(b"second\n", 1, 1, epoch)
    log.sync()
    assert b"".join(log.read()) == b"first\nsecond\n"
    assert log.damage() == ""
    store.close()


class NotingDisk(Disk):
    """Notes what is synced, by path."""

    def __init__(self):
        self.synced = []

    def sync(self, descriptor):
        self.synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        super().sync(descriptor)

    def sync_directory(self, descriptor):
        self.synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        super().sync_directory(descriptor)


def test_the_way_to_a_new_file_is_synced(tmp_path):
    """Directories that are made for it, and the entries of the file and its log, are durable."""
    path = str(tmp_path / "new" / "deep" / "sessions.db")
    store = SQLiteStore(path)
    disk = store.database._disk = NotingDisk()
    store.documents("sessions/a").put("x", b"1")
    wanted = {str(tmp_path), str(tmp_path / "new"), str(tmp_path / "new" / "deep"), f"{path}-wal"}
    assert wanted <= set(disk.synced)
    store.close()
    disk.synced.clear()
    store.documents("sessions/a").put("x", b"2")  # the log is a new file again
    assert {str(tmp_path / "new" / "deep"), f"{path}-wal"} <= set(disk.synced)
    store.close()


def test_a_sync_after_close_is_a_sync(path):
    """The file is still open elsewhere, so closing it here has synced nothing."""
    store, log, epoch = _opened(path)
    disk = store.database._disk = NotingDisk()
    other = SQLiteStore(path)
    assert not other.exists("sessions/a")
    log.append(b"1\n", 0, 1, epoch)
    store.close()
    disk.synced.clear()
    log.sync()
    assert disk.synced == [f"{path}-wal"]
    other.close()
    log2 = store.log("sessions/a")
    log2.append(b"2\n", 1, 1, epoch)
    store.close()
    log2.sync()  # nobody has it open any more: everything is in the file
    assert log2.unsaved() == b""
    store.close()


def test_an_append_never_waits_for_a_checkpoint_and_the_log_stays_short(path):
    """The log in front of the file is copied by who flushes, and does not grow without end."""
    store, log, epoch = _opened(path)
    line = b"x" * 100_000 + b"\n"
    for number in range(60):
        log.append(line, number, 1, epoch)
    before = os.path.getsize(path)
    assert before < 1 << 20  # nothing was copied yet
    for number in range(60, 200):
        log.append(line, number, 1, epoch)
        log.sync()
    assert os.path.getsize(path) > len(line) * 100
    assert os.path.getsize(f"{path}-wal") < 16 << 20
    assert log.size() == 200 * len(line)
    store.close()


def test_a_reader_never_gets_a_mixture_of_two_generations(path):
    """The log is replaced while it is being read: what was read is the beginning of the old one."""
    store, log, epoch = _opened(path)
    old = [b"old %d\n" % number for number in range(100)]
    for number, line in enumerate(old):
        log.append(line, number, 1, epoch)
    reading = log.read()
    got = next(reading)
    log.replace([b"new %d\n" % number for number in range(200)], epoch)
    got += b"".join(reading)
    assert b"".join(old).startswith(got)
    store.close()


def test_a_branch_does_not_inherit_what_a_crash_left_in_its_place(path):
    """Documents without a log under the new name give way."""
    store, log, epoch = _opened(path)
    log.append(b"1\n", 0, 1, epoch)
    store.documents("sessions/b").put("snapshots/0.json", b"of something else")
    store.branch("sessions/a", "sessions/b", 2)
    assert store.documents("sessions/b").names() == []
    store.close()


def test_a_forked_child_can_sync_while_its_parent_does(path):
    """The child does not wait for a lock that a thread of its parent had."""
    program = f"""
import os
from holdfast.storage.sqlite import database as _sqlite_shared
from holdfast.storage.sqlite.store import SQLiteStore
store = SQLiteStore({path!r})
log, epoch = store.log("sessions/a"), store.lease("sessions/a").acquire("me", 60_000)
log.append(b"1\\n", 0, 1, epoch)
store.database._sync_lock.acquire()
pid = os.fork()
if pid == 0:
    log.sync()
    log.append(b"2\\n", 1, 1, epoch)
    os._exit(0)
_, code = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(code) == 0, code
store.database._sync_lock.release()
log.append(b"3\\n", 2, 1, epoch); log.sync()
assert b"".join(log.read()) == b"1\\n2\\n3\\n"
store.close()
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_sessions_that_go_on_meanwhile_cause_no_sync_of_their_own(path, monkeypatch):
    """64 sessions, each appending and flushing by itself in a thread: the syncs are still few."""
    monkeypatch.setattr("holdfast.storage.sqlite.store._GATHER_S", 0.5)  # a busy machine's threads
    store = SQLiteStore(path)
    disk = store.database._disk = CountingDisk()
    rounds, start = 10, threading.Barrier(64)

    def work(number):
        key = f"sessions/s{number}"
        log, epoch = store.log(key), store.lease(key).acquire("me", 60_000)
        start.wait()
        for turn in range(rounds):
            log.append(b"%d\n" % turn, turn, 1, epoch)
            store.sync({key: log}).result(timeout=120)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert disk.syncs / (64 * rounds) <= 0.1
    store.close()


def test_what_is_known_of_many_sessions_is_forgotten_once_it_is_safe(path, monkeypatch):
    """A process that writes one session after the other does not remember them all."""
    monkeypatch.setattr(_sqlite_shared, "_KEYS_KEPT_MAX", 4)
    store = SQLiteStore(path)
    disk = store.database._disk = CountingDisk()
    logs = {}
    for number in range(20):
        key = f"sessions/s{number}"
        epoch = store.lease(key).acquire("me", 0)
        logs[key] = store.log(key)
        logs[key].append(b"1\n", 0, 1, epoch)
        if number % 5:  # the others wait for whoever syncs them later
            logs[key].sync()
    assert len(store.database._last) < 10
    logs["sessions/s19"].append(b"2\n", 1, 1, epoch)
    before = disk.syncs
    logs["sessions/s0"].sync()  # it is not known any more
    assert disk.syncs == before + 1
    store.close()


def test_a_document_put_after_the_last_append_is_synced_with_the_log(path):
    """Documents put without a sync are on the medium when the log's sync returns."""
    store = SQLiteStore(path)
    disk = store.database._disk = CountingDisk()
    epoch = store.lease("sessions/a").acquire("me", 60_000)
    log = store.log("sessions/a")
    log.append(b"1\n", 0, 1, epoch)
    log.sync()
    before = disk.syncs
    store.documents("sessions/a").put("blobs/x", b"1", sync=False)
    log.sync()
    assert disk.syncs == before + 1
    store.close()


def test_a_log_that_cannot_be_emptied_is_not_copied_at_every_flush(path, monkeypatch):
    """A reader keeps SQLite's log from beginning anew: it is copied as it grows, not each time."""
    from holdfast.storage.sqlite import database as shared

    copied = []
    real = shared.connect_file

    def traced(where):
        connection = real(where)
        connection.set_trace_callback(lambda said: copied.append(said) if "checkpoint(PASSIVE)" in said else None)
        return connection

    monkeypatch.setattr(shared, "_CHECKPOINT_BYTES", 100_000)
    monkeypatch.setattr(shared, "connect_file", traced)
    with contextlib.closing(SQLiteStore(path)) as store:
        epoch = store.lease("sessions/a").acquire("me", 60_000)
        log = store.log("sessions/a")
        log.append(b"first\n", 0, 1, epoch)
        with contextlib.closing(sqlite3.connect(path)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM pieces").fetchall()
            for number in range(1, 61):
                log.append(b"x" * 1000 + b"\n", number, 1, epoch)
                log.sync()
            grown = os.path.getsize(f"{path}-wal")
        assert grown > 300_000
        assert 2 <= len(copied) <= grown // 100_000


@pytest.mark.parametrize("step", range(3))
def test_one_who_looks_while_another_makes_the_file_sees_it_as_ours(path, monkeypatch, step):
    """Whatever it had read of the file before the tables came, it is no foreign database."""
    os.close(os.open(path, os.O_CREAT, 0o600))
    real = _sqlite_shared.connect_file

    class Looking:
        """A connection between whose reads another process makes the tables."""

        def __init__(self, connection):
            self.connection = connection
            self.reads = 0

        def __getattr__(self, name):
            return getattr(self.connection, name)

        def execute(self, statement, *values):
            if self.reads == step:
                monkeypatch.setattr(_sqlite_shared, "connect_file", real)
                with contextlib.closing(SQLiteStore(path)) as other:
                    other.database.write(lambda _: None)
            self.reads += 1
            return self.connection.execute(statement, *values)

    monkeypatch.setattr(_sqlite_shared, "connect_file", lambda where: Looking(real(where)))
    with contextlib.closing(SQLiteStore(path)) as store:
        store.check()
        assert store.database.identity()


def test_a_file_of_the_first_version_is_brought_up_to_date(path):
    """Logs of several keys, with an archived one, read the same as before, and go on."""
    with holdfast.open(f"sqlite://{path}") as hf:
        for name in ("a", "b", "packed"):
            with hf.session(name) as s:
                for number in range(5):
                    s.user(f"{name} {number} " + "x" * 1500 * number)
        hf.archive("packed")
        said = {row.session_id: list(hf.events(row.session_id)) for row in hf.list()}
    with contextlib.closing(sqlite3.connect(path)) as old:
        old.executescript(
            """
            ALTER TABLE pieces RENAME TO numbered;
            CREATE TABLE pieces (
                id INTEGER NOT NULL, start INTEGER NOT NULL, size INTEGER NOT NULL,
                data BLOB NOT NULL, packed INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (id, start)
            ) WITHOUT ROWID;
            INSERT INTO pieces
                SELECT number >> 36, number & 0xfffffffff, size, data, packed FROM numbered;
            DROP TABLE numbered;
            DROP INDEX keys_by_time;
            ALTER TABLE keys ADD COLUMN size INTEGER NOT NULL DEFAULT 0;
            UPDATE keys SET size = coalesce((SELECT max(p.start + p.size) FROM pieces p WHERE p.id = keys.id), 0);
            PRAGMA user_version = 1;
            """
        )
    with holdfast.open(f"sqlite://{path}") as hf:
        assert {row.session_id: list(hf.events(row.session_id)) for row in hf.list()} == said
        assert all(hf.verify(name).ok for name in said)
        with hf.session("a") as s:
            s.user("goes on")
        assert [e.data["content"] for e in hf.events("a", types=["user"])][-1] == "goes on"


def test_a_line_of_some_kilobytes_takes_about_its_own_space(path):
    """No line of less than a page is put onto a page of its own."""
    with holdfast.open(f"sqlite://{path}") as hf, hf.session("a") as s:
        for _ in range(300):
            s.user("x" * 1700)
    assert os.path.getsize(path) < 300 * 1700 * 1.3


def test_a_connection_that_is_dropped_closes_itself(path):
    """Whoever forgets a library reads no warning about a database that it never opened by name."""
    with warnings.catch_warnings(record=True, action="always") as told:
        for connection in (connect(path), connect_file(path), connect_memory()):
            connection.execute("SELECT 1")
        del connection
        gc.collect()
    assert told == []
