"""Redaction and erasure of sessions with many forks: the work grows with their number, and no faster."""

from __future__ import annotations

import sys
from collections import Counter

import pytest
from campaign_log import FULL, record

import holdfast
from holdfast.errors import Forbidden, Locked
from holdfast.session import marked_events
from holdfast.storage import FileStore
from holdfast.testing import SimDisk

SECRET = "ghp_" + "aB3dE6gH9j" * 3 + "K1m2N3"


def family(hf, forks):
    with hf.session("p") as s:
        for number in range(20):
            s.user(f"word {number} {SECRET if number == 5 else ''}")
    return [hf.fork("p", at=12) for _ in range(forks)]


def work(forks, act):
    """How many calls of the disk, and of our own functions, something takes with so many forks."""
    disk = SimDisk()
    hf = holdfast.open(FileStore("/store", disk=disk))
    family(hf, forks)
    before, calls = len(disk.calls), Counter()

    def count(frame, event, _):
        if event == "call" and "holdfast" in frame.f_code.co_filename:
            calls[frame.f_code.co_name] += 1

    sys.setprofile(count)
    try:
        act(hf)
    finally:
        sys.setprofile(None)
    made = len(disk.calls) - before, sum(calls.values())
    hf.close()
    return made


@pytest.mark.parametrize("act", [lambda hf: hf.redact("p"), lambda hf: hf.erase("p")], ids=["redact", "erase"])
def test_the_work_is_linear_in_forks(act):
    """Each fork costs the same, however many there are: of disk and of processor."""
    # The first one loads modules; of more than these, several are done at a time.
    _, few, some, many = (work(count, act) for count in (1, 3, 9, 15))
    for kind in (0, 1):
        first, second = some[kind] - few[kind], many[kind] - some[kind]
        assert second <= 1.1 * first


@pytest.mark.parametrize("act", ["redact", "erase"])
def test_one_held_fork_keeps_all_as_they_are(hf, act):
    """A fork under legal hold, or open elsewhere, is found before anything is changed."""
    forks = family(hf, 3)
    hf.policies.hold(forks[1], "case 7")
    logs = {id: [*hf.store.log(f"sessions/{id}").read()] for id in ("p", *forks)}
    with pytest.raises(Forbidden):
        getattr(hf, act)("p")
    hf.policies.release(forks[1])
    with hf.session(forks[2]) as s:
        s.user("busy")
        with pytest.raises(Locked), holdfast.open(hf.store.path) as other:
            getattr(other, act)("p")
    assert {id: [*hf.store.log(f"sessions/{id}").read()] for id in ("p", forks[0])} == {
        id: logs[id] for id in ("p", forks[0])
    }


def test_every_fork_is_rid_of_a_shared_secret(hf, tmp_path):
    """What was found clean in one log is not looked at again, and what was not is replaced in each."""
    forks = family(hf, 5)
    report = hf.redact("p")
    assert set(report.sessions.values()) == {1}
    assert len(report.sessions) == 6
    assert all(SECRET not in str([event.data for event in hf.events(id)]) for id in ("p", *forks))
    assert hf.redact("p").found == {}


def test_events_by_a_word_in_their_lines(hf):
    """Lines with a word are read as events, wherever they are in the log; a word in a text is no type."""
    [fork] = family(hf, 1)
    with hf.session(fork) as s:
        s.user('"forked" is a word')
    log = hf.store.log(f"sessions/{fork}")
    found = list(marked_events(log, b'"forked"', b'"session_start"', b"forked"))
    assert [event.type for event in found] == ["session_start", "forked", "user"]
    assert list(marked_events(log, b"nowhere")) == []


@pytest.mark.slow
@pytest.mark.skipif(not FULL, reason="part of make torture")
@pytest.mark.parametrize("act", ["redact", "erase"])
def test_ten_thousand_forks(tmp_path, act):
    """None is left as it was, in no byte of the store."""
    with holdfast.open(tmp_path) as hf:
        forks = family(hf, 10_000)
        done = hf.redact("p").sessions if act == "redact" else hf.erase("p").erased
        gone = {key.rpartition("/")[2] for key in done}
        left = [id for id in forks if id not in gone]
        left += [str(path) for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
        record("forks", len(done) - 1, wrong=len(left))
        assert left == []
