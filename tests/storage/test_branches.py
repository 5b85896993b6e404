"""Branches in files: what they cost, what they share, and what people do to their folders."""

from __future__ import annotations

import itertools
import os
import shutil
import threading
from collections import Counter

import pytest

from holdfast import Holdfast
from holdfast.errors import Conflict, Forbidden, HoldfastError, Locked, NotFound, StoreError
from holdfast.storage import FileStore
from holdfast.storage.files import forms, parts
from holdfast.storage.files.lease import FileLease
from holdfast.testing import FaultyDisk, SimDisk

A, B, C = "sessions/a", "sessions/b", "sessions/c"


def append(store, key, *lines):
    log, lease = store.log(key), store.lease(key)
    epoch = lease.acquire("me", 0)
    for line in lines:
        log.append(line, 0, 1, epoch)
    log.sync()
    log.close()
    lease.release()


def content(store, key):
    return b"".join(store.log(key).read())


@pytest.fixture
def store(tmp_path):
    """A store with a log and a branch of its first line, each with a line of its own."""
    with_branch = FileStore(tmp_path / "store")
    append(with_branch, A, b"1\n", b"2\n")
    with_branch.branch(A, B, 2)
    append(with_branch, B, b"b\n")
    yield with_branch
    with_branch.close()


@pytest.fixture
def folder(tmp_path):
    """Where the branch lies."""
    return tmp_path / "store" / "sessions" / "b"


@pytest.mark.parametrize("depth", [0, 1, 5])
def test_constant_cost(depth):
    """A branch of a long log takes the very calls that one of a short log takes."""
    counts = []
    for lines in (100, 10_000):
        disk = SimDisk()
        store = FileStore("/store", disk=disk)
        append(store, "sessions/x0", b"line\n" * lines)
        for level in range(depth):
            key = f"sessions/x{level + 1}"
            store.branch(f"sessions/x{level}", key, store.log(f"sessions/x{level}").size())
            append(store, key, b"line\n" * lines)
        size = store.log(f"sessions/x{depth}").size()
        disk.calls.clear()
        store.branch(f"sessions/x{depth}", B, size)
        counts.append(Counter(name for name, _ in disk.calls))
        assert content(store, B) == b"line\n" * lines * (depth + 1)
    assert counts[0] == counts[1]


def test_bytes_are_shared(store, folder):
    """The first line of a branch is the same file on the disk as that of the log it came from."""
    parent = folder.parent / "a" / "events.jsonl"
    assert (folder / "base.jsonl").samefile(parent)
    assert sorted(os.listdir(folder)) == ["base.json", "base.jsonl", "lock", "own.jsonl"]
    assert (folder / "base.json").read_bytes() == b'{"bytes":[2]}'
    assert (folder / "own.jsonl").read_bytes() == b"b\n"


def test_detached_shares_nothing(store, folder):
    """After a detach no file of the branch has another name."""
    store.detach(B)
    assert sorted(os.listdir(folder)) == ["events.jsonl", "lock"]
    assert (folder / "events.jsonl").stat().st_nlink == 1


def test_branch_within_what_was_inherited(store, folder):
    """A branch of a branch at a place before its own lines needs the inherited file only."""
    append(store, C, b"x\n")
    store.drop(C)
    store.branch(B, C, 2)
    assert sorted(os.listdir(folder.parent / "c")) == ["base.json", "base.jsonl", "lock"]
    assert content(store, C) == b"1\n"


def test_copied_by_hand(store, folder, tmp_path):
    """A folder that was copied, by which the shared file is copied whole, is the same session."""
    shutil.copytree(folder, folder.parent / "copy")
    assert (folder.parent / "copy" / "base.jsonl").read_bytes() == b"1\n2\n"
    assert content(store, "sessions/copy") == b"1\nb\n"
    append(store, "sessions/copy", b"c\n")
    assert content(store, "sessions/copy") == b"1\nb\nc\n"
    assert content(store, B) == b"1\nb\n"
    shutil.copytree(tmp_path / "store", tmp_path / "other")
    other = FileStore(tmp_path / "other")
    assert {e.key: e.size for e in other.entries()} == {A: 4, B: 4, "sessions/copy": 6}
    other.close()


