"""Flushing, staged mode, timers, failing media, asyncio."""

from __future__ import annotations

import asyncio
import errno
import subprocess
import sys
import threading
import time

import pytest

import holdfast
from holdfast.errors import Fenced, StoreError, StoreFull, SyncFailed, UsageError
from holdfast.library import Holdfast
from holdfast.storage import Disk, FileStore


class FailingDisk(Disk):
    """A disk whose writes and syncs fail while told to."""

    write_error = 0
    sync_error = 0
    short = False
    sync_delay = 0.0

    def __init__(self):
        self.syncs = 0
        self.begun = threading.Event()
        self.goes_on = threading.Event()
        self.goes_on.set()

    def write(self, descriptor, data):
        if self.short and len(data) > 1:
            self.short = False
            super().write(descriptor, data[: len(data) // 2])
            raise OSError(self.write_error, "injected")
        if self.write_error:
            raise OSError(self.write_error, "injected")
        return super().write(descriptor, data)

    def sync(self, descriptor):
        self.syncs += 1
        if self.sync_error:
            raise OSError(self.sync_error, "injected")
        self.begun.set()
        time.sleep(self.sync_delay)
        self.goes_on.wait(120)
        super().sync(descriptor)

    def hold(self):
        """From now on nothing is synced until ``goes_on`` is set."""
        self.syncs = 0
        self.begun.clear()
        self.goes_on.clear()

    async def is_syncing(self):
        """Return once a sync is under way."""
        assert await asyncio.to_thread(self.begun.wait, 120)


@pytest.fixture
def disk():
    """A disk that can be told to fail."""
    return FailingDisk()


@pytest.fixture
def failing(store_root, disk):
    """A Holdfast on that disk."""
    library = Holdfast(FileStore(store_root, disk=disk), timers=False)
    yield library
    disk.write_error = disk.sync_error = 0
    library.close()


def contents(hf, session_id="a"):
    """What the user said, by the log."""
    return [event.data["content"] for event in hf.events(session_id, types=["user"])]


@pytest.mark.req("S0-66")
def test_a_full_disk_loses_nothing_and_the_session_goes_on(failing, disk):
    """StoreFull says how much is needed; after there is space the same object writes again."""
    with failing.session("a") as s:
        s.user("before")
        disk.write_error, disk.short = errno.ENOSPC, True
        with pytest.raises(StoreFull) as caught:
            s.user("does not fit")
        assert caught.value.needed_bytes > 0
        assert s.messages()[-1]["content"] == "before"
        disk.write_error = 0
        s.user("after")
    assert contents(failing) == ["before", "after"]
    assert failing.verify("a").ok


def test_a_failed_write_is_taken_back_whole(failing, disk):
    """A half-written append leaves no bytes behind; the error is typed."""
    with failing.session("a") as s:
        s.user("before")
        disk.write_error, disk.short = errno.EIO, True
        with pytest.raises(StoreError) as caught:
            s.user("broken")
        assert caught.value.errno == errno.EIO
        disk.write_error = 0
    assert failing.verify("a").torn_bytes == 0
    assert contents(failing) == ["before"]


def test_a_failed_sync_is_never_retried(failing, disk):
    """After a sync error the session is read-only for good, and names what is in doubt."""
    s = failing.session("a")
    s.user("safe")
    s.flush()
    event = s.user("in doubt")
    disk.sync_error = errno.EIO
    with pytest.raises(SyncFailed) as caught:
        s.flush()
    assert caught.value.unsaved == [event]
    disk.sync_error = 0
    syncs = disk.syncs
    for use in (s.flush, lambda: s.user("more")):
        with pytest.raises(SyncFailed):
            use()
    assert disk.syncs == syncs
    s.close()
    with failing.session("a") as again:
        assert again.history[-1]["content"] == "in doubt"
        again.user("new object")
        again.flush()


async def test_a_failed_sync_reaches_those_who_await_it(failing, disk):
    """What flush raises, aflush raises too."""
    s = failing.session("a")
    s.user("x")
    disk.sync_error = errno.EIO
    with pytest.raises(SyncFailed):
        await s.aflush()
    disk.sync_error = 0
    with pytest.raises(SyncFailed):
        s.user("y")
    await s.aclose()


@pytest.mark.req("S0-68", "S2-89")
async def test_aflush_never_blocks_the_loop(failing, disk):
    """While a slow disk syncs, the event loop goes on."""
    async with failing.session("a") as s:
        s.user("x")
        await s.aflush()
        disk.hold()
        s.user("y")

        async def tick():
            await disk.is_syncing()
            for _ in range(10):
                await asyncio.sleep(0.01)
            disk.goes_on.set()

        ticker = asyncio.create_task(tick())
        await s.aflush()
        assert ticker.done(), "only the loop lets the disk go on"


async def test_one_sync_serves_all_who_wait(failing, disk):
    """Many waiters on one session cost a few syncs, not one each."""
    async with failing.session("a") as s:
        s.user("x")
        await s.aflush()
        disk.hold()

        async def one(n):
            s.user(str(n))
            if n == 49:
                disk.goes_on.set()
            await s.aflush()

        await asyncio.gather(*(one(n) for n in range(50)))
        assert disk.syncs <= 4


def test_one_sync_serves_all_threads_that_wait(failing, disk):
    """Threads that flush at the same time share a sync."""
    with failing.session("a") as s:
        s.user("x")
        s.flush()
        disk.syncs, disk.sync_delay = 0, 0.05
        for n in range(20):
            s.user(str(n))
        threads = [threading.Thread(target=s.flush) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert disk.syncs == 1
        disk.sync_delay = 0


async def test_a_flush_is_not_half_cancelled(failing, disk):
    """A cancelled aflush finishes its sync first, then delivers the cancellation."""
    async with failing.session("a") as s:
        s.user("x")
        await s.aflush()
        s.user("y")
        disk.hold()
        task = asyncio.create_task(s.aflush())
        await disk.is_syncing()
        task.cancel()
        disk.goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert disk.syncs == 1


async def test_closing_is_shielded_from_cancellation(failing, disk):
    """A cancelled aclose still ends the session in the log and gives the lock back."""
    s = failing.session("a")
    s.user("x")
    disk.hold()
    task = asyncio.create_task(s.aclose())
    await disk.is_syncing()
    task.cancel()
    disk.goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert s.closed
    assert list(failing.events("a"))[-1].type == "closed"
    with failing.session("a") as again:
        again.user("y")


@pytest.mark.req("S0-57")
def test_a_staged_session_is_in_memory_until_it_is_flushed(hf, store_root):
    """Nothing is on disk before flush; state and messages are up to date all the time."""
    s = hf.session("a", staged=True)
    s.user("one")
    s.variables["x"] = 1
    s.tool_result("c", "z" * 400_000)
    with s.tool("T"):
        pass
    assert list(store_root.iterdir()) == []
    assert s.messages()[0]["content"] == "one"
    assert len(s.history) == 1
    s.flush()
    assert contents(hf) == ["one"]
    s.user("two")
    assert contents(hf) == ["one"]
    s.close()
    assert contents(hf) == ["one", "two"]
    assert hf.verify("a").ok


def test_what_was_staged_can_be_given_up(hf, store_root):
    """close(save=False) leaves the store as it was."""
    s = hf.session("a", staged=True)
    s.user("one")
    s.close(save=False)
    assert list(store_root.iterdir()) == []


def test_staged_events_do_not_overwrite_someone_elses(hf, store_root):
    """If the session was written meanwhile, the staged flush is fenced."""
    staged = hf.session("a", staged=True)
    staged.user("mine")
    other = Holdfast(FileStore(store_root, disk=FailingDisk()), timers=False)
    with other, other.session("a") as s:
        s.user("theirs")
    with pytest.raises(Fenced):
        staged.flush()
    staged.close(save=False)
    assert contents(hf) == ["theirs"]


@pytest.mark.req("S0-48")
@pytest.mark.req("S0-58")
def _settled(disk):
    """The count of syncs once it has stayed the same for a while: a loaded machine is slow."""
    syncs, since = disk.syncs, time.monotonic()
    while time.monotonic() - since < 0.5:
        time.sleep(0.02)
        if disk.syncs != syncs:
            syncs, since = disk.syncs, time.monotonic()
    return syncs


def test_autosave_flushes_what_is_dirty_and_ends_with_the_session(store_root, disk):
    """The timer syncs dirty sessions only, and never a closed one."""
    with Holdfast(FileStore(store_root, disk=disk)) as hf:
        s = hf.session("a", autosave_ms=20, snapshot_ms=0)
        s.user("x")
        deadline = time.monotonic() + 60
        while not disk.syncs and time.monotonic() < deadline:
            time.sleep(0.01)
        assert disk.syncs >= 1
        syncs = _settled(disk)
        time.sleep(0.15)
        assert disk.syncs == syncs
        s.close()
        syncs = _settled(disk)  # one that had begun before the end may end after it
        time.sleep(0.1)
        assert disk.syncs == syncs


def test_a_failing_autosave_is_told_not_raised(store_root, disk):
    """A sync error on the timer thread becomes a notice; the next append raises it."""
    notices = []
    with Holdfast(FileStore(store_root, disk=disk)) as hf:
        hf.subscribe(lambda _id, item: notices.append(getattr(item, "kind", "")))
        s = hf.session("a", autosave_ms=20, snapshot_ms=0)
        disk.sync_error = errno.EIO
        s.user("x")
        deadline = time.monotonic() + 60
        while "flush_failed" not in notices and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "flush_failed" in notices
        with pytest.raises(SyncFailed):
            s.user("y")
        disk.sync_error = 0


def _taken(hf):
    """The events after which there is a snapshot, in order."""
    return sorted(snapshot.seq for snapshot in hf.snapshots("a"))


@pytest.mark.req("S4-52")
@pytest.mark.req("S4-61")
def test_the_snapshot_timer_takes_one_when_something_changed(store_root):
    """At each interval a snapshot is taken if there is something new, and told to subscribers."""
    notices = []
    with holdfast.open(store_root) as hf:
        hf.subscribe(lambda _id, item: notices.append(item))
        with hf.session("a", snapshot_ms=20, autosave_ms=0) as s:
            s.user("x")
            deadline = time.monotonic() + 60
            # One of the session's first events may have been taken before there was more.
            while s.seq not in _taken(hf) and time.monotonic() < deadline:
                time.sleep(0.01)
            taken = _taken(hf)
            assert taken[-1] == s.seq
            time.sleep(0.1)
            assert _taken(hf) == taken
    made = [n for n in notices if getattr(n, "kind", "") == "snapshot_created"]
    assert made[0].detail["size_bytes"] > 0


def test_timers_never_keep_a_process_alive(store_root):
    """A process that forgets to close ends all the same."""
    source = "import sys, holdfast\ns = holdfast.open(sys.argv[1]).session('a')\ns.user('x')\nprint('end')\n"
    done = subprocess.run(
        [sys.executable, "-c", source, str(store_root)], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == "end"


def test_flushing_a_session_without_events_is_harmless(hf, store_root):
    """Before the first append a flush does nothing."""
    with hf.session("a") as s:
        s.flush()
        with pytest.raises(UsageError):
            hf.session("a", staged=True, durability="sometimes")
    assert list(store_root.iterdir()) == []
