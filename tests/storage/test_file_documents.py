"""Documents as files: atomic, without remains, and safe before what names them."""

from __future__ import annotations

import errno

import pytest

from holdfast.errors import StoreError, SyncFailed
from holdfast.storage import FileStore
from holdfast.testing import FaultyDisk, SimDisk

KEY = "sessions/a"
FOLDER = "/store/sessions/a"


def opened(disk):
    store = FileStore("/store", disk=disk)
    return store, store.documents(KEY)


def paths(disk):
    return {
        path.removeprefix(FOLDER + "/")
        for path, (_, data) in next(disk.end_states()).paths.items()
        if path.startswith(FOLDER + "/") and data is not None
    }


@pytest.mark.parametrize("call", ["open_lock", "lock", "write", "sync", "rename", "truncate"])
def test_failed_put_leaves_the_old(call):
    """A put that fails leaves the old bytes, and no temporary file."""
    inner = SimDisk()
    store, documents = opened(inner)
    documents.put("a", b"old")
    documents = FileStore("/store", disk=FaultyDisk(inner, call=call, nth=1)).documents(KEY)
    with pytest.raises(StoreError):
        documents.put("a", b"new")
    assert store.documents(KEY).get("a")[0] == b"old"
    # A temporary file that could not be taken may stay; the next put takes it over.
    assert paths(inner) - ({".tmp-a"} if call in ("lock", "truncate") else set()) == {"a"}
    store.documents(KEY).put("a", b"new")
    assert paths(inner) == {"a"}


def test_left_over_temporary_is_used_again():
    """A temporary file that a crash left is neither listed nor in the way, and goes."""
    disk = SimDisk()
    _, documents = opened(disk)
    documents.put("a", b"old")
    with documents._tree.opened((*KEY.split("/"),)) as directory:
        descriptor = disk.open_lock(".tmp-a", directory)
        disk.write(descriptor, b"half of something longer")
    disk.kill()
    _, documents = opened(disk)
    assert documents.names() == ["a"]
    documents.put("a", b"new")
    assert documents.get("a")[0] == b"new"
    assert paths(disk) == {"a"}


@pytest.mark.req("S0-35", "S0-74")
def test_replaced_at_every_moment():
    """At any crash a document is the old one or the new one, whole."""
    disk = SimDisk()
    _, documents = opened(disk)
    documents.put("snapshots/1.json", b"old bytes")
    disk.acknowledge("safe", survives_power_loss=True)
    documents.put("snapshots/1.json", b"new bytes, and more of them")
    for state in disk.crash_states("power", subsets=True):
        found = state.content(f"{FOLDER}/snapshots/1.json")
        if state.acknowledged:
            assert found in (b"old bytes", b"new bytes, and more of them")


def test_put_is_durable_when_it_returns():
    """What put returned for survives power loss, with the whole way to it."""
    disk = SimDisk()
    _, documents = opened(disk)
    documents.put("plugins/deep/x.json", b"1")
    [_, worst, *_] = disk.end_states()
    assert worst.content(f"{FOLDER}/plugins/deep/x.json") == b"1"


def test_delete_is_durable_when_it_returns():
    """What was deleted does not come back."""
    disk = SimDisk()
    _, documents = opened(disk)
    documents.put("a", b"1")
    documents.delete("a")
    assert all(state.content(f"{FOLDER}/a") is None for state in disk.end_states())


def test_unsynced_documents_are_safe_before_the_log():
    """A document put without a sync is safe once the log is, and not after it."""
    disk = SimDisk()
    store, documents = opened(disk)
    log = store.log(KEY)
    documents.put("blobs/x", b"payload", sync=False)
    log.append(b"names x\n", 0, 1, 1)
    disk.calls.clear()
    log.sync()
    [_, worst, *_] = disk.end_states()
    assert worst.content(f"{FOLDER}/blobs/x") == b"payload"
    assert paths(disk) == {"blobs/x", "events.jsonl"}


def test_unsynced_documents_of_a_killed_process():
    """What a killed process put without a sync is safe after the next process's flush."""
    disk = SimDisk()
    store, documents = opened(disk)
    documents.put("blobs/x", b"payload", sync=False)
    store.log(KEY).append(b"names x\n", 0, 1, 1)
    disk.kill()
    store, _ = opened(disk)
    store.log(KEY).sync()
    [_, worst, *_] = disk.end_states()
    assert worst.content(f"{FOLDER}/blobs/x") == b"payload"
    assert ".unsynced" not in paths(disk)


def test_nothing_is_synced_twice():
    """A flush syncs the documents that wait, and the next one nothing."""
    disk = SimDisk()
    store, documents = opened(disk)
    log = store.log(KEY)
    documents.put("blobs/x", b"payload", sync=False)
    log.append(b"names x\n", 0, 1, 1)
    log.sync()
    disk.calls.clear()
    log.append(b"more\n", 1, 1, 1)
    log.sync()
    # After the sync one look whether the log still has its name.
    assert [name for name, _ in disk.calls] == ["write", "sync", "node_at"]


def test_same_bytes_are_left_in_place():
    """Putting the bytes that are there, without a sync, does not replace safe ones by unsafe."""
    disk = SimDisk()
    _, documents = opened(disk)
    documents.put("blobs/x", b"payload")
    disk.acknowledge("safe", survives_power_loss=True)
    documents.put("blobs/x", b"payload", sync=False)
    for state in disk.crash_states("power"):
        if state.acknowledged:
            assert state.content(f"{FOLDER}/blobs/x") == b"payload"


def test_other_bytes_are_synced_before_they_replace():
    """Putting other bytes without a sync leaves the old or the new ones, never a part."""
    disk = SimDisk()
    _, documents = opened(disk)
    documents.put("blobs/x", b"damaged payload")
    disk.acknowledge("safe", survives_power_loss=True)
    documents.put("blobs/x", b"payload", sync=False)
    states = [state for state in disk.crash_states("power") if state.acknowledged]
    found = {state.content(f"{FOLDER}/blobs/x") for state in states}
    assert found == {b"damaged payload", b"payload"}


def test_failed_sync_keeps_documents_waiting():
    """Documents whose sync failed are still waiting for one: the next log syncs them."""
    inner = SimDisk()
    disk = FaultyDisk(inner, call="sync", nth=1, errno=errno.EIO)
    store, documents = opened(disk)
    log = store.log(KEY)
    documents.put("blobs/x", b"payload", sync=False)
    log.append(b"names x\n", 0, 1, 1)
    with pytest.raises(SyncFailed):
        log.sync()
    store.log(KEY).sync()
    [_, worst, *_] = inner.end_states()
    assert worst.content(f"{FOLDER}/blobs/x") == b"payload"


def test_only_the_folder_asked_for_is_looked_at():
    """Listing one folder does not look at the files of another."""
    disk = SimDisk()
    _, documents = opened(disk)
    for number in range(50):
        documents.put(f"blobs/{number}", b"x")
    documents.put("snapshots/1.json", b"x")
    disk.calls.clear()
    assert documents.names("snapshots/") == ["snapshots/1.json"]
    assert len([1 for name, _ in disk.calls if name == "node_at"]) == 1
    assert documents.names("../") == []


def test_one_object_for_all_who_ask():
    """All who ask for a key's documents get the same object while one of them keeps it."""
    store, documents = opened(SimDisk())
    assert store.documents(KEY) is documents
