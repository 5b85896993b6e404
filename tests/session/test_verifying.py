"""Looking at every byte while somebody else writes."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.model import Limits
from holdfast.session import Snapshots
from holdfast.session import _verification as verifying
from holdfast.storage.files.log import FileLog


def test_what_is_cut_while_it_is_read_is_no_damage(hf, monkeypatch):
    """Half a batch was read, cut off by the next writer, and other lines are in its place now."""
    with hf.session("a") as session:
        for number in range(4):
            session.user(f"number {number}")
    read, looks = FileLog.read, []

    def mixed(log, start=0):
        looks.append(start)
        data = b"".join(read(log, start))
        if len(looks) == 1:
            at = data.index(b'{"seq":3')
            data = data[:at] + b'ber 9"},"crc":"00000000"}\n' + data[at:]
        return iter([data])

    monkeypatch.setattr(FileLog, "read", mixed)
    assert hf.verify("a").gaps == []
    assert len(looks) > 1


def test_events_have_no_hole_where_half_a_batch_was_cut(hf, store_root):
    """A reader that is slow has read half a batch that a crash left; the next writer cuts it."""
    with hf.session("a") as session:
        session.user("first")
        session.extend([("user", {"content": f"batch {number}"}) for number in range(4)])
    [log] = store_root.rglob("events.jsonl")
    whole = log.read_bytes()
    log.write_bytes(whole[: whole.index(b"\n", whole.index(b"batch 2")) + 1])
    (log.parent / "lock").unlink()  # as if it had never been closed
    reading = hf.events("a")
    read = [next(reading)]
    with hf.session("a") as session:
        for number in range(20):
            session.user(f"other {number}")
    read += reading
    assert [event.seq for event in read] == list(range(len(read)))
    assert [event.data for event in read] == [event.data for event in hf.events("a")]


@pytest.mark.parametrize("change", ["shorter", "another"])
def test_damage_is_told_where_a_second_look_finds_another_log(hf, store_root, change):
    """What was damaged is read as it was, though another log, or less of it, is there by now."""
    with hf.session("a") as session:
        for number in range(600):
            session.user(f"number {number} " + "long " * 1600)
    [log] = store_root.rglob("events.jsonl")
    damaged = log.read_bytes().replace(b"number 590 ", b"number X ")
    log.write_bytes(damaged)
    expected = [event.seq for event in hf.events("a")]
    assert len(expected) == expected[-1]
    reading = hf.events("a")
    first = next(reading)
    log.with_suffix(".new").write_bytes(damaged[:40] if change == "shorter" else damaged[::-1])
    log.with_suffix(".new").replace(log)
    assert [first.seq, *(event.seq for event in reading)] == expected


@pytest.mark.parametrize("key", [None, b"k" * 32])
@pytest.mark.parametrize("moment", ["listed", "loaded", "read"])
def test_a_writer_that_takes_snapshots_is_no_false_alarm(store_root, monkeypatch, key, moment):
    """Snapshots that come or go while a session is verified do not count against it."""
    limits = Limits(snapshots_kept=3)
    with holdfast.open(store_root, key=key, seal=key is not None, limits=limits) as hf:
        with hf.session("a") as s:

            def write():
                for _ in range(4):
                    s.user("x" * 50)
                    s.snapshot()

            write()
            calls = {"listed": (Snapshots, "seqs"), "loaded": (Snapshots, "load")}
            kind, name = calls.get(moment, (verifying, "_missing_blobs"))
            real, done = getattr(kind, name), []

            def meanwhile(*given):
                found = real(*given)
                if not done:
                    done.append(1)
                    write()
                return found

            monkeypatch.setattr(kind, name, meanwhile)
            report = hf.verify("a")
            assert done
            assert report.ok, report
            assert report.snapshots or moment == "listed"  # then all of them have gone
        monkeypatch.undo()
        assert hf.verify("a").ok
