"""Snapshots: they make opening quick, and never make it wrong."""

from __future__ import annotations

import gzip
import os

import pytest

from holdfast.errors import Damaged
from holdfast.library import Holdfast
from holdfast.model import Limits, Position
from holdfast.replay import State
from holdfast.session import Snapshots, load
from holdfast.storage import MemoryStore


@pytest.fixture
def documents():
    """The documents of a session in memory."""
    return MemoryStore().documents("sessions/a")


def state(seq):
    """A state that knows how far it goes."""
    return State(seq=seq, event_count=seq + 1, title=f"at {seq}")


def save(snapshots, seq):
    """A snapshot at a seq."""
    snapshots.save(state(seq).to_json(), Position(seq + 1, 100 * (seq + 1), seq), 5)


@pytest.mark.req("S4-48")
@pytest.mark.req("S4-12")
def test_a_snapshot_comes_back_as_it_was_saved(documents):
    """State, position and time survive the round trip."""
    snapshots = Snapshots(documents)
    save(snapshots, 7)
    found = snapshots.load(7)
    assert found.state == state(7)
    assert found.position == Position(8, 800, 7)
    assert (found.seq, found.taken_at) == (7, 5)


@pytest.mark.req("S4-36")
def test_the_newest_ten_are_kept(documents):
    """Older snapshots are removed; how many are kept can be set."""
    snapshots = Snapshots(documents)
    for seq in range(15):
        save(snapshots, seq)
    assert snapshots.seqs() == list(range(14, 4, -1))
    few = Snapshots(documents, Limits(snapshots_kept=2))
    save(few, 20)
    assert few.seqs() == [20, 14]


@pytest.mark.req("S4-47")
def test_a_damaged_snapshot_is_passed_over_for_an_older_one(documents):
    """Every kind of damage to the newest leaves the one before it."""
    snapshots = Snapshots(documents)
    save(snapshots, 1)
    save(snapshots, 2)
    whole = documents.get("snapshots/2.json")[0]
    for bad in (b"", whole[:-5], whole.replace(b"at 2", b"at 3"), b"{}", b"\x28\xb5\x2f\xfdxx"):
        documents.put("snapshots/2.json", bad)
        with pytest.raises(Damaged):
            snapshots.load(2)
        assert snapshots.newest().seq == 1
    with pytest.raises(Damaged, match="no snapshot"):
        snapshots.load(99)


@pytest.mark.req("S4-15")
def test_a_large_snapshot_is_compressed_and_a_gzipped_one_is_read(documents):
    """Above the threshold snapshots are compressed; readers go by magic bytes, not by name."""
    snapshots = Snapshots(documents, Limits(snapshot_compress_bytes_min=10))
    save(snapshots, 1)
    data = documents.get("snapshots/1.json")[0]
    assert data.startswith(b"\x28\xb5\x2f\xfd")
    assert snapshots.load(1).state == state(1)
    plain = Snapshots(documents)
    save(plain, 2)
    documents.put("snapshots/2.json", gzip.compress(documents.get("snapshots/2.json")[0]))
    assert plain.load(2).state == state(2)


def test_the_newest_at_a_point_is_found(documents):
    """newest(at) gives the last snapshot that knows nothing later."""
    snapshots = Snapshots(documents)
    for seq in (1, 5, 9):
        save(snapshots, seq)
    assert snapshots.newest(6).seq == 5
    assert snapshots.newest(0) is None
    documents.put("snapshots/readme.json", b"not a number")
    assert snapshots.seqs() == [9, 5, 1]


@pytest.mark.req("S4-51")
def test_a_session_opens_through_its_snapshot(hf):
    """With a snapshot only the tail is folded, and the state is the same."""
    with hf.session("a") as s:
        for n in range(20):
            s.variables[f"v{n}"] = n
        covered = s.snapshot()
        assert s.snapshot() == covered
        s.variables["last"] = 1
        expected = s.state
    with hf.session("a") as s:
        assert s.state.variables == expected.variables
        assert s.restored
    assert [info.seq for info in hf.snapshots("a")] == [covered]
    assert hf.snapshots("a")[0].whole


