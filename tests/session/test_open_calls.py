"""How much work it is to open a session that exists."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import holdfast
from holdfast import Holdfast
from holdfast.storage import FileStore
from holdfast.storage.disk import Disk

CALLS_MAX = 120
MODULES_MAX = 30
OPEN_FILES = Path("/proc/self/fd")


@pytest.fixture
def hf(store_root):
    """A file store with a session of one question and one answer, which is closed."""
    with Holdfast(store_root) as hf:
        with hf.session("trip") as session:
            session.user("Where to?")
            session.assistant("Rome.")
        del session
        with hf.session("trip"):  # what is loaded by the first opening does not count
            pass
        yield hf


def calls_of_opening(hf):
    """Our own functions that opening the session calls, each with its module."""
    ours, calls = str(Path(holdfast.__file__).parent), []

    def note(frame, event, _argument):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ours):
            calls.append((code.co_filename, code.co_qualname))

    sys.setprofile(note)
    try:
        session = hf.session("trip")
    finally:
        sys.setprofile(None)
    session.close()
    return calls


def test_an_opening_is_short(hf):
    """Opening a session on the file store takes at most 120 calls in at most 30 modules."""
    calls = calls_of_opening(hf)
    assert len(calls) <= CALLS_MAX, calls
    assert len({module for module, _ in calls}) <= MODULES_MAX, calls


def test_an_opening_walks_to_the_folder_once(hf, monkeypatch):
    """The folder of a session is opened once, however much is asked of it."""
    entered = []
    enter = Disk.open_directory

    def noted(self, name, parent):
        entered.append(name)
        return enter(self, name, parent)

    monkeypatch.setattr(Disk, "open_directory", noted)
    hf.session("trip").close()
    assert entered.count("trip") == 1


@pytest.mark.skipif(not OPEN_FILES.exists(), reason="open files are counted in /proc")
def test_the_folder_is_let_go_after_an_opening(hf):
    """What was kept open for the length of an opening is closed when the session is there."""
    with hf.session("trip"):
        before = len(list(OPEN_FILES.iterdir()))
        with hf.session("trip", read_only=True):
            assert len(list(OPEN_FILES.iterdir())) == before


def test_a_folder_that_was_moved_away_is_walked_to_again(store_root):
    """A lock taken in a folder that has another name by now does not count: it guards nothing."""
    store = FileStore(store_root)
    store.log("sessions/a").append(b"one\n", 0, 1, 0)
    with store.kept_open("sessions/a") as exists:
        assert exists
        (store_root / "sessions" / "a").rename(store_root / "sessions" / "b")
        lease = store.lease("sessions/a")
        lease.acquire("me", 0)
    assert (store_root / "sessions" / "a" / "lock").exists()
    assert b"".join(store.log("sessions/b").read()) == b"one\n"
    lease.release()
    store.close()
