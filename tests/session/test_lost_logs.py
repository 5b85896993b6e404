"""A log that is lost, whole or from some place on, is damaged: never taken for a crash's end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.errors import Damaged
from holdfast.model import Notice

WAYS = {
    "emptied": lambda data: b"",
    "zeroed": lambda data: b"\0" * len(data),
    "garbage": lambda data: b"\0garbage\n" * 50,
    "random": lambda data: bytes(range(256)).replace(b"\n", b"x") * 4,
    "another file": lambda data: b"Dear diary,\ntoday nothing happened.\n",
    "half zeroed": lambda data: data[: len(data) // 2] + b"\0" * (len(data) // 2),
    "cut short": lambda data: b"".join(data.splitlines(keepends=True)[:-4]),
}
WHOLE = ("emptied", "zeroed", "garbage", "random", "another file")
ways = pytest.mark.parametrize("way", WAYS)


def record(hf, count=20):
    with hf.session("a", agent_id="helper") as session:
        for number in range(count):
            session.user(f"q{number}")
            session.assistant(f"a{number}")


def log_of(root) -> Path:
    return Path(root) / "sessions" / "a" / "events.jsonl"


def lose(root, way):
    """Write over the log in place; what it was."""
    path = log_of(root)
    before = path.read_bytes()
    path.write_bytes(WAYS[way](before))
    return before


@ways
def test_a_lost_log_is_damaged(store_root, way):
    """The plain API raises rather than to begin afresh, and changes nothing."""
    with holdfast.open(store_root) as hf:
        record(hf)
    lose(store_root, way)
    after = log_of(store_root).read_bytes()
    with holdfast.open(store_root) as hf:
        with pytest.raises(Damaged) as caught:
            hf.session("a")
        assert caught.value.session_id == "a"
        assert "repair" in caught.value.remedy
        report = hf.verify("a")
        assert not report.ok
        assert report.gaps[-1].at_end
        assert "lost, which had been safe" in " ".join(report.explain())
        with hf.session("a", read_only=True) as session:
            assert (len(session.history) == 0) == (way in WHOLE)
    assert log_of(store_root).read_bytes() == after


@ways
def test_a_lost_log_is_repaired_told_and_remembered_for_good(store_root, way, caplog):
    """Asked for, what is whole is kept, the rest set aside, and verify names it for ever."""
    with holdfast.open(store_root) as hf:
        record(hf)
    lose(store_root, way)
    left = log_of(store_root).read_bytes()
    with holdfast.open(store_root) as hf:
        heard = []
        hf.subscribe(lambda _, what: heard.append(what) if isinstance(what, Notice) else None)
        with hf.session("a", repair="auto", agent_id="helper") as session:
            kept = len(session.history)
            session.user("on we go")
        assert "damaged and has been repaired" in caplog.text
        assert [what.kind for what in heard].count("repaired") == 1
        assert (kept == 0) == (way in WHOLE)
        documents = hf.store.documents("sessions/a")
        aside = [documents.get(name)[0] for name in documents.names("quarantine/")]
        assert left in aside or (not left and not aside)
    with holdfast.open(store_root) as hf:
        with hf.session("a") as session:
            assert session.history[-1]["content"] == "on we go"
            assert len(session.history) == kept + 1
            assert session.agent_id == "helper"
            assert session.state.generation == 1
        for _ in range(2):
            report = hf.verify("a")
            assert report.ok
            assert report.repairs[0].gaps[-1].at_end
            told = " ".join(report.explain())
            assert "are lost for good" in told
            assert "Everything is whole" not in told
            hf.reindex()


@ways
def test_repair_mends_a_lost_log(store_root, way):
    """`hf.repair` says what is gone; then it opens, and there is nothing more to repair."""
    with holdfast.open(store_root) as hf:
        record(hf)
        lose(store_root, way)
        [gap] = [gap for gap in hf.repair("a") if gap.at_end]
        assert gap.size > 0
        assert hf.verify("a").ok
        assert hf.repair("a") == []
        with hf.session("a") as session:
            session.user("on")
        assert hf.verify("a").ok


@pytest.mark.parametrize("kind", ["memory", "sqlite", "files"])
@pytest.mark.parametrize("way", ["garbage", "random", "another file"])
def test_bytes_that_no_crash_leaves_are_damage_in_every_store(kind, way, store_root):
    """Also if nothing is known of what was there before."""
    url = {"memory": "memory:", "sqlite": f"sqlite://{store_root}.db", "files": str(store_root)}
    with holdfast.open(url[kind]) as hf:
        lease = hf.store.lease("sessions/a")
        log = hf.store.log("sessions/a")
        log.append(WAYS[way](b""), 0, 1, lease.acquire("test", 60_000))
        log.sync()
        log.close()
        lease.release()
        with pytest.raises(Damaged):
            hf.session("a")
        with hf.session("a", repair="auto") as session:
            session.user("hi")
        assert hf.verify("a").repairs


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_snapshot_knows_what_a_log_has_lost(kind, store_root):
    """Without files, what a snapshot was taken of is what is known to have been there."""
    url = {"memory": "memory:", "sqlite": f"sqlite://{store_root}.db"}
    with holdfast.open(url[kind]) as hf:
        with hf.session("a") as session:
            session.user("one")
            session.assistant("two")
            session.snapshot()
        lease = hf.store.lease("sessions/a")
        hf.store.log("sessions/a").cut(0, lease.acquire("test", 60_000))
        lease.release()
        with pytest.raises(Damaged):
            hf.session("a")
        with hf.session("a", repair="auto") as session:
            assert session.history == []
            session.user("three")
        [repair] = hf.verify("a").repairs
        assert (repair.gaps[0].first_seq, repair.gaps[0].last_seq) == (0, 3)


def test_damage_that_moves_the_rest_is_no_loss_of_the_end(store_root):
    """A line that became shorter costs itself: what comes after it is all there."""
    with holdfast.open(store_root) as hf:
        record(hf)
        lines = log_of(store_root).read_bytes().splitlines(keepends=True)
        log_of(store_root).write_bytes(b"".join([*lines[:4], b"rubbish\n", *lines[5:]]))
        [gap] = hf.verify("a").gaps
        assert (gap.first_seq, gap.at_end) == (4, False)
        assert hf.repair("a") == [gap]
        assert hf.verify("a").ok


def test_a_log_that_was_written_anew_is_not_measured_by_the_old_one(store_root, monkeypatch):
    """A shorter generation is whole, also in a file of the number that an older one had."""
    from holdfast.storage.files import log as _file_log

    def look(*given, real=_file_log.look):
        found = real(*given)
        return None if found is None else msgspec.structs.replace(found, mark=7)

    monkeypatch.setattr(_file_log, "look", look)
    with holdfast.open(store_root) as hf:
        record(hf)
        log, lease = hf.store.log("sessions/a"), hf.store.lease("sessions/a")
        assert log.settled() == log.size()
        lines = log_of(store_root).read_bytes().splitlines(keepends=True)
        log.replace(lines[:10], lease.acquire("test", 60_000))
        lease.release()
        assert log.settled() == 0
        assert hf.verify("a").ok
        with hf.session("a") as session:
            session.user("on")


def first_write(root) -> bytes:
    """The bytes of a session's very first write."""
    with holdfast.open(root) as hf, hf.session("a") as session:
        session.user("hello")
        data = log_of(root).read_bytes()
        os.truncate(log_of(root), 0)
        session.close(save=False)
    return data


