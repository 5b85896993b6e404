"""The file store as a whole: moves, drops and lists when something goes wrong half-way."""

from __future__ import annotations

import errno
from unittest import mock

import pytest

from holdfast.errors import Conflict, NotFound, StoreError, UsageError
from holdfast.storage import FileStore
from holdfast.storage.files.archive import FRAME_BYTES, Archive
from holdfast.testing import FaultyDisk, SimDisk

KEY = "sessions/a"


def made(disk, *keys):
    """A store with these keys, each with a log and a document."""
    store = FileStore("/store", disk=disk)
    for key in keys:
        log = store.log(key)
        log.append(b"line\n", 0, 1, 1)
        log.sync()
        log.close()
        store.documents(key).put("blobs/x", b"payload")
    return store


def seen(state):
    """The keys that a store on a crashed disk shows, and what they have."""
    store = FileStore("/store", disk=state.disk())
    return {
        entry.key: (b"".join(store.log(entry.key).read()), store.documents(entry.key).names())
        for folder in ("sessions/", "trash/")
        for entry in store.entries(folder)
    }


WHOLE = (b"line\n", ["blobs/x"])


def test_move_is_all_or_nothing():
    """At any crash of a move the key is whole in the one place or in the other."""
    disk = SimDisk()
    store = made(disk, KEY)
    disk.acknowledge("made", survives_power_loss=True)
    store.move(KEY, "trash/a")
    disk.acknowledge("moved", survives_power_loss=True)
    for state in disk.crash_states("power", subsets=True):
        if "moved" in state.acknowledged:
            assert seen(state) == {"trash/a": WHOLE}
        elif state.acknowledged:
            assert seen(state) in ({KEY: WHOLE}, {"trash/a": WHOLE})


def test_drop_is_all_or_nothing():
    """At any crash of a drop the key is whole or not to be seen; when it returned it is gone."""
    disk = SimDisk()
    store = made(disk, KEY)
    disk.acknowledge("made", survives_power_loss=True)
    store.drop(KEY)
    disk.acknowledge("dropped", survives_power_loss=True)
    for state in disk.crash_states("power"):
        if "dropped" in state.acknowledged:
            left = [path for path, (_, data) in state.paths.items() if data]
            assert set(left) <= {"/store/touched"}  # names for the catalogue, never content
        elif state.acknowledged:
            assert seen(state) in ({KEY: WHOLE}, {})


def test_drop_after_a_crash_goes_on():
    """A drop that crashed half-way is finished by dropping again, to the last byte."""
    disk = SimDisk()
    made(disk, KEY).drop(KEY)
    halves = [state for state in disk.crash_states("kill") if "/store/sessions/.dropped-a" in state.paths]
    assert len(halves) > 3
    for state in halves:
        again = state.disk()
        store = FileStore("/store", disk=again)
        assert not store.exists(KEY)
        store.drop(KEY)
        left = set(next(again.end_states()).paths)
        assert left == {"/store", "/store/sessions", "/store/touched"}
        with pytest.raises(NotFound):
            store.drop(KEY)


def test_new_key_has_nothing_of_the_dropped_one():
    """A key that begins anew after a half-way drop has nothing of the old one."""
    disk = SimDisk()
    made(disk, KEY).drop(KEY)
    for state in disk.crash_states("kill"):
        store = FileStore("/store", disk=state.disk())
        if not store.exists(KEY) and "/store/sessions/.dropped-a" in state.paths:
            assert store.documents(KEY).names() == []


def test_remains_of_a_beginning_give_way():
    """Payloads that a crash left without a log are not in the way of a session that comes back."""
    disk = SimDisk()
    store = made(disk, "trash/a")
    store.documents(KEY).put("blobs/remains", b"x", sync=False)
    store.move("trash/a", KEY)
    assert store.documents(KEY).names() == ["blobs/x"]


def test_place_that_is_taken_in_the_last_moment():
    """A place that someone takes between looking and moving is a conflict, and nothing moves."""
    inner = SimDisk()
    made(inner, KEY)
    inner.kill()
    for number in (errno.ENOTEMPTY, errno.EEXIST):
        disk = FaultyDisk(inner, call="rename", nth=1, errno=number)
        store = FileStore("/store", disk=disk)
        with pytest.raises(Conflict):
            store.move(KEY, "trash/a")
        assert store.exists(KEY)


def test_unsynced_documents_move_along():
    """A document that waits for its sync is synced in its new place too."""
    disk = SimDisk()
    store = made(disk, KEY)
    store.documents(KEY).put("blobs/late", b"late", sync=False)
    store.move(KEY, "trash/a")
    store.log("trash/a").sync()
    [_, worst, *_] = disk.end_states()
    assert worst.content("/store/trash/a/blobs/late") == b"late"


def test_names_that_differ_by_case_only():
    """All neighbours with a log count, also when one of the same name is there."""
    disk = SimDisk()
    store = made(disk, "sessions/abc", "sessions/ABC", "sessions/other")
    assert store.clash("sessions/abc") == "sessions/ABC"
    assert store.clash("sessions/Abc") in ("sessions/abc", "sessions/ABC")
    assert store.clash("sessions/Other") == "sessions/other"
    assert store.clash("sessions/OTHER-ONE") is None


def test_clash_with_one_made_a_moment_ago(store_root):
    """A neighbour made within the grain of the file system's clock is seen."""
    store = FileStore(store_root)
    for number in range(30):
        assert store.clash(f"sessions/X{number}") is None
        store.log(f"sessions/x{number}").append(b"line\n", 0, 1, 1)
        assert store.clash(f"sessions/X{number}") == f"sessions/x{number}"


