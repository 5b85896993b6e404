"""The queue before a log on the other side of a network: order, failure, space, forks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from holdfast.errors import Fenced, Forbidden, StoreFull, Unavailable
from holdfast.storage import _deferred
from holdfast.storage._deferred import Packet, Sender, SendingLog, joined


class Backend:
    """Bytes of logs by key; ``fault`` is asked before each batch."""

    def __init__(self):
        self.stored: dict[str, bytes] = {}
        self.batches: list[list[Packet]] = []
        self.fault = lambda _packets: None
        self.sender = Sender(self.send, "test-sender")

    def send(self, packets):
        self.batches.append(list(packets))
        answer = self.fault(packets)
        if answer is not None:
            return answer
        results = []
        for run in joined(packets):
            key, start = run[0].key, run[0].start
            fits = len(self.stored.get(key, b"")) == start
            if fits:
                self.stored[key] = self.stored.get(key, b"") + b"".join(p.data for p in run)
            results += [None if fits else Fenced("taken")] * len(run)
        return results

    def log(self, key="sessions/a"):
        return _Log(self, key)


class _Log(SendingLog):
    def __init__(self, backend, key):
        super().__init__(backend.sender, key)
        self._backend = backend

    def stored(self, start):
        yield self._backend.stored.get(self.key, b"")[start:]

    def stored_size(self):
        return len(self._backend.stored.get(self.key, b""))

    def cut_stored(self, offset, epoch):
        self._backend.stored[self.key] = self._backend.stored[self.key][:offset]

    def replace_stored(self, chunks, epoch):
        self._backend.stored[self.key] = b"".join(chunks)

    def generation(self):
        return ""


@pytest.fixture
def backend():
    """A backend that works, and is closed in the end."""
    made = Backend()
    yield made
    made.sender.close()


def _fail(error):
    def fault(_packets):
        raise error

    return fault


def test_sessions_that_fail_together_have_errors_of_their_own(backend):
    """What one session did not save is never on the error of another one."""
    backend.fault = _fail(Unavailable("gone"))
    logs = [backend.log(f"sessions/{n}") for n in range(3)]
    errors = []
    for log in logs:
        log.append(log.key.encode(), 0, 1, 1)
    for log in logs:
        with pytest.raises(Unavailable) as caught:
            log.sync()
        caught.value.fields.setdefault("unsaved", log.unsaved())
        errors.append(caught.value)
    assert [error.unsaved for error in errors] == [log.key.encode() for log in logs]


def test_a_log_that_failed_raises_the_same_for_ever(backend):
    """The first failure stays: nothing is sent after a hole, and all of it is unsaved."""
    backend.fault = _fail(Unavailable("gone"))
    log = backend.log()
    log.append(b"1\n", 0, 1, 1)
    with pytest.raises(Unavailable):
        log.sync()
    backend.fault = lambda _packets: None
    for work in (log.sync, lambda: log.append(b"2\n", 1, 1, 1)):
        with pytest.raises(Unavailable, match="gone"):
            work()
    assert log.unsaved() == b"1\n"
    assert backend.stored == {}


def test_what_fails_in_the_middle_of_a_batch_stops_there(backend):
    """What came before the failure is stored, what came after it is not sent."""
    gate = threading.Event()

    def fault(packets):
        gate.wait(120)
        if len(packets) < 3:
            return None
        backend.stored["sessions/a"] += packets[0].data
        return [None, Fenced("no more"), Fenced("no more")]

    backend.fault = fault
    log = backend.log()
    log.append(b"0\n", 0, 1, 1)
    while not backend.batches:
        time.sleep(0.01)
    for number in range(1, 4):
        log.append(b"%d\n" % number, number, 1, 1)
    gate.set()
    with pytest.raises(Fenced):
        log.sync()
    assert backend.stored["sessions/a"] == b"0\n1\n"
    assert log.unsaved() == b"2\n3\n"


def test_a_full_store_keeps_what_waits_and_goes_on_once_there_is_space(backend):
    """StoreFull is said, nothing is lost, and the next try stores everything in order."""
    backend.fault = _fail(StoreFull())
    log = backend.log()
    log.append(b"1\n", 0, 1, 1)
    with pytest.raises(StoreFull):
        log.sync()
    assert log.unsaved() == b"1\n"
    with pytest.raises(StoreFull):
        log.sync()
    backend.fault = lambda _packets: None
    log.append(b"2\n", 1, 1, 1)
    log.sync()
    assert backend.stored["sessions/a"] == b"1\n2\n"
    assert log.unsaved() == b""


def test_an_append_that_is_refused_for_want_of_room_is_never_sent(backend, monkeypatch):
    """The caller was told that it was not taken: it must not turn up in the log later."""
    monkeypatch.setattr(_deferred, "_WAITING_BYTES_MAX", 10)
    monkeypatch.setattr(_deferred, "_WAIT_FOR_ROOM_S", 0.05)
    gate = threading.Event()
    backend.fault = lambda _packets: gate.wait(120) and None
    first, second = backend.log("sessions/a"), backend.log("sessions/b")
    first.append(b"x" * 20, 0, 1, 1)
    with pytest.raises(Unavailable, match="waiting to be sent"):
        second.append(b"refused\n", 0, 1, 1)
    monkeypatch.setattr(_deferred, "_WAIT_FOR_ROOM_S", 120)
    gate.set()
    second.append(b"taken\n", 0, 1, 1)
    second.sync()
    assert backend.stored["sessions/b"] == b"taken\n"
    assert second.unsaved() == b""


def test_the_count_of_waiting_bytes_comes_back_to_nothing(backend):
    """After stored, failed and refused appends alike, all room is there again."""
    good, bad = backend.log("sessions/good"), backend.log("sessions/bad")
    good.append(b"1\n", 0, 1, 1)
    good.sync()
    backend.fault = _fail(Unavailable("gone"))
    bad.append(b"1\n", 0, 1, 1)
    for work in (bad.sync, lambda: bad.append(b"2\n", 1, 1, 1)):
        with pytest.raises(Unavailable):
            work()
    backend.sender.close()
    assert backend.sender._bytes == 0


def test_two_objects_of_one_log_never_share_a_place(backend):
    """Lines that both took for the same offset: one is stored, the other one is told."""
    gate = threading.Event()
    backend.fault = lambda _packets: gate.wait(120) and None
    one, two = backend.log(), backend.log()
    one.append(b"one\n", 0, 1, 1)
    two.append(b"two\n", 0, 1, 1)
    gate.set()
    one.sync()
    with pytest.raises(Fenced):
        two.sync()
    assert backend.stored["sessions/a"] == b"one\n"


def test_an_error_of_any_kind_reaches_those_who_wait(backend):
    """A mistake in a backend does not leave anyone waiting for ever."""
    for number, error in enumerate([KeyError("x"), Forbidden("no rights"), SystemExit()]):
        backend.fault = _fail(error)
        log = backend.log(f"sessions/{number}")
        log.append(b"1\n", 0, 1, 1)
        with pytest.raises(Unavailable):
            log.sync()
    backend.fault = lambda packets: [None] * (len(packets) - 1)
    log = backend.log("sessions/short")
    log.append(b"1\n", 0, 1, 1)
    with pytest.raises(Unavailable):
        log.sync()


def test_it_sends_by_itself_where_no_thread_can_start(backend, monkeypatch):
    """When the interpreter is about to end a flush still comes to its end."""

    def refuse(_thread):
        raise RuntimeError("can't start new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    log = backend.log()
    log.append(b"1\n", 0, 1, 1)
    log.sync()
    assert backend.stored["sessions/a"] == b"1\n"


def test_it_can_be_used_again_after_close(backend):
    """Closing sends what waits; what comes later starts the thread again."""
    log = backend.log()
    log.append(b"1\n", 0, 1, 1)
    backend.sender.close()
    assert backend.stored["sessions/a"] == b"1\n"
    log.append(b"2\n", 1, 1, 1)
    log.sync()
    assert backend.stored["sessions/a"] == b"1\n2\n"


def test_a_forked_child_neither_sends_nor_waits_for_what_its_parent_has_waiting():
    """The child's copy of the queue is empty; the parent sends its own, once."""
    program = f"""
import os, sys, threading, importlib.util
spec = importlib.util.spec_from_file_location("t", {os.path.abspath(__file__)!r})
t = importlib.util.module_from_spec(spec); spec.loader.exec_module(t)
backend = t.Backend()
gate = threading.Event()
backend.fault = lambda packets: gate.wait(120) and None
log = backend.log()
log.append(b"1\\n", 0, 1, 1)
while not backend.batches:
    pass
pid = os.fork()
if pid == 0:
    log.sync()
    os._exit(0 if log.unsaved() == b"" and log.size() == 0 else 3)
_, code = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(code) == 0, code
gate.set()
log.sync()
assert backend.stored == {{"sessions/a": b"1\\n"}}
backend.sender.close()
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
