"""Which sessions may have changed: never fewer than did, and little to do when none did."""

from __future__ import annotations

import os
import shutil

import pytest

from holdfast.storage import FileStore, MemoryStore
from holdfast.storage.files import journal

LINE = b'{"seq":0}\n'


def record(store, id, line=LINE):
    """One event, as a writer that opens and closes the session."""
    lease = store.lease(f"sessions/{id}")
    store.log(f"sessions/{id}").append(line, 0, 1, lease.acquire("me", 0))
    lease.release()


def settled(store):
    """A mark after which nothing is so fresh that the clock could hide a change."""
    os.utime(os.path.join(store.path, "sessions"), ns=(1, 10**18))
    return store.changes("").mark


@pytest.fixture
def store(store_root):
    """A store on files with two sessions."""
    store = FileStore(store_root)
    record(store, "a")
    record(store, "b")
    return store


def test_nothing_changed(store):
    """A mark of now says that nothing has changed, again and again, and in other processes."""
    mark = settled(store)
    for other in (store, store, FileStore(store.path)):
        changes = other.changes(mark)
        assert (changes.keys, changes.listed) == (frozenset(), False)


def test_a_writer_is_told(store):
    """Opening a session for writing names it, and as long as it is held it is named again."""
    mark = settled(store)
    lease = store.lease("sessions/a")
    lease.acquire("me", 0)
    first = store.changes(mark)
    assert first.keys == {"sessions/a"}
    second = store.changes(first.mark)
    assert second.keys == {"sessions/a"}
    lease.release()
    third = store.changes(second.mark)
    assert third.keys == {"sessions/a"}
    assert store.changes(third.mark).keys == frozenset()


def test_a_holder_that_died_is_named_once_more(store):
    """What a killed process recorded last is looked at once, and then no more."""
    mark = settled(store)
    pid = os.fork()
    if not pid:
        FileStore(store.path).lease("sessions/b").acquire("child", 0)
        os._exit(0)
    os.waitpid(pid, 0)
    changes = store.changes(mark)
    assert changes.keys == {"sessions/b"}
    assert store.changes(changes.mark).keys == frozenset()


def test_a_holder_on_another_machine_is_believed(store):
    """A process that cannot be seen from here may live."""
    mark = settled(store)
    with open(os.path.join(store.path, "touched"), "ab") as file:
        file.write(b"+1@elsewhere sessions/a\n")
    changes = store.changes(mark)
    assert store.changes(changes.mark).keys == {"sessions/a"}


def test_moves_name_both_ends(store):
    """To the trash and back: the session is named."""
    mark = settled(store)
    store.move("sessions/a", "trash/0.a")
    changes = store.changes(mark)
    assert "sessions/a" in changes.keys
    assert changes.listed
    store.move("trash/0.a", "sessions/a")
    assert "sessions/a" in store.changes(changes.mark).keys


def test_by_hand_means_all(store):
    """A folder that came or went without a writer makes everything suspect."""
    mark = settled(store)
    shutil.copytree(os.path.join(store.path, "sessions/a"), os.path.join(store.path, "sessions/c"))
    assert store.changes(mark).keys is None


def test_a_large_folder_is_looked_through_later(store, monkeypatch):
    """Among very many sessions a new one is told at once, by its name alone; what a hand moved meanwhile, later."""
    monkeypatch.setattr(journal, "_LARGE_BYTES", 1)
    mark = settled(store)
    record(store, "new")
    shutil.copytree(os.path.join(store.path, "sessions/a"), os.path.join(store.path, "sessions/c"))
    first = store.changes(mark)
    assert (first.keys, first.listed) == ({"sessions/new"}, False)
    for other in (store, FileStore(store.path)):
        assert (other.changes(first.mark).keys, other.changes(first.mark).listed) == (frozenset(), False)
    monkeypatch.setattr(journal, "_PUT_OFF_NS", 0)
    for other in (store, FileStore(store.path)):
        assert other.changes(first.mark).listed