@pytest.mark.parametrize(
    ("name", "data", "whole"),
    [
        ("base.json", b"rubbish", b"b\n"),
        ("base.json", b'{"bytes":[-5]}', b"b\n"),
        ("base.json", b'{"bytes":[1000000000000000]}', b"1\n2\nb\n"),
        ("base.json", b'{"bytes":[2,7,7]}', b"1\nb\n"),
        ("base.json", b" " * 5000 + b'{"bytes":[2]}', b"b\n"),
        ("base.jsonl", b"1", b"1b\n"),
        ("base.jsonl", None, b"b\n"),
        ("own.jsonl", None, b"1\n"),
    ],
)
def test_damaged_by_hand(store, folder, name, data, whole):
    """Whatever became of a branch's files: what is left is read, at the right offsets."""
    (folder / name).unlink()
    if data is not None:
        (folder / name).write_bytes(data)
    log = store.log(B)
    assert content(store, B) == whole
    assert log.size() == len(whole)
    assert [b"".join(log.read(at)) for at in range(8)] == [whole[at:] for at in range(8)]
    append(store, B, b"on\n")
    assert content(store, B) == whole + b"on\n"
    store.detach(B)
    assert content(store, B) == whole + b"on\n"


@pytest.mark.parametrize("name", ["base.json", "base.jsonl", "own.jsonl", "events.jsonl.zst"])
def test_symlinks_are_refused(store, folder, name, tmp_path):
    """A symlink in the place of any file of a log is not followed."""
    (tmp_path / "elsewhere").write_bytes(b'{"bytes":[2]}')
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(tmp_path / "elsewhere")
    for call in (store.log(B).size, lambda: content(store, B), lambda: store.exists(B)):
        with pytest.raises(Forbidden):
            call()
    assert A in [entry.key for entry in store.entries()]


def test_cut_of_shared_bytes_is_a_copy(store, folder):
    """A cut does not shorten a file that a branch goes on with; the log can be appended to."""
    log, lease = store.log(A), store.lease(A)
    epoch = lease.acquire("me", 0)
    log.append(b"torn", 2, 1, epoch)
    log.cut(4, epoch)
    assert log.unsaved() == b""
    log.append(b"3\n", 2, 1, epoch)
    assert log.unsaved() == b"3\n"
    log.sync()
    assert content(store, A) == b"1\n2\n3\n"
    assert (folder / "base.jsonl").read_bytes() == b"1\n2\ntorn"
    assert content(store, B) == b"1\nb\n"


def test_leftovers_of_a_crash_go_with_the_next_branch(store, folder):
    """What a killed process was putting together goes; what one is at work on stays."""
    hidden = folder.parent / ".branches"
    (hidden / "dead").mkdir()
    (hidden / "dead" / "base.jsonl").write_bytes(b"1\n")
    busy = FileLease(store._tree, ("sessions", ".branches", "busy"))
    busy.acquire("other", 0)
    store.branch(A, C, 2)
    assert os.listdir(hidden) == ["busy"]
    with pytest.raises(Locked):
        store.branch(A, "sessions/busy", 2)
    busy.release()
    store.branch(A, "sessions/busy", 2)
    assert os.listdir(hidden) == []


def test_failed_branch_leaves_nothing():
    """Each call failing once: the branch is there whole or not at all, and nothing is hidden."""
    nth = 0
    while True:
        nth += 1
        disk = SimDisk()
        store = FileStore("/store", disk=disk)
        append(store, A, b"1\n")
        store.documents(A).put("blobs/x", b"payload")
        faulty = FaultyDisk(disk, nth=nth)
        try:
            FileStore("/store", disk=faulty).branch(A, B, 2)
        except HoldfastError:
            pass
        if not faulty.fired:
            break
        if store.exists(B):
            assert content(store, B) == b"1\n"
            assert store.documents(B).names() == ["blobs/x"]
        else:
            store.branch(A, B, 2)
    assert nth > 50


def test_two_at_once(store):
    """Of several that make the same branch at once one does, and the others hear why not."""
    results = []

    def make():
        try:
            store.branch(A, C, 4)
            results.append("made")
        except (Conflict, Locked) as error:
            results.append(type(error).__name__)

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert results.count("made") == 1
    assert len(results) == 6
    assert content(store, C) == b"1\n2\n"


class Meddling(SimDisk):
    """Another process that changes things just before a certain call."""

    def __init__(self, image=None):
        super().__init__(image)
        self.plans = {}

    def _meddle(self, call):
        plan = self.plans.pop(call, None)
        if plan is not None:
            plan()

    def link(self, name, parent, to, to_parent):
        self._meddle("link")
        return super().link(name, parent, to, to_parent)

    def open_read(self, name, parent):
        self._meddle("open_read")
        self._meddle(f"open_read {name}")
        return super().open_read(name, parent)

    def node_at(self, name, parent):
        self._meddle(f"node_at {name}")
        return super().node_at(name, parent)


