"""Redaction and erasure of a session that was forked often: what each fork costs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter

import pytest

import holdfast
from holdfast.errors import HoldfastError, Locked
from holdfast.storage import Disk, FileStore, do_each

SECRET = "ghp_" + "aB3dE6gH9j" * 3 + "K1m2N3"


class CountingDisk(Disk):
    """The real disk, with a note of what makes others wait."""

    def __init__(self):
        self.counts = Counter()
        self._lock = threading.Lock()

    def _note(self, what):
        with self._lock:
            self.counts[what] += 1

    def open_new(self, name, parent):
        self._note("files")
        return super().open_new(name, parent)

    def sync(self, descriptor):
        self._note("syncs")
        super().sync(descriptor)

    def sync_directory(self, descriptor):
        self._note("syncs of directories")
        super().sync_directory(descriptor)


def forked(path, count):
    """A store with a session that holds a secret, and so many forks of it."""
    disk = CountingDisk()
    hf = holdfast.open(FileStore(path, disk=disk))
    with hf.session("p") as session:
        for number in range(20):
            session.user(f"word{number} {SECRET if number == 5 else ''}")
    for _ in range(count):
        hf.fork("p", at=10)
    disk.counts.clear()
    return hf, disk


def cost(path, count, verb):
    hf, disk = forked(path / f"{verb}{count}", count)
    with hf:
        getattr(hf, verb)("p")
    return Counter(disk.counts)


def per_fork(path, verb, few=16, many=18):
    """What so many forks more cost, each."""
    less, more = cost(path, few, verb), cost(path, many, verb)
    return {what: (more[what] - less[what]) / (many - few) for what in more}


def test_redaction_writes_and_syncs_each_fork_once(tmp_path):
    """One new file, synced once; its folder twice: when the file has its name, and when the old ones are gone."""
    assert per_fork(tmp_path, "redact") == {"files": 1, "syncs": 1, "syncs of directories": 2}


def test_erasure_syncs_all_forks_together(tmp_path):
    """However many forks go, nothing more is waited for."""
    assert set(per_fork(tmp_path, "erase").values()) == {0}


def test_redaction_of_many_forks_reaches_all_of_them(tmp_path):
    """Each says what it said, without the secret, which no file of the store holds any more."""
    hf, _ = forked(tmp_path / "store", 20)
    with hf:
        ids = [row.session_id for row in hf.list(limit=None)]
        before = {id: [event.data.get("content") for event in hf.events(id)] for id in ids}
        report = hf.redact("p")
        assert set(report.sessions.values()) == {1}
        assert len(report.sessions) == 21
        for id in ids:
            assert hf.verify(id).ok
            after = [event.data.get("content") for event in hf.events(id)]
            pairs = zip(before[id], after, strict=False)
            assert sum(old != new for old, new in pairs) == 1
        assert len(hf.search("word7", limit=None)) == 21
    files = [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]
    assert not list((tmp_path / "store").rglob("base*"))


def test_a_clean_fork_does_not_keep_the_file_of_its_parent(tmp_path):
    """A fork from before the secret shares a file that has it: it gets one of its own."""
    with holdfast.open(tmp_path / "store") as hf:
        with hf.session("p") as session:
            session.user("harmless")
            session.user(SECRET)
        child = hf.fork("p", at=1)
        said = [event.data for event in hf.events(child)]
        assert hf.redact("p").sessions[f"sessions/{child}"] == 0
        assert [event.data for event in hf.events(child)] == said
    files = [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]


def test_one_fork_that_is_in_use_stops_the_redaction_of_many(tmp_path):
    """It is refused before anything is changed."""
    hf, _ = forked(tmp_path / "store", 20)
    with hf, hf.session(hf.list()[0].session_id):
        with pytest.raises(Locked):
            hf.redact("p")
        assert SECRET in str([event.data for event in hf.events("p")])


def test_work_for_many_ends_with_the_first_error():
    """What was begun is ended, nothing else is begun, and the error is told."""
    begun, ended = [], []

    def work(number):
        begun.append(number)
        if number == 30:
            raise HoldfastError("enough")
        ended.append(number)

    with pytest.raises(HoldfastError, match="enough"):
        do_each(work, range(100_000))
    assert sorted(begun) == sorted([*ended, 30])
    assert len(begun) < 100_000


def test_work_for_many_is_interrupted():
    """A key press stops it when those that were begun have ended."""
    begun, ended = [], []

    def work(number):
        begun.append(number)
        if number == 30:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.001)
        ended.append(number)

    with pytest.raises(KeyboardInterrupt):
        do_each(work, range(10_000))
    assert sorted(begun) == sorted(ended)
    assert len(begun) < 10_000
