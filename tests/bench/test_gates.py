"""Ratios that may not get worse, held by counts: bytes, system calls, memory. None is a time."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import shutil
import sqlite3
import subprocess
import time
import tracemalloc

import pytest

import holdfast
from holdfast.library import Holdfast
from holdfast.storage import FileStore

COUNT = 1_200


def _fill(session, count, first=0):
    from bench.workload import record, step

    call = None
    for index in range(first, first + count):
        call = record(session, step(index), call)


def _plain(count):
    from bench.workload import plain_bytes, step

    return sum(plain_bytes(step(index)) for index in range(count))


@pytest.fixture
def filled(store_root):
    """A store with one session of COUNT events, closed."""
    with Holdfast(store_root, timers=False) as hf, hf.session("a") as session:
        _fill(session, COUNT)
    return store_root


def test_an_archive_is_a_third_of_the_log(filled):
    """At most 0.35 of the plain lines, of words that are not the same again and again."""
    from bench.branching import _bytes, _fill, _prose

    store = str(filled)
    with holdfast.open(store) as hf:
        _fill(hf, "old", COUNT, said=_prose())
        before = _bytes(store)
        hf.archive("old")
        assert _bytes(store) <= 0.35 * before


def _noted_reads(disk):
    """How many bytes each read gives, from now on."""
    read = []
    really = disk.read_at

    def read_at(descriptor, size, offset):
        data = really(descriptor, size, offset)
        read.append(len(data))
        return data

    disk.read_at = read_at
    return read


def test_a_load_reads_the_log_once(filled, disk):
    """Every event of a session is at most 1.1 times the bytes of its log, read."""
    read = _noted_reads(disk)
    with Holdfast(FileStore(filled, disk=disk), timers=False) as hf:
        assert len(list(hf.events("a"))) >= COUNT
    assert sum(read) <= 1.1 * (filled / "sessions" / "a" / "events.jsonl").stat().st_size


def test_the_last_events_are_read_from_the_end(filled, disk):
    """Fifty of them take at most a megabyte, however long the log is, and no write."""
    read = _noted_reads(disk)
    disk.counts.clear()
    with Holdfast(FileStore(filled, disk=disk), timers=False) as hf:
        assert len(list(hf.events("a", reverse=True, limit=50))) == 50
    assert 0 < sum(read) <= 1 << 20
    assert disk.counts["write"] == disk.counts["sync"] == 0


def test_an_append_keeps_little(store_root):
    """What an append leaves behind in memory is no part of its text, once the log is synced."""
    with Holdfast(store_root, timers=False) as hf, hf.session("a") as session:
        _fill(session, 100)
        session.flush()
        gc.collect()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            _fill(session, COUNT, first=100)
            session.flush()
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert after - before <= 0.25 * _plain(COUNT)


def test_a_load_takes_little_more_than_its_log(filled):
    """Every event held at once is at most 1.5 times the bytes of the log, at its highest."""
    size = (filled / "sessions" / "a" / "events.jsonl").stat().st_size
    with Holdfast(filled, timers=False) as hf:
        list(hf.events("a", limit=10))  # which loads the code
        gc.collect()
        tracemalloc.start()
        try:
            events = list(hf.events("a"))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert len(events) >= COUNT
    # Chunks of the log are read while the events of the one before are held.
    assert peak <= 1.5 * size + (1 << 20)


def test_many_sessions_share_a_sync_on_sqlite(tmp_path, monkeypatch):
    """64 sessions of one loop: a sync for at least five of their flushes."""
    tmp_path.chmod(0o700)
    syncs = []
    for name in ("fsync", "fdatasync"):
        really = getattr(os, name)
        monkeypatch.setattr(os, name, lambda one, really=really: syncs.append(one) or really(one))

    async def talk(session):
        for number in range(5):
            session.user(f"message {number}")
            await session.aflush()

    async def everyone(sessions):
        await asyncio.gather(*map(talk, sessions))

    with holdfast.open(f"sqlite:///{tmp_path}/db") as hf:
        sessions = [hf.session(f"s{number}") for number in range(64)]
        for session in sessions:
            session.user("first")
        sessions[0].flush()
        syncs.clear()
        asyncio.run(everyone(sessions))
        counted = len(syncs)
        for session in sessions:
            session.close()
    assert 1 <= counted <= 64


def _traced(run_python, tmp_path, code, store, calls):
    trace = tmp_path / "trace"
    prefix = ("strace", "-qq", "-f", "-e", f"trace={calls},getppid", "-o", str(trace))
    run_python(code, store, prefix=prefix)
    return trace.read_text().split("getppid(")[1].splitlines()[1:]


def _can_trace():
    strace = shutil.which("strace")
    return strace and not subprocess.run([strace, "-o", os.devnull, "true"], check=False).returncode


@pytest.mark.skipif(not _can_trace(), reason="strace is not here or may not trace")
def test_an_open_and_a_load_take_few_system_calls(filled, tmp_path, run_python):
    """Opening for writing, and reading everything: less than 250 calls that name or use a file."""
    code = """
import os, sys, holdfast
with holdfast.open(sys.argv[1]) as warm, warm.session("b") as session:
    session.user("the code is loaded")
with holdfast.open(sys.argv[1]) as hf:
    os.getppid()
    session = hf.session("a")
    found = list(hf.events("a"))
    os.getppid()
    session.close()
"""
    calls = _traced(run_python, tmp_path, code, str(filled), "%file,%desc")
    assert 0 < len(calls) < 250


def test_a_list_is_a_few_questions(filled):
    """A list that nothing changed before asks the index at most four times."""
    with Holdfast(filled, timers=False) as hf:
        hf.list(50)
        for _ in range(200):
            asked = []
            connections = _connections(filled)
            for connection in connections:
                connection.set_trace_callback(asked.append)
            hf.list(50)
            for connection in connections:
                connection.set_trace_callback(None)
            if len(asked) <= 4:
                break
            time.sleep(0.05)  # a folder that changed in the last moments is compared once more
    assert 0 < len(asked) <= 4


def _connections(place):
    """Those that are open to a database below a folder."""
    found = []
    for one in gc.get_objects():
        if issubclass(type(one), sqlite3.Connection):
            with contextlib.suppress(sqlite3.ProgrammingError):  # another test's, and closed
                files = [row[2] for row in one.execute("PRAGMA database_list")]
                found += [one] if any(file.startswith(str(place)) for file in files) else []
    return found
