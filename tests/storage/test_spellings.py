"""Ids that differ only by case: found by one name, however many sessions there are."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import holdfast
from holdfast.errors import InvalidId
from holdfast.storage import FileStore
from holdfast.testing import SimDisk

LINE = b"line\n"


def make(store, *keys):
    for key in keys:
        lease = store.lease(key)
        epoch = lease.acquire("test", 60_000)
        log = store.log(key)
        log.append(LINE, 0, 1, epoch)
        log.sync()
        log.close()
        lease.release()


# Makes a session for each line that it reads, and says whether it could.
RACER = """
import sys, holdfast
from holdfast.errors import InvalidId, Locked
with holdfast.open(sys.argv[1]) as hf:
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            with hf.session(line.strip()) as s:
                s.user("mine")
            print("made", flush=True)
        except (InvalidId, Locked):
            print("refused", flush=True)
"""


@pytest.mark.stores("files", "memory", "sqlite", "postgres", "s3")
def test_a_deleted_session_does_not_come_back_beside_its_namesake(hf):
    """Undelete refuses an id that differs only by case from one that is there, and the trash keeps it."""
    with hf.session("Foo") as s:
        s.user("x")
    hf.delete("Foo")
    with hf.session("foo") as s:
        s.user("y")
    with pytest.raises(InvalidId, match="differs only by case from the session foo") as refused:
        hf.undelete("Foo")
    assert "foo" in refused.value.remedy
    assert [one.session_id for one in hf.trash.list()] == ["Foo"]
    hf.delete("foo")
    hf.undelete("Foo")
    assert [row.session_id for row in hf.list()] == ["Foo"]


@pytest.mark.stores("files", "memory", "sqlite", "postgres", "s3")
def test_a_copy_makes_no_namesake(hf, tmp_path):
    """What differs only by case from a session of the other store is told as failed, and not made there."""
    with holdfast.open(tmp_path / "from") as source:
        for id in ("Foo", "bar"):
            with source.session(id) as s:
                s.user("x")
        with hf.session("foo") as s:
            s.user("y")
        copied = source.copy_to(hf)
    assert copied.sessions == ["bar"]
    assert "differs only by case" in copied.failed["Foo"]
    assert sorted(row.session_id for row in hf.list()) == ["bar", "foo"]


@pytest.mark.parametrize("kind", ["files", "sqlite"])
def test_processes_that_make_namesakes_at_once(tmp_path, kind):
    """Of processes that make foo, Foo and FOO at the same moment one succeeds, and the others are refused."""
    path = str(tmp_path / "store") if kind == "files" else f"sqlite://{tmp_path}/store.db"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    racers = [subprocess.Popen([sys.executable, "-c", RACER, path], **pipes) for _ in range(3)]
    assert [one.stdout.readline() for one in racers] == ["ready\n"] * 3
    for turn in range(20):
        for one, name in zip(racers, ("foo", "Foo", "FOO"), strict=True):
            one.stdin.write(f"{name}{turn}\n")
            one.stdin.flush()
        assert sorted(one.stdout.readline() for one in racers) == ["made\n", "refused\n", "refused\n"]
    for one in racers:
        one.communicate()
    with holdfast.open(path) as hf:
        assert len(hf.list(limit=100)) == 20


def test_an_older_store_is_listed_once(store_root):
    """Sessions that were made before there was a record are found, and so are those after it."""
    old = FileStore(store_root)
    make(old, "sessions/Old", "sessions/older")
    for name in os.listdir(f"{store_root}/spellings"):
        os.unlink(f"{store_root}/spellings/{name}")
    os.rmdir(f"{store_root}/spellings")
    store = FileStore(store_root)
    assert store.clash("sessions/old") == "sessions/Old"
    with pytest.raises(InvalidId):
        store.lease("sessions/old").acquire("test", 60_000)
    assert not os.path.exists(f"{store_root}/sessions/old")
    assert sorted(os.listdir(f"{store_root}/spellings")) == [".listed", "old"]
    with pytest.raises(InvalidId):
        make(FileStore(store_root), "sessions/Older")


def test_a_session_copied_by_hand_is_recorded_by_the_next_list(store_root):
    """A folder that somebody put among the sessions counts once it was listed."""
    store = FileStore(store_root)
    make(store, "sessions/first")
    os.mkdir(f"{store_root}/sessions/Copied")
    with open(f"{store_root}/sessions/Copied/events.jsonl", "wb") as file:
        file.write(LINE)
    assert len(list(store.entries())) == 2
    with pytest.raises(InvalidId):
        make(store, "sessions/copied")


def test_the_record_is_safe_before_the_session(tmp_path):
    """Wherever power fails, no session with capitals is there without its record."""
    disk = SimDisk()
    store = FileStore("/store", disk=disk)
    make(store, "sessions/first", "sessions/Foo")
    found = 0
    for state in disk.crash_states("power", settled=("lock",), step=40):
        after = FileStore("/store", disk=state.disk())
        if after.exists("sessions/Foo"):
            found += 1
            assert after.clash("sessions/foo") == "sessions/Foo"
            with pytest.raises(InvalidId):
                after.lease("sessions/foo").acquire("test", 60_000)
    assert found


def test_making_a_session_costs_the_same_beside_many():
    """The calls of the disk to make a session do not grow with the sessions that are there, nor is anything listed."""
    disk = SimDisk()
    store = FileStore("/store", disk=disk)
    calls = {}
    for number in range(60):
        before = len(disk.calls)
        assert store.clash(f"sessions/id{number}") is None
        make(store, f"sessions/id{number}", f"sessions/Id-{number}")
        calls[number] = [name for name, _ in disk.calls[before:]]
    assert calls[59] == calls[2]
    assert "scan" not in calls[59]