@pytest.fixture
def meddling():
    """A store on such a disk, with a branch."""
    store = FileStore("/store", disk=Meddling())
    append(store, A, b"1\n", b"2\n")
    store.branch(A, B, 2)
    append(store, B, b"b\n")
    return store


@pytest.mark.parametrize("change", ["archive", "replace", "drop"])
@pytest.mark.parametrize("call", ["link", "open_read"])
def test_log_changes_while_it_is_branched(meddling, change, call):
    """The branch has the bytes of one moment, whatever happens to the log meanwhile."""
    rival = FileStore("/store", disk=meddling._disk)

    def replace():
        rival.log(A).replace([b"3\n4\n"], 1)

    plans = {"archive": lambda: rival.archive(A), "replace": replace, "drop": lambda: rival.drop(A)}
    meddling._disk.plans[call] = plans[change]
    if change == "drop":
        with pytest.raises(NotFound):
            meddling.branch(A, C, 2)
        assert not meddling.exists(C)
    else:
        meddling.branch(A, C, 2)
        assert content(meddling, C) in (b"1\n", b"3\n")


@pytest.mark.parametrize("change", ["detach", "archive"])
@pytest.mark.parametrize("call", ["open_read", "open_read own.jsonl", "node_at own.jsonl"])
def test_log_changes_its_form_while_it_is_read(meddling, change, call):
    """Whoever reads a branch while it is detached or archived reads the same bytes."""
    rival = FileStore("/store", disk=meddling._disk)
    for look in (lambda: content(meddling, B), lambda: meddling.log(B).size()):
        meddling._disk.plans[call] = lambda: getattr(rival, change)(B)
        assert look() in (b"1\nb\n", 4)
        meddling._disk.plans.clear()


def test_log_is_unarchived_while_it_is_looked_at(meddling):
    """The same for an archive that is taken out."""
    rival = FileStore("/store", disk=meddling._disk)
    for call in ("open_read", "node_at events.jsonl.zst"):
        for look in (lambda: content(meddling, A), lambda: meddling.log(A).size(), lambda: meddling.entry(A).size):
            rival.archive(A)
            meddling._disk.plans[call] = lambda: rival.unarchive(A)
            assert look() in (b"1\n2\n", 4)
            meddling._disk.plans.clear()


def test_log_goes_while_it_is_looked_at(meddling):
    """A log that is dropped at the wrong moment is simply not there."""
    rival = FileStore("/store", disk=meddling._disk)
    for look, nothing in (
        (lambda: content(meddling, A), b""),
        (lambda: meddling.log(A).size(), 0),
        (lambda: meddling.entry(A), None),
    ):
        rival.archive(A)
        meddling._disk.plans["open_read"] = lambda: rival.drop(A)
        assert look() == nothing
        append(rival, A, b"1\n")


def test_a_log_that_never_stands_still(meddling, monkeypatch):
    """Looking at a log that changes its form all the time ends with an error."""
    monkeypatch.setattr(parts, "_is_still_branch", lambda *_: False)
    with pytest.raises(StoreError, match="faster"):
        content(meddling, B)
    monkeypatch.undo()
    # It is still a branch when it is looked at, and none any more when its files are open.
    looks = itertools.cycle([True, False])
    monkeypatch.setattr(parts, "_is_still_branch", lambda *_: next(looks))
    with pytest.raises(StoreError, match="faster"):
        content(meddling, B)
    monkeypatch.undo()
    monkeypatch.setattr(forms._Heir, "_take_parts", lambda *_: False)
    with pytest.raises(StoreError, match="faster"):
        meddling.branch(A, C, 2)


def test_sessions_on_branches(tmp_path):
    """A branch of a session opens, goes on, keeps its payloads and is verified."""
    with Holdfast(tmp_path / "store") as hf:
        with hf.session("a") as session:
            session.user("words " * 100_000)
            session.flush()
            size = hf.store.log(A).size()
            session.assistant("only in the first")
        hf.store.branch(A, B, size)
        hf.store.drop(A)
        with hf.session("b") as session:
            session.assistant("only in the second")
        assert hf.verify("b").ok
        assert [e.type for e in hf.events("b")].count("assistant") == 1
        hf.store.detach(B)
        assert hf.verify("b").ok
