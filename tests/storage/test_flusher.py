"""One thread that syncs for all who wait."""

from __future__ import annotations

import asyncio
import os
import threading
import time

import pytest

from holdfast.errors import SyncFailed
from holdfast.storage import FileStore
from holdfast.storage._worker import _BATCHES_REMEMBERED, Flusher
from holdfast.testing import FaultyDisk, SimDisk


class SlowLog:
    """A log whose sync waits until it may go on."""

    def __init__(self):
        self.syncs = 0
        self.started = threading.Event()
        self.go_on = threading.Event()

    def sync(self):
        self.syncs += 1
        self.started.set()
        assert self.go_on.wait(120)


def test_one_sync_serves_all_who_wait():
    """Everyone who asks while a sync is under way is served by one more sync."""
    flusher, log = Flusher(), SlowLog()
    futures = [flusher.sync({"a": log})]
    assert log.started.wait(120)
    futures += [flusher.sync({"a": log}) for _ in range(50)]
    log.go_on.set()
    for future in futures:
        future.result(120)
    assert log.syncs == 2
    flusher.close()


def _crowd(flusher):
    """Two logs that were served together just now."""
    first, logs = SlowLog(), [SlowLog(), SlowLog()]
    for log in logs:
        log.go_on.set()
    begun = flusher.sync({"first": first})
    assert first.started.wait(120)
    both = [flusher.sync({"any": log}) for log in logs]
    first.go_on.set()
    for future in (begun, *both):
        future.result(120)
    return logs


def _until(condition):
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.001)


def test_those_who_asked_just_before_are_waited_for():
    """Where one sync serves all, it is not done for the first of a crowd that comes again."""
    flusher = Flusher(gather_s=600)
    one, other = _crowd(flusher)
    first = flusher.sync({"a": one})
    _until(lambda: flusher._wanted == 2)
    assert one.syncs == 1
    flusher.sync({"b": other}).result(120)
    first.result(120)
    assert flusher._served[-1] == {id(one), id(other)}
    flusher.close()


def test_who_is_alone_is_not_kept_waiting():
    """Neither the first one nor one that comes again and again waits for others."""
    flusher, log = Flusher(gather_s=600), SlowLog()
    log.go_on.set()
    for _ in range(3):
        flusher.sync({"a": log}).result(120)
    assert log.syncs == 3
    flusher.close()


def test_a_crowd_that_went_is_not_waited_for_for_ever():
    """After a few batches of one, nobody is expected any more."""
    flusher = Flusher(gather_s=0.02)
    one, _ = _crowd(flusher)
    for _ in range(_BATCHES_REMEMBERED):
        flusher.sync({"a": one}).result(120)
    assert not frozenset().union(*flusher._served)
    flusher.close()


def test_closing_ends_the_waiting_for_others():
    """What waits is served when the store closes, though some of the crowd did not come."""
    flusher = Flusher(gather_s=600)
    one, _ = _crowd(flusher)
    waiting = flusher.sync({"a": one})
    _until(lambda: flusher._wanted == 2)
    flusher.close()
    assert waiting.result(0) is None


def test_error_goes_to_all_who_wait():
    """A failed sync is told to everyone who waited for it, and to no one else."""
    disk = FaultyDisk(SimDisk(), call="sync", nth=1)
    store = FileStore("/store", disk=disk)
    logs = {f"sessions/{name}": store.log(f"sessions/{name}") for name in "ab"}
    for log in logs.values():
        log.append(b"line\n", 0, 1, 1)
    with pytest.raises(SyncFailed):
        store.sync(logs).result(120)
    store.sync({"sessions/b": logs["sessions/b"]}).result(120)
    with pytest.raises(SyncFailed):
        store.sync({"sessions/a": logs["sessions/a"]}).result(120)
    store.close()


async def test_cancelled_waiter_disturbs_nobody():
    """Who stops waiting does not call the sync off for the others."""
    flusher, log = Flusher(), SlowLog()
    first = asyncio.wrap_future(flusher.sync({"a": log}))
    second = flusher.sync({"a": log})
    first.cancel()
    log.go_on.set()
    assert await asyncio.wrap_future(second) is None
    flusher.close()


def test_sync_after_close():
    """A flusher that was closed serves again when it is asked."""
    flusher, log = Flusher(), SlowLog()
    log.go_on.set()
    flusher.close()
    for _ in range(20):
        flusher.sync({"a": log}).result(120)
        flusher.close()
    assert log.syncs == 20
    assert flusher._thread is None


def test_without_threads(monkeypatch):
    """Where no thread can be started any more, the caller syncs itself."""
    flusher, log = Flusher(), SlowLog()
    log.go_on.set()

    def refuse(thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert flusher.sync({"a": log}).result(0) is None
    assert log.syncs == 1


def test_works_in_a_forked_child():
    """In a forked child it starts anew, though the thread and its lock stayed behind."""
    flusher, log = Flusher(), SlowLog()
    log.go_on.set()
    flusher.sync({"a": log}).result(120)
    with flusher._condition:  # as if the thread had it at the moment of the fork
        pid = os.fork()
    if not pid:
        status = 1
        try:
            flusher._condition.acquire()
            flusher.sync({"a": log}).result(120)
            flusher.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    flusher.close()
