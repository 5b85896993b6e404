"""PostgreSQL at its limits: statements that take too long, disks that are full, clocks that differ."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import closing, suppress
from pathlib import Path
from uuid import uuid4

import pytest

import holdfast
from holdfast.errors import StoreFull, Unavailable
from holdfast.storage.postgres.store import PostgresStore

QUICK = {"autosave_ms": 0, "snapshot_ms": 0}


def _texts(url, id="s"):
    with holdfast.open(url) as hf:
        assert hf.verify(id).ok
        return [event.data["content"] for event in hf.events(id, types=["user"])]


class Locker:
    """Someone who holds the heads of all sessions locked, until told to let go."""

    def __init__(self, url):
        self._held, self._go = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._lock, args=(url,))

    def _lock(self, url):
        async def work(connection):
            async with connection.transaction():
                await connection.fetch("SELECT 1 FROM heads FOR UPDATE")
                self._held.set()
                while not self._go.is_set():
                    await connection.fetchval("SELECT pg_sleep(0.05)")

        with closing(PostgresStore(url)) as store:
            store.link.run(work)

    def __enter__(self):
        self._thread.start()
        assert self._held.wait(60)
        return self

    def let_go(self):
        self._go.set()

    def __exit__(self, *_):
        self._go.set()
        self._thread.join()


def test_a_statement_that_takes_too_long_is_tried_again_and_the_session_goes_on(postgres_url):
    """A row was locked for longer than one statement may take, and free within the time for trying again."""
    with holdfast.open(f"{postgres_url}&statement_s=1") as hf, hf.session("s", **QUICK) as s:
        s.user("before")
        s.flush()
        with Locker(postgres_url) as locker:
            s.user("while it is locked")
            timer = threading.Timer(1.5, locker.let_go)
            timer.start()
            s.flush()
            timer.join()
        s.user("after")
    assert _texts(postgres_url) == ["before", "while it is locked", "after"]


def test_statements_that_take_too_long_for_good_are_unavailable_and_nothing_is_lost(postgres_url):
    """The error has what was not saved; the session, opened again, goes on with what was."""
    with holdfast.open(f"{postgres_url}&statement_s=1&retry_s=1") as hf:
        s = hf.session("s", **QUICK)
        s.user("before")
        s.flush()
        with Locker(postgres_url):
            s.user("not saved")
            with pytest.raises(Unavailable, match="timeout") as caught:
                s.flush()
        assert "not saved" in str(caught.value.unsaved)
        assert "statement_s" in caught.value.remedy
        assert "outcome" not in caught.value.fields  # it is known: nothing of it was stored
        with suppress(Unavailable):
            s.close()
        with hf.session("s", **QUICK) as again:
            again.user("after")
    assert _texts(postgres_url) == ["before", "after"]


def test_a_full_disk_of_tables_is_store_full_and_the_session_goes_on(postgres_server):
    """The server says that its disk is full: told as that, and the same session goes on once there is room."""
    if os.geteuid() != 0:
        pytest.skip("a small disk can be mounted by root only")
    with tempfile.TemporaryDirectory(prefix="holdfast-small-") as place:
        small = ["mount", "-t", "tmpfs", "-o", f"size=24m,mode=0700,uid={postgres_server.account['user']}"]
        done = subprocess.run([*small, "tmpfs", place], capture_output=True, check=False)
        if done.returncode:
            pytest.skip("nothing can be mounted here: " + done.stderr.decode().strip())
        name = f"t{uuid4().hex}"
        url = f"{postgres_server.url}?schema={name}&default_tablespace={name}"
        try:
            postgres_server.ask(f"CREATE TABLESPACE {name} LOCATION '{place}'")
            try:
                acknowledged = _fill_and_go_on(url, Path(place))
                assert _texts(url) == acknowledged
            finally:  # or its tables are in the way of whoever asks the server about all tables
                postgres_server.ask(f"DROP SCHEMA {name} CASCADE")
                postgres_server.ask(f"DROP TABLESPACE {name}")
        finally:
            subprocess.run(["umount", "-l", place], check=False)


def _fill_and_go_on(url, place):
    said = []
    with holdfast.open(url) as hf, hf.session("s", **QUICK) as s:
        s.user("first")
        s.flush()
        said.append("first")
        ballast = place / "ballast"
        with ballast.open("wb") as file, suppress(OSError):
            while True:
                file.write(b"x" * 65_536)
                file.flush()
        with pytest.raises(StoreFull) as caught:
            _write_on(s, said)
        assert caught.value.remedy
        ballast.unlink()
        with suppress(StoreFull):
            s.flush()  # it may still tell of a try in the background just before there was room
        s.flush()  # the same session: what waited is stored now
        said.append("goes on")
        s.user("goes on")
    return said


def _write_on(s, said):
    while True:
        said.append(f"{len(said)} " + os.urandom(20_000).hex())
        s.user(said[-1])
        s.flush()


WRITER = """
import sys, time, holdfast
hf = holdfast.open(sys.argv[1])
s = hf.session("s", lease_ms=60_000, autosave_ms=0, snapshot_ms=0)
s.user(f"clock {int(time.time()) // 3600 * 3600}"); s.flush()
print("ready", flush=True)
sys.stdin.readline()
s.user("still mine"); s.close(); hf.close()
print("closed", flush=True)
"""
TAKER = """
import sys, holdfast, holdfast.errors
with holdfast.open(sys.argv[1]) as hf:
    try:
        with hf.session("s") as s: s.user("taken")
        print("taken")
    except holdfast.errors.Locked:
        print("locked")
"""


@pytest.mark.parametrize(("first", "second"), [("+1h", "+0"), ("+0", "+1h"), ("-1h", "+1h")])
def test_clocks_that_differ_by_an_hour_change_neither_leases_nor_order(postgres_url, first, second):
    """Leases run by the clock of the server: who is an hour ahead takes nothing away, and order is that of the log."""
    if shutil.which("faketime") is None:
        pytest.skip("faketime is not installed (Debian package faketime)")
    command = ["faketime", "-f", first, sys.executable, "-c", WRITER, postgres_url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "ready\n"
        taker = ["faketime", "-f", second, sys.executable, "-c", TAKER, postgres_url]
        refused = subprocess.run(taker, capture_output=True, text=True, check=True, timeout=120)
        assert refused.stdout == "locked\n"
        said, _ = writer.communicate("go\n", timeout=120)
        assert said == "closed\n"
    taken = subprocess.run(taker, capture_output=True, text=True, check=True, timeout=120)
    assert taken.stdout == "taken\n"
    texts = _texts(postgres_url)
    assert texts[0].startswith("clock ")
    assert texts[1:] == ["still mine", "taken"]
    with holdfast.open(postgres_url) as hf:
        assert [event.seq for event in hf.events("s")] == list(range(len(list(hf.events("s")))))
