"""Redaction and erasure of a session that was forked often: what each fork costs."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections import Counter

import pytest

import holdfast
from holdfast.errors import HoldfastError, Locked
from holdfast.library import _redaction, _trash
from holdfast.library._views import of_known_format
from holdfast.model import encode_line
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


def looked_at(path, count, monkeypatch):
    """How many events a redaction reads, and how many lines it makes."""
    hf, _ = forked(path / f"looked{count}", count)
    counts = Counter()

    def read(events):
        for event in of_known_format(events):
            counts["read"] += 1
            yield event

    def made(*line):
        counts["made"] += 1
        return encode_line(*line)

    monkeypatch.setattr(_redaction, "of_known_format", read)
    monkeypatch.setattr(_redaction, "encode_line", made)
    with hf:
        hf.redact("p")
    return counts


def test_what_forks_begin_with_is_read_and_written_once(tmp_path, monkeypatch):
    """One fork more costs its own events and the note, and none of those it shares."""
    less, more = looked_at(tmp_path, 3, monkeypatch), looked_at(tmp_path, 7, monkeypatch)
    assert {what: (more[what] - less[what]) / 4 for what in more} == {"read": 2, "made": 2}


def test_where_a_session_came_from_is_read_once(tmp_path, monkeypatch):
    """Erasure looks at each log once to find forks, holds and merges."""
    read = []
    found = _trash._origin_of
    monkeypatch.setattr(_trash, "_origin_of", lambda core, key: read.append(key) or found(core, key))
    hf, _ = forked(tmp_path / "store", 5)
    with hf:
        assert len(hf.erase("p").erased) == 6
    assert len(read) == len(set(read)) == 6


def test_a_secret_that_is_streamed_on_after_the_fork_is_found(tmp_path):
    """A beginning that ends inside of a stream is looked at with what follows it."""
    with holdfast.open(tmp_path / "store") as hf:
        with hf.session("p") as session:
            session.user("go on")
            seq = session.append("delta", {"content": f"it is {SECRET[:20]}"}).seq
        forks = [hf.fork("p", at=seq) for _ in range(2)]
        for fork in forks:
            with hf.session(fork) as session:
                session.append("delta", {"content": f"{SECRET[20:]} then"})
        changed = hf.redact("p").sessions
        assert {changed[f"sessions/{fork}"] for fork in forks} == {2}
        for fork in forks:
            said = "".join(event.data["content"] for event in hf.events(fork) if event.type == "delta")
            assert said.startswith("it is [")
            assert said.endswith(" then")
            assert SECRET[20:] not in said
            assert hf.verify(fork).ok


@pytest.mark.parametrize("secret_at", [None, 3])
def test_forks_are_redacted_as_if_each_were_alone(tmp_path, secret_at):
    """Those of several places, forks of forks and payloads: the same events come out."""
    with holdfast.open(tmp_path / "store") as hf:
        with hf.session("other") as session:
            session.user(SECRET)
        hf.redact("other")  # both have the key of the fingerprints then
        with hf.session("p") as session:
            for number in range(8):
                session.user(f"word{number} {SECRET if number == secret_at else ''}" + "long " * 20_000 * (number == 6))
        for at in (2, 5, 5, 9):
            first = hf.fork("p", at=at)
        with hf.session(first) as session:
            session.user(f"mine: {SECRET}")
        hf.fork(first)
        ids = {row.session_id for row in hf.list(limit=None)} - {"other"}
        shutil.copytree(tmp_path / "store", tmp_path / "alone")
        together = hf.redact("p").sessions
        said = {id: [(event.type, event.data) for event in hf.events(id)][:-1] for id in ids}
    with holdfast.open(tmp_path / "alone") as alone:
        for id in ids:
            assert alone.redact(id, relatives=False).sessions[f"sessions/{id}"] == together[f"sessions/{id}"]
            assert [(event.type, event.data) for event in alone.events(id)][:-1] == said[id]


def test_a_log_that_a_caller_begins_with_a_forked_event_is_redacted(tmp_path):
    """It looks like a fork whose beginning ends in the middle of a batch: nothing of it is shared."""
    with holdfast.open(tmp_path / "store") as hf:
        with hf.session("p") as session:
            session.append("forked", {"note": SECRET})
        assert hf.redact("p").sessions == {"sessions/p": 1}
        assert SECRET not in str([event.data for event in hf.events("p")])
