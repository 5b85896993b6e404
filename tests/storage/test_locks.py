"""Who holds a lock, and that no child ever keeps it."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest

from holdfast.errors import Locked
from holdfast.storage import FileStore, forks
from holdfast.storage.disk import is_running
from holdfast.testing import SimDisk

KEY = "sessions/a"
HOLDER = """
    import sys, time
    from holdfast.storage import FileStore
    lease = FileStore(sys.argv[1]).lease("sessions/a")
    print(lease.acquire("holder", 0), flush=True)
    time.sleep(60)
"""


@pytest.fixture
def store(store_root):
    """A file store."""
    with_files = FileStore(store_root)
    yield with_files
    with_files.close()


@pytest.fixture
def holder(store_root):
    """Another process that has the lease."""
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(HOLDER), str(store_root)], stdout=subprocess.PIPE)
    assert process.stdout.readline().strip().isdigit()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.req("S0-72")
def test_another_process_is_named(store, holder):
    """Who finds a session locked is told which process on which machine has it."""
    with pytest.raises(Locked) as caught:
        store.lease(KEY).acquire("me", 0)
    assert caught.value.pid == holder.pid
    assert caught.value.host == socket.gethostname()
    assert str(holder.pid) in str(caught.value)
    assert caught.value.session_id == "a"


def test_killed_holder_gives_it_back(store, holder):
    """A lock ends with its holder, however that ends, and the epoch still grows."""
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert store.lease(KEY).acquire("me", 0) == 2


def test_same_process_is_locked_too(store):
    """Two leases of one key in one process exclude each other, from two stores as well."""
    lease = store.lease(KEY)
    lease.acquire("me", 0)
    other = FileStore(store.path)
    with pytest.raises(Locked) as caught:
        other.lease(KEY).acquire("me", 0)
    assert caught.value.pid == os.getpid()


def forked(child):
    """Fork; the child does something and lives until the end of the test."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        answer = b"failed"
        try:
            answer = str(child()).encode()
        finally:
            os.write(writing, answer)
            time.sleep(60)
            os._exit(0)
    os.close(writing)
    answer = os.read(reading, 1000).decode()
    os.close(reading)
    return pid, answer


@pytest.fixture
def children():
    """Children that are ended with the test."""
    pids = []
    yield pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_forked_child_does_not_keep_the_lock(store, children):
    """When the holder gives the lock back, a child that was forked meanwhile does not keep it."""
    lease = store.lease(KEY)
    lease.acquire("me", 0)
    pid, _ = forked(lambda: None)
    children.append(pid)
    lease.release()
    assert FileStore(store.path).lease(KEY).acquire("other", 0) == 2


def test_forked_child_outlives_the_holder(store_root, children):
    """When the holder dies, a child that it had forked does not keep the lock."""
    script = """
        import os, sys, time
        from holdfast.storage import FileStore
        lease = FileStore(sys.argv[1]).lease("sessions/a")
        lease.acquire("holder", 0)
        child = os.fork()
        if not child:
            os.close(1)
            time.sleep(60)
        print(child, flush=True)
        os._exit(0)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(store_root)],
        stdout=subprocess.PIPE,
        check=True,
        timeout=120,
    )
    child = int(done.stdout)
    try:
        assert FileStore(store_root).lease(KEY).acquire("me", 0) == 2
    finally:
        os.kill(child, signal.SIGKILL)


def test_forked_child_is_not_the_holder(store, children):
    """The child's copy of a lease is not held: it must ask, and is told who has it."""
    lease = store.lease(KEY)
    lease.acquire("me", 0)

    def ask():
        try:
            lease.acquire("child", 0)
        except Locked as error:
            return error.pid == os.getppid()
        return "it got it"

    pid, answer = forked(ask)
    children.append(pid)
    assert answer == "True"


def test_release_in_a_child_closes_nothing_else(store, children):
    """Giving a copied lease back in a child does not close a file that got its number."""
    lease = store.lease(KEY)
    lease.acquire("me", 0)
    number = lease._descriptor

    def reuse():
        mine = os.open("/dev/null", os.O_RDONLY)
        while mine != number:
            mine = os.dup(mine)
        lease.release()
        os.fstat(number)
        return "still open"

    pid, answer = forked(reuse)
    children.append(pid)
    assert answer == "still open"