def test_a_larger_folder_is_looked_through_so_much_later(store, monkeypatch):
    """The time that looking takes stays a small part of all time, however many sessions there are."""
    monkeypatch.setattr(journal, "_LARGE_BYTES", 1)
    mark = settled(store)
    record(store, "new")
    first, size = store.changes(mark), os.stat(os.path.join(store.path, "sessions")).st_size
    late = journal.time.time_ns() + size * journal._PUT_OFF_NS
    for later, listed in ((late - 10**9, False), (late + 10**9, True)):
        monkeypatch.setattr(journal.time, "time_ns", lambda later=later: later)
        assert store.changes(first.mark).listed is listed


def test_a_large_folder_that_only_a_hand_has_changed_is_compared_at_once(store, monkeypatch):
    """Where nobody but a hand was at work there is nothing to put off, also while something is put off."""
    monkeypatch.setattr(journal, "_LARGE_BYTES", 1)
    mark = settled(store)
    record(store, "new")
    put_off = store.changes(mark)
    os.utime(os.path.join(store.path, "sessions"), ns=(1, 2 * 10**18))
    assert store.changes(put_off.mark).keys is None


@pytest.mark.parametrize("mark", ["", "nonsense", "[]", "{}", '{"boot":"another"}'])
def test_a_mark_that_is_none_means_all(store, mark):
    """Whatever is no mark of this store asks for everything."""
    assert store.changes(mark).keys is None


@pytest.mark.parametrize("harm", ["deleted", "cut", "garbled", "replaced"])
def test_a_file_that_is_not_what_it_was_means_all(store, harm):
    """`touched` may be lost at any time: then everything is compared."""
    mark = settled(store)
    path = os.path.join(store.path, "touched")
    if harm == "deleted":
        os.unlink(path)
    elif harm == "cut":
        os.truncate(path, 40)
    elif harm == "garbled":
        with open(path, "ab") as file:
            file.write(b"+1@x sessions/a+2@x sessions/b\n")
    else:
        with open(path, "wb") as file:
            file.write(b"0" * 32 + b"\n" + b"-sessions/a\n" * 100)
    record(store, "a")
    assert store.changes(mark).keys is None


def test_another_boot_means_all(store, monkeypatch):
    """What was not synced may be lost with the power."""
    mark = settled(store)
    other = FileStore(store.path)
    monkeypatch.setattr(type(other._disk), "boot_id", lambda _: "another")
    assert other.changes(mark).keys is None


def test_a_long_file_is_made_short(store, monkeypatch):
    """It does not grow for ever; who holds what is not forgotten."""
    lease = store.lease("sessions/b")
    lease.acquire("me", 0)
    mark = settled(store)
    monkeypatch.setattr(journal, "_SIZE_MAX", 300)
    with open(os.path.join(store.path, "touched.new"), "wb") as file:
        file.write(b"of one who was killed")
    for _ in range(20):
        record(store, "a")
    assert os.path.getsize(os.path.join(store.path, "touched")) < 600
    changes = store.changes(mark)
    assert changes.keys is None
    assert "sessions/b" in store.changes(changes.mark).keys
    lease.release()


def test_a_store_that_is_not_there(tmp_path):
    """Nothing is made by asking."""
    store = FileStore(tmp_path / "none")
    changes = store.changes("")
    assert changes.keys is None
    assert store.changes(changes.mark).keys == frozenset()
    assert store.folders() == {}
    assert not (tmp_path / "none").exists()


def test_memory_tells_the_same():
    """A memory store names what was written, moved and dropped."""
    store = MemoryStore()
    for id in "ab":
        store.log(f"sessions/{id}").append(LINE, 0, 1, 1)
    first = store.changes("")
    assert first.keys is None
    assert store.changes(first.mark).keys == frozenset()
    store.log("sessions/a").append(LINE, 1, 1, 1)
    second = store.changes(first.mark)
    assert second.keys == {"sessions/a"}
    store.move("sessions/a", "trash/0.a")
    store.drop("sessions/b")
    third = store.changes(second.mark)
    assert third.keys == {"sessions/a", "sessions/b"}
    assert MemoryStore().changes(third.mark).keys is None
    assert store.entry("sessions/a") is None