@given(data=st.data())
def test_what_a_crash_leaves_of_the_first_write_is_no_damage(tmp_path_factory, data):
    """Cut at any byte, or filled up with zeros: it was never said to be safe, and goes on."""
    root = tmp_path_factory.mktemp("store")
    whole = first_write(root)
    (root / "sessions" / "a" / "lock").unlink()
    kept = data.draw(st.integers(0, len(whole) - 1))
    zeros = data.draw(st.sampled_from([0, 1, len(whole) - kept]))
    log_of(root).write_bytes(whole[:kept] + b"\0" * zeros)
    with holdfast.open(root) as hf:
        with hf.session("a") as session:
            session.user("again")
        assert hf.verify("a").ok
        assert not hf.verify("a").repairs


def test_a_session_that_was_only_looked_at_is_not_lost(store_root):
    """Opened and closed without an event, again and again: nothing is missing."""
    with holdfast.open(store_root) as hf:
        for _ in range(3):
            with hf.session("a") as session:
                assert session.history == []
        assert not hf.exists("a")


def test_a_copy_of_a_session_is_taken_as_it_is(store_root, tmp_path):
    """A folder that somebody put there is judged by its bytes, not by what another log had."""
    with holdfast.open(store_root) as hf:
        record(hf)
    data = log_of(store_root).read_bytes()
    other = tmp_path / "other"
    with holdfast.open(other) as hf:
        record(hf, 40)
        brought = tmp_path / "brought"
        brought.write_bytes(data)
        brought.replace(log_of(other))  # another file than the one that was closed
        with hf.session("a") as session:
            assert len(session.history) == 40