def test_forks_are_counted(children):
    """A process knows how many forks led to it."""
    before = forks.count
    pid, answer = forked(lambda: forks.count)
    children.append(pid)
    assert answer == str(before + 1)
    assert forks.count == before


def test_programs_inherit_no_descriptor(store):
    """A program that is started has none of the store's files open, and not the lock."""
    log = store.log(KEY)
    lease = store.lease(KEY)
    log.append(b"line\n", 0, 1, lease.acquire("me", 0))
    script = "import os, time; print(*[os.readlink(f'/proc/self/fd/{fd}') for fd in "
    script += "os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{fd}')], flush=True)"
    child = subprocess.Popen(
        [sys.executable, "-c", script + "; time.sleep(60)"], stdout=subprocess.PIPE, close_fds=False
    )
    try:
        assert store.path.encode() not in child.stdout.readline()
        lease.release()
        assert FileStore(store.path).lease(KEY).acquire("other", 0) == 2
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def test_lock_of_a_moved_key_guards_nothing(store):
    """Who opens a lock file and gets the lock after the key was moved away begins again."""
    log = store.log(KEY)
    lease = store.lease(KEY)
    log.append(b"line\n", 0, 1, lease.acquire("me", 0))
    log.close()
    lease.release()
    late = store.lease(KEY)
    taken, real = [], store._disk.lock

    def slow(descriptor, *, wait=False):
        if not taken:
            taken.append(descriptor)
            os.rename(f"{store.path}/sessions/a", f"{store.path}/sessions/b")
        return real(descriptor, wait=wait)

    store._disk.lock = slow
    assert late.acquire("late", 0) == 1  # of a new directory, not of the one that went
    assert FileStore(store.path).lease("sessions/b").acquire("other", 0) == 2


def test_damaged_card_still_locks(store):
    """A lock file with rubbish in it locks all the same; only the holder is unknown."""
    lock = f"{store.path}/sessions/a/lock"
    for rubbish in (b"", b"\0" * 512, b"[1]", b'{"epoch":"x"}', b"\xff\xfe"):
        lease = store.lease(KEY)
        lease.acquire("me", 0)
        lease.release()
        with open(lock, "wb") as file:
            file.write(rubbish)
        lease = store.lease(KEY)
        assert lease.acquire("me", 0) == 1
        with pytest.raises(Locked):
            store.lease(KEY).acquire("other", 0)
        lease.release()


@pytest.mark.parametrize("pid", [None, 0, -1, 2**31, 2**40, 2**70])
def test_no_process_has_an_id_that_cannot_be_one(pid):
    """A log or a lease may hold any number; asking about it neither fails nor finds anyone."""
    assert not is_running(pid)


def test_a_process_is_known_by_its_id():
    """This one runs; one that has ended does not."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert is_running(os.getpid())
    assert not is_running(ended.pid)


class SnatchingDisk(SimDisk):
    """Another process moves the directory of a key away as soon as it is there."""

    def __init__(self, moment):
        super().__init__()
        self.moment = moment
        self.snatched = 0

    def make_directory(self, name, parent):
        super().make_directory(name, parent)
        self._snatch("made", name, parent)
        if self._snatch("being made", name, parent):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)

    def open_lock(self, name, parent):
        if name == "lock" and self.moment == "entered" and not self.snatched:
            self.snatched += 1
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return super().open_lock(name, parent)

    def _snatch(self, moment, name, parent):
        snatched = name == "a" and self.moment == moment and not self.snatched
        if snatched:
            self.snatched += 1
            self.remove_directory(name, parent)
        return snatched


@pytest.mark.parametrize("moment", ["being made", "made", "entered"])
def test_moved_away_while_it_is_locked(moment):
    """A key that goes between two calls of a writer is made anew, and no error of the disk."""
    disk = SnatchingDisk(moment)
    lease = FileStore("/store", disk=disk).lease(KEY)
    assert lease.acquire("someone", 0) == 1
    assert disk.snatched == 1
    lease.release()