def test_a_snapshot_of_another_log_is_ignored(hf):
    """A snapshot whose place does not fit the log's bytes is not believed."""
    for name in ("a", "b"):
        with hf.session(name) as s:
            s.user(f"I am {name}")
            s.variables["who"] = name
            s.snapshot()
            s.user("more and more")
    a, b = (hf.store.documents(f"sessions/{name}") for name in "ab")
    name = a.names("snapshots/")[0]
    a.put(name, b.get(name)[0])
    with hf.session("a") as s:
        assert s.variables["who"] == "a"


def test_a_log_that_ends_before_its_snapshot_fails_loudly(hf):
    """Acknowledged events are missing: that is damage, not a quiet step back."""
    with hf.session("a") as s:
        s.user("1")
        size = hf.store.log("sessions/a").size()
        s.user("2")
        s.snapshot()
    path = os.path.join(hf.location("a"), "events.jsonl")
    os.truncate(path, size)
    with pytest.raises(Damaged, match="snapshot"):
        hf.session("a")
    assert not hf.verify("a").ok
    with hf.session("a", repair="auto") as s:
        s.user("going on")
    with hf.session("a") as s:
        assert len(s.history) == 2


def test_a_longer_snapshot_of_another_log_is_no_damage(hf):
    """What an overtaken writer left beside a session that was made anew says nothing of it."""
    for id, words in (("old", 20), ("new", 1)):
        with hf.session(id) as s:
            for _ in range(words):
                s.user("a word")
            s.snapshot()
    stray = hf.store.documents("sessions/old").get("snapshots/21.json")
    hf.store.documents("sessions/new").put("snapshots/21.json", stray[0])
    with hf.session("new") as s:
        assert len(s.history) == 1


def test_a_log_that_grows_while_it_is_opened_is_no_damage(hf, monkeypatch):
    """Its length was taken before another one wrote, flushed and left a snapshot."""
    with hf.session("a") as s:
        s.user("1")
        early = hf.store.log("sessions/a").size()
        s.user("2")
        s.snapshot()
    log, documents = hf.store.log("sessions/a"), hf.store.documents("sessions/a")
    sizes = iter([early, log.size()])
    monkeypatch.setattr(type(log), "size", lambda _: next(sizes))
    assert load(log, documents).fold.state.message_count == 2


def test_snapshots_are_taken_when_the_log_has_grown_enough(store_root):
    """A busy session gets snapshots by itself, in the background."""
    limits = Limits(snapshot_growth_bytes_min=2_000)
    with Holdfast(store_root, limits=limits) as hf:
        with hf.session("a", snapshot_ms=0, autosave_ms=0) as s:
            for n in range(100):
                s.user(f"message number {n}")
        assert len(hf.snapshots("a")) >= 1
        assert hf.verify("a").ok


def test_a_failing_snapshot_is_told_not_raised(store_root, monkeypatch):
    """A snapshot that cannot be written disturbs nothing; subscribers hear of it."""
    notices = []
    with Holdfast(store_root, timers=False) as hf:
        hf.subscribe(lambda _id, item: notices.append(item))
        with hf.session("a") as s:
            s.user("x")

            def refuse(*_args, **_kwargs):
                raise Damaged("no")

            monkeypatch.setattr(s._journal.keeper, "save_snapshot", refuse)
            s._journal.keeper._take_snapshot()
            s.user("y")
    failed = [n for n in notices if getattr(n, "kind", "") == "snapshot_failed"]
    assert failed[0].detail["code"] == "SNAPSHOT_ERROR"


def test_state_at_any_event_is_the_same_with_and_without_snapshots(hf):
    """hf.state(id, at=seq) gives what the state was after that event, for every event."""
    with hf.session("a") as s:
        for n in range(10):
            s.variables["n"] = n
            if n % 3 == 0:
                s.snapshot()
        events = list(s.events())
    with_snapshots = [hf.state("a", at=event.seq).to_json() for event in events]
    documents = hf.store.documents("sessions/a")
    for name in documents.names("snapshots/"):
        documents.delete(name)
    assert [hf.state("a", at=event.seq).to_json() for event in events] == with_snapshots
    assert hf.state("a", at=events[-1].seq).variables == {"n": 9}
    assert hf.state("a").variables == {"n": 9}
