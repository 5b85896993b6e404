"""What a key press, a cancellation, a fork or a second thread may not break."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import deque

import pytest

import holdfast
from holdfast.errors import UsageError
from holdfast.replay import Fold
from holdfast.session._journal import _Closing
from holdfast.storage import FileStore
from holdfast.storage._worker import Signal


def interrupted_once(monkeypatch, owner, name):
    """Let a function be interrupted by a key press, once, before it does anything."""
    real = getattr(owner, name)
    left = [1]

    def interrupted(*arguments, **options):
        if left:
            left.pop()
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(owner, name, interrupted)


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("many", [False, True])
def test_a_key_press_between_log_and_state_leaves_them_in_step(hf, monkeypatch, staged, many):
    """After an interrupted append the state, the messages and the log tell the same."""
    session = hf.session("a", staged=staged)
    session.user("one")
    session.assistant("two")
    session.messages()
    interrupted_once(monkeypatch, Fold, "apply")
    events = [("user", {"content": "three"}), ("assistant", {"content": "four"})]
    with pytest.raises(KeyboardInterrupt):
        session.extend(events) if many else session.user("three")
    session.user("five")
    session.flush()
    assert hf.verify("a").ok
    assert session.state == hf.state("a")
    assert session.seq == session.state.seq
    assert session.messages() == hf.recover("a", "neutral").messages


def test_a_session_that_is_opened_while_it_is_closed_can_be_used(hf):
    """Threads that open and close one id at the same time never meet a closed session."""
    failures = []

    def work():
        try:
            for _ in range(25):
                with hf.session("a") as session:
                    session.user("x")
        except holdfast.errors.HoldfastError as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(list(hf.events("a", types=["user"]))) == 100
    assert hf.verify("a").ok
    assert hf.state("a").last_open.closed


def test_who_sees_a_session_closed_can_have_it(hf, monkeypatch):
    """It is closed when its lease is free, and not a moment before."""
    seen = []
    session = hf.session("a")
    session.user("x")
    real = session._journal.opening._lease.release
    monkeypatch.setattr(session._journal.opening._lease, "release", lambda: (seen.append(session.closed), real()))
    session.close()
    assert seen[0] is False
    assert session.closed


def test_the_last_of_several_who_close_gives_the_lease_back(hf):
    """One who closes a session late does not take it from one who opened it meanwhile."""
    one, two = _Closing(), _Closing()
    session = hf.session("a")
    session.user("x")
    assert session._journal._leave("one", one)
    session._journal._end(save=True)
    assert hf.session("a") is session
    session.user("y")
    assert session._journal._leave("two", two)
    session._journal._finish("one")
    assert not session.closed
    assert session._journal._end(save=True)
    session.flush()
    session._journal._finish("two")
    assert session.closed
    assert [event.type for event in hf.events("a")][-3:] == ["opened", "user", "closed"]


def test_two_who_close_at_once_record_one_end(hf):
    """However closings and openings overlap, every opening has one end."""
    one, two = _Closing(), _Closing()
    session = hf.session("a")
    session.user("x")
    assert session._journal._leave("one", one)
    assert hf.session("a") is session
    assert session._journal._leave("two", two)
    assert session._journal._end(save=True)
    assert not session._journal._end(save=True)
    session._journal._finish("one")
    session._journal._finish("two")
    assert session.closed
    assert [event.type for event in hf.events("a")].count("closed") == 1


async def test_a_session_opened_again_on_the_loop_while_it_is_closed_goes_on(hf, monkeypatch):
    """Opening an id whose closing has not ended yet neither waits for it nor fails."""
    session = hf.session("a", title="first")
    session.user("x")
    session.title = "second"
    closing = asyncio.create_task(session.aclose())
    await asyncio.sleep(0)
    again = hf.session("a")
    again.user("y")
    await closing
    again.user("z")
    assert again.title == "second"
    again.close()
    assert again.closed
    types = [event.type for event in hf.events("a")]
    assert types.count("closed") == types.count("opened")
    assert hf.verify("a").ok


async def test_a_tool_that_is_cancelled_before_its_block_has_a_result(hf, monkeypatch):
    """A cancellation during the flush of the intent is recorded: the tool did not run."""
    session = hf.session("a")
    session.user("x")
    log = session._journal.writer.log
    sync = log.sync
    begun, goes_on = threading.Event(), threading.Event()
    monkeypatch.setattr(log, "sync", lambda: (begun.set(), goes_on.wait(120), sync()))
    ran = []

    async def use():
        async with session.tool("Read", {}):
            ran.append(True)

    task = asyncio.create_task(use())
    assert await asyncio.to_thread(begun.wait, 120)
    task.cancel()
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    *_, call, result = session.events()
    assert not ran
    assert (call.type, result.type) == ("tool_call", "tool_result")
    assert result.data["result"]["cancelled"]


def test_a_forked_child_does_not_wait_for_a_lock_of_its_parent(hf):
    """In a child that was forked while a thread held the session, an append fails at once."""
    session = hf.session("a")
    session.user("x")
    held, done = threading.Event(), threading.Event()

    def hold():
        with session._journal.lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(120)
        try:
            session.user("y")
        except UsageError:
            os._exit(0)
        os._exit(1)
    status = os.waitpid(child, 0)[1]
    done.set()
    thread.join()
    assert status == 0


def test_a_closing_that_was_interrupted_does_not_hold_up_the_library(tmp_path, monkeypatch):
    """Closing the library ends, and gives back every lease, after a key press during a close."""
    hf = holdfast.open(tmp_path / "store")
    session = hf.session("a")
    session.user("x")
    interrupted_once(monkeypatch, session._journal, "_finish")
    with pytest.raises(KeyboardInterrupt):
        session.close()
    assert not session.closed
    hf.close()
    assert session.closed
    with holdfast.open(tmp_path / "store") as again, again.session("a") as once_more:
        once_more.user("y")


def test_a_session_that_cannot_be_made_gives_its_lease_back(hf, monkeypatch):
    """An opening that fails half-way can be tried again."""
    with hf.session("a") as session:
        session.user("x")
    interrupted_once(monkeypatch, holdfast.session.Session, "__init__")
    with pytest.raises(KeyboardInterrupt):
        hf.session("a")
    with hf.session("a") as session:
        session.user("y")


def test_one_session_that_cannot_be_closed_does_not_keep_the_others(tmp_path, monkeypatch):
    """Closing the library closes every session, also after one of them failed."""
    hf = holdfast.Holdfast(FileStore(tmp_path / "store"))
    first, second = hf.session("a"), hf.session("b")
    first.user("x")
    second.user("y")

    def refuse(*_):
        raise OSError(28, "no space")

    monkeypatch.setattr(first._journal.writer.log, "_write", refuse)
    with pytest.raises(holdfast.errors.StoreFull):
        hf.close()
    assert first.closed
    assert second.closed


class _Interrupted:
    """A lock for which someone waits when the key is pressed."""

    def __init__(self, lock):
        self._lock = lock

    def __enter__(self):
        raise KeyboardInterrupt

    def __exit__(self, *_):
        self._lock.release()  # which is not held


def test_a_key_press_while_an_append_waits_for_its_turn_takes_nothing_from_others(hf):
    """The lock of whoever has it stays held, nothing is recorded, and the session goes on."""
    session = hf.session("a")
    session.user("one")
    lock = session._journal.lock
    session._journal.lock = _Interrupted(lock)
    with pytest.raises(KeyboardInterrupt):
        session.user("two")
    session._journal.lock = lock
    session.user("three")
    texts = [event.data["content"] for event in hf.events("a", types=["user"])]
    assert texts == ["one", "three"]
    assert session.state == hf.state("a")


@pytest.mark.stores("memory", "sqlite")
def test_the_last_event_comes_after_an_append_that_was_interrupted(hf, monkeypatch):
    """A block that is left by a key press just after a write closes a log that is whole."""
    session = hf.session("a")
    session.user("first")
    log = session._journal.writer.log
    append = log.append

    def interrupted(*line):
        monkeypatch.setattr(log, "append", append)
        append(*line)
        raise KeyboardInterrupt

    monkeypatch.setattr(log, "append", interrupted)
    with pytest.raises(KeyboardInterrupt), session:
        session.extend([("user", {"content": "second"}), ("user", {"content": "third"})])
    assert [event.type for event in hf.events("a")][-4:] == ["user", "user", "user", "closed"]
    assert hf.verify("a").ok


def test_a_block_that_is_interrupted_as_it_is_left_is_closed(hf, monkeypatch):
    """No lease stays with nobody if the key press comes before the closing begins."""

    def pressed(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("holdfast.session.session.Session._leave_block", pressed)
    with pytest.raises(KeyboardInterrupt), hf.session("a") as session:
        session.user("first")
    assert session.closed


class _Waiters(deque):
    """Those who wait for a signal; the first to be taken out is not, since a key is pressed."""

    is_pressed = True

    def remove(self, waiter):
        if self.is_pressed:
            self.is_pressed = False
            raise KeyboardInterrupt
        super().remove(waiter)


def test_who_was_woken_by_one_that_was_interrupted_can_be_woken_again():
    """A key press while a thread is notified does not have the next notification go to nobody."""
    signal, woken = Signal(), []
    signal._waiters = _Waiters()
    ready = threading.Semaphore(0)

    def wait():
        with signal:
            for _ in range(2):
                ready.release()
                woken.append(signal.wait(20))

    thread = threading.Thread(target=wait)
    thread.start()
    ready.acquire()
    with pytest.raises(KeyboardInterrupt), signal:
        signal.notify()
    ready.acquire()
    with signal:
        signal.notify()
    thread.join()
    assert woken == [True, True]


def test_a_log_that_is_interrupted_as_it_is_closed_keeps_no_file_open(tmp_path, monkeypatch):
    """A key press while the end of a log is noted does not leave its descriptor to whoever holds the log."""
    store = FileStore(tmp_path / "store")
    log, lease = store.log("sessions/a"), store.lease("sessions/a")
    log.append(b'{"seq":0}\n', 0, 1, lease.acquire("me", 0))
    log.sync()
    interrupted_once(monkeypatch, log, "_note_settled")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(KeyboardInterrupt):
        log.close()
    assert len(os.listdir("/proc/self/fd")) == before - 1
    lease.release()
    store.close()