def test_parent_that_was_made_must_be_synced():
    """A flush does not return before the directories that this process made are safe."""
    inner = SimDisk()
    root = inner.open_root()
    inner.make_directory("home", root)
    inner.sync_directory(root)
    nth = 1
    while True:
        disk = FaultyDisk(SimDisk(inner.image()), call="sync_directory", nth=nth, errno=errno.EACCES)
        log = FileStore("/home/made/store", disk=disk).log(KEY)
        log.append(b"line\n", 0, 1, 1)
        try:
            log.sync()
        except StoreError:
            nth += 1
            continue
        [_, worst, *_] = disk.inner.end_states()
        assert worst.content("/home/made/store/sessions/a/events.jsonl") == b"line\n"
        break
    # The first five failed: a, sessions, store, made and home. What was there before may fail.
    assert nth == 6


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_path_that_is_none(path):
    """A file store needs a path."""
    with pytest.raises(UsageError):
        FileStore(path)


def test_closed_store_can_be_used_again():
    """A store opens its root again when it is used after closing."""
    disk = SimDisk()
    store = made(disk, KEY)
    store.close()
    assert disk.open_count == 0
    assert store.exists(KEY)
    store.close()
    assert disk.open_count == 0


def test_a_stamp_changes_with_the_log(tmp_path):
    """What is told of a log without opening it is another after every change, or nothing."""
    store = FileStore(str(tmp_path / "store"))
    assert store.stamp("sessions/a") is None
    epoch = store.lease("sessions/a").acquire("me", 60_000)
    log = store.log("sessions/a")
    log.append(b"one\n", 0, 1, epoch)
    first = store.stamp("sessions/a")
    log.append(b"two\n", 1, 1, epoch)
    assert store.stamp("sessions/a") != first
    assert first.size == 4
    log.close()
    assert store.stamp("sessions/b") is None


def test_documents_that_may_be_there(tmp_path):
    """A folder that is not there holds nothing; where it cannot be seen there may be something."""
    store = FileStore(str(tmp_path / "store"))
    assert store.may_hold("sessions/a", "snapshots")
    store.documents("sessions/a").put("snapshots/1", b"data")
    assert store.may_hold("sessions/a", "snapshots")
    assert not store.may_hold("sessions/a", "others")
    assert not store.may_hold("sessions/b", "snapshots")


def test_pieces_of_logs(tmp_path):
    """Bytes of plain logs are read at once; what is no plain log, or no key, is left out."""
    store = FileStore(str(tmp_path / "store"))
    assert store.read_pieces({"sessions/a": [0]}, 10) == {}
    for name in "ac":
        epoch = store.lease(f"sessions/{name}").acquire("me", 60_000)
        log = store.log(f"sessions/{name}")
        log.append(b"one\ntwo\n", 0, 2, epoch)
        log.close()
    store.documents("sessions/b").put("other", b"data")
    (tmp_path / "store" / "sessions" / "link").symlink_to("a")
    keys = ["sessions/a", "sessions/b", "sessions/link", "sessions/..", "agents/x", "sessions/c"]
    found = store.read_pieces({key: [4, 0, 100] for key in keys}, 3)
    assert [*found] == ["sessions/a", "sessions/c"]
    assert [pieces.data for pieces in found.values()] == [[b"two", b"one", b""]] * 2
    assert found["sessions/c"].stamp == store.stamp("sessions/c")


def test_pieces_of_archived_logs_take_one_reading_of_each_frame(tmp_path):
    """However many places are asked for, each frame is unpacked once; a damaged archive is left to its log."""
    store = FileStore(str(tmp_path / "store"))
    lease = store.lease(KEY)
    log = store.log(KEY)
    lines = [b"%07d\n" % number for number in range(FRAME_BYTES // 4)]  # two frames
    log.append(b"".join(lines), 0, len(lines), lease.acquire("me", 60_000))
    log.close()
    lease.release()
    plain = store.read_pieces({KEY: [FRAME_BYTES - 4, 8, 0, FRAME_BYTES * 2, FRAME_BYTES + 80]}, 16)
    store.archive(KEY)
    with mock.patch.object(Archive, "_unpacked", autospec=True, side_effect=Archive._unpacked) as unpacked:
        archived = store.read_pieces({KEY: [FRAME_BYTES - 4, 8, 0, FRAME_BYTES * 2, FRAME_BYTES + 80]}, 16)
    assert archived[KEY].data == plain[KEY].data
    assert unpacked.call_count == 2
    [file] = (tmp_path / "store" / KEY).glob("*.zst")
    file.write_bytes(file.read_bytes()[:-40])
    assert store.read_pieces({KEY: [0]}, 16) == {}


@pytest.mark.parametrize("call", ["open_directory", "open_read", "node", "read_at"])
def test_pieces_that_cannot_be_read(call):
    """Where the disk fails the log is left out, and no descriptor stays open."""
    inner = SimDisk()
    made(inner, KEY).close()
    disk = FaultyDisk(inner, call=call, errno=errno.EIO, persistent=True)
    store = FileStore("/store", disk=disk)
    store.check()
    disk.nth = disk.counts[call] + 1
    assert store.read_pieces({KEY: [0]}, 10) == {}
    store.close()
    assert inner.open_count == 0