KILLED = """
import os, signal, sys, holdfast
hf = holdfast.open(sys.argv[1])
session = hf.session("a", autosave_ms=0, snapshot_ms=0)
session.user("one")
session.assistant("two")
session.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(url):
    """A session whose process was killed before it had a snapshot."""
    done = subprocess.run([sys.executable, "-c", KILLED, url], check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL


def empty(hf):
    """Take everything out of the log, in place, as another program would."""
    if not hf.store.identity.startswith("sqlite"):
        os.truncate(Path(hf.location("a")) / "events.jsonl", 0)
        return
    lease = hf.store.lease("sessions/a")
    hf.store.log("sessions/a").cut(0, lease.acquire("test", 60_000))
    lease.release()


@pytest.fixture(params=["files", "sqlite"])
def url(request, store_root):
    """A store of each kind that keeps nothing but log and catalogue of such a session."""
    return str(store_root) if request.param == "files" else f"sqlite://{store_root}.db"


@pytest.mark.parametrize("listed", [False, True])
def test_the_catalogue_knows_that_an_empty_log_had_events(url, listed, caplog):
    """Without a snapshot or a note, what the catalogue saw tells that the log was lost."""
    killed(url)
    with holdfast.open(url) as hf:
        [row] = hf.list()
        empty(hf)
        if listed:  # it may have noticed by itself: then it knows how many events there were
            hf.list()
    with holdfast.open(url) as hf:
        with pytest.raises(Damaged, match="no event is left") as caught:
            hf.session("a")
        assert caught.value.session_id == "a"
        [gap] = hf.verify("a").gaps
        assert (gap.first_seq, gap.last_seq, gap.at_end) == (0, row.event_count - 1, True)
        with hf.session("a", repair="auto") as session:
            assert session.history == []
            session.user("on we go")
        assert "damaged and has been repaired" in caplog.text
        report = hf.verify("a")
        assert report.ok
        assert report.repairs[0].gaps[0].last_seq == row.event_count - 1
    with holdfast.open(url) as hf, hf.session("a") as session:
        assert session.history[-1]["content"] == "on we go"


def test_repair_knows_what_the_catalogue_saw(url):
    """`hf.repair` mends such a log; then there is nothing more to repair."""
    killed(url)
    with holdfast.open(url) as hf:
        [row] = hf.list()
        empty(hf)
        [gap] = hf.repair("a")
        assert (gap.last_seq, gap.size) == (row.event_count - 1, row.size_bytes)
        assert hf.verify("a").ok
        assert hf.repair("a") == []
        with hf.session("a") as session:
            session.user("on")


@pytest.mark.parametrize("known", [False, True])
def test_an_empty_log_of_which_nobody_saw_an_event_is_a_beginning(store_root, known):
    """A session whose process died before the first byte opens, with a catalogue and without."""
    with holdfast.open(store_root) as hf:
        record(hf)
        (Path(store_root) / "sessions" / "b").mkdir(mode=0o700)
        (Path(store_root) / "sessions" / "b" / "events.jsonl").touch(mode=0o600)
        if known:
            hf.list()
    with holdfast.open(store_root) as hf:
        with hf.session("b") as session:
            session.user("hello")
        assert hf.verify("b").ok
        assert not hf.verify("b").repairs


def test_without_a_catalogue_an_emptied_log_is_a_beginning(store_root):
    """The limit: where no snapshot, note or catalogue is left, nothing tells of the loss."""
    killed(str(store_root))
    with holdfast.open(store_root) as hf:
        hf.list()
        empty(hf)
    for left in Path(store_root).glob("catalog.db*"):
        left.unlink()
    with holdfast.open(store_root) as hf, hf.session("a") as session:
        assert session.history == []
        session.user("anew")


def test_the_catalogue_is_not_asked_when_a_log_has_events(store_root, monkeypatch):
    """Opening a session that is well, or new, reads no catalogue."""
    from holdfast.catalog import Catalog

    with holdfast.open(store_root) as hf:
        record(hf)
    monkeypatch.setattr(Catalog, "lost_whole", lambda *_: pytest.fail("it was asked"))
    with holdfast.open(store_root) as hf, hf.session("a"), hf.session("new") as session:
        session.user("hello")
