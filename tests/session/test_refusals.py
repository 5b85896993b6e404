"""What is refused leaves nothing behind, and what is taken over is looked at first."""

from __future__ import annotations

import os

import msgspec
import pytest

import holdfast
from holdfast.errors import Fenced, InvalidData, InvalidId, StoreFull, TooLarge, TooNew, UsageError
from holdfast.model import Event, Limits


@pytest.mark.parametrize(("content", "error"), [("x" * (2 << 20), TooLarge), (float("nan"), InvalidData)])
@pytest.mark.req("S2-106")
def test_a_first_event_that_is_refused_leaves_nothing_on_disk(tmp_path, content, error):
    """Not even a directory is made for a session whose first event cannot be recorded."""
    with holdfast.open(tmp_path / "store") as hf:
        session = hf.session("a")
        with pytest.raises(error):
            session.user(content)
    assert not (tmp_path / "store").exists()


def test_a_batch_that_is_refused_leaves_no_payload(hf):
    """Big payloads are stored only once every event of their batch is known to be fine."""
    session = hf.session("a")
    session.user("x")
    before = sorted(os.listdir(hf.location("a")))
    big = ("tool_result", {"toolCallId": "1", "result": "y" * 300_000})
    with pytest.raises(InvalidData):
        session.extend([big, ("user", {"content": float("inf")})])
    assert sorted(os.listdir(hf.location("a"))) == before


def test_a_key_that_comes_twice_in_a_batch_is_recorded_once(hf):
    """The second event with a key is the first one, also within one batch."""
    session = hf.session("a")
    first, plain, second = session.extend(
        [
            Event.make("user", {"content": "x"}, key="k"),
            ("user", {"content": "y"}),
            Event.make("user", {"content": "z"}, key="k"),
        ]
    )
    assert first == second
    assert plain.data["content"] == "y"
    assert [e.data["content"] for e in hf.events("a", types=["user"])] == ["x", "y"]


@pytest.mark.parametrize("batch", [[("user",)], [5], [("user", {}, None, None, None, 1)]])
def test_a_batch_of_what_are_no_events_is_refused(hf, batch):
    """Wrong shapes in a batch are a typed error."""
    with pytest.raises(InvalidData):
        hf.session("a").extend(batch)


def test_a_message_limit_below_the_size_of_payloads_holds(tmp_path):
    """A limit on messages counts however small it is."""
    with holdfast.open(tmp_path / "store", limits=Limits(message_bytes_max=1000)) as hf:
        session = hf.session("a")
        session.user("x" * 1000)
        with pytest.raises(TooLarge):
            session.user("x" * 1001)


def test_a_newer_log_that_came_meanwhile_is_never_written(hf, tmp_path):
    """A lazily opened session that finds a newer format at its first event stays out of it."""
    session = hf.session("a")
    folder = tmp_path / "store" / "sessions" / "a"
    folder.mkdir(parents=True, mode=0o700)
    (tmp_path / "store").chmod(0o700)
    line = {"type": "session_start", "timestamp": 1, "data": {"format": 99}}
    log = folder / "events.jsonl"
    log.write_bytes(msgspec.json.encode(line) + b"\n")
    before = log.read_bytes()
    for _ in range(2):
        with pytest.raises(TooNew):
            session.user("x")
    assert log.read_bytes() == before


def test_what_another_recorded_meanwhile_is_part_of_the_session(hf, tmp_path):
    """State and messages begin with what someone else recorded before the first event here."""
    session = hf.session("a")
    assert session.messages() == []
    with holdfast.open(tmp_path / "store") as other, other.session("b") as elsewhere:
        elsewhere.user("before")
    sessions = tmp_path / "store" / "sessions"
    (sessions / "b").rename(sessions / "a")
    session.assistant("after")
    assert [m["content"] for m in session.messages()] == ["before", "after"]
    assert session.state == hf.state("a")


def test_never_resume_holds_when_another_was_faster(hf, tmp_path):
    """With ``resume="never"`` nothing is added to a session that someone else made meanwhile."""
    session = hf.session("a", resume="never")
    with holdfast.open(tmp_path / "store") as other, other.session("b") as elsewhere:
        elsewhere.user("theirs")
    sessions = tmp_path / "store" / "sessions"
    (sessions / "b").rename(sessions / "a")
    with pytest.raises(UsageError):
        session.user("mine")
    assert [e.data["content"] for e in hf.events("a", types=["user"])] == ["theirs"]


def test_two_lazy_sessions_cannot_differ_by_case_alone(hf):
    """The second of two ids that differ only by case is refused by its first event."""
    first, second = hf.session("trip"), hf.session("TRIP")
    first.user("x")
    with pytest.raises(InvalidId):
        second.user("y")


def test_a_torn_tail_is_set_aside_before_staged_events_are_saved(hf):
    """A staged session that goes on after a crash leaves a whole log."""
    with hf.session("a") as session:
        session.user("x")
    with open(f"{hf.location('a')}/events.jsonl", "ab") as log:
        log.write(b'{"seq":9,"ty')
    with hf.session("a", staged=True) as session:
        session.user("y")
    assert hf.verify("a").ok
    assert [e.data["content"] for e in hf.events("a", types=["user"])] == ["x", "y"]


@pytest.mark.parametrize("wrong", [{"description": 5}, {"pinned": "yes"}])
def test_a_memory_entry_of_the_wrong_kind_is_refused(hf, wrong):
    """An agent's lasting memory stays readable, whatever it was told."""
    session = hf.session("a", agent_id="helper")
    with pytest.raises(UsageError):
        session.memory.set("k", 1, scope="persistent", **wrong)
    session.memory.set("k", 1, scope="persistent")
    assert session.memory.get("k") == 1


def test_the_last_value_of_a_memory_key_counts_whatever_its_scope(hf):
    """An entry that becomes persistent is read as such."""
    session = hf.session("a", agent_id="helper")
    session.memory.set("k", 1)
    session.memory.set("k", 2, scope="persistent")
    assert session.memory.get("k") == 2
    session.memory.set("k", 3)
    assert session.memory.get("k") == 3


def test_long_names_are_refused_before_anything_is_written(hf):
    """Titles, tags and keys that would not fit are typed errors, not silently lost."""
    session = hf.session("a")
    session.user("x")
    last = session.seq
    with pytest.raises(TooLarge):
        session.title = "t" * 300_000
    with pytest.raises(TooLarge):
        hf.session("b", title="t" * 300_000)
    with pytest.raises(TooLarge):
        session.tag("t" * 201)
    with pytest.raises(TooLarge):
        session.append("user", {"content": "x"}, key="k" * 513)
    assert session.seq == last


def test_staged_events_that_cannot_be_saved_are_on_the_error(hf, monkeypatch):
    """A staged session that is written by someone else, or cannot be, hands its events out."""
    session = hf.session("a", staged=True)
    session.user("mine")
    with holdfast.open(hf.url) as other, other.session("b") as elsewhere:
        elsewhere.user("theirs")
    os.rename(hf.location("b"), hf.location("a"))
    with pytest.raises(Fenced) as caught:
        session.flush()
    assert caught.value.unsaved[-1].data["content"] == "mine"

    full = hf.session("c", staged=True)
    full.user("kept")

    def refuse(*_):
        raise OSError(28, "no space")

    monkeypatch.setattr(full._journal.writer.log, "_write", refuse)
    with pytest.raises(StoreFull) as caught:
        full.close()
    assert "kept" in [event.data.get("content") for event in caught.value.unsaved]


def test_repair_removes_snapshots_that_are_not_whole(hf):
    """After a repair nothing is left for verify to complain about."""
    with hf.session("a") as session:
        session.user("x")
        seq = session.snapshot()
    with open(f"{hf.location('a')}/snapshots/{seq}.json", "wb") as snapshot:
        snapshot.write(b"not a snapshot")
    assert not hf.verify("a").ok
    hf.repair("a")
    assert hf.verify("a").ok


def test_a_path_may_begin_with_the_home_directory(tmp_path, monkeypatch):
    """``~`` means the user's home, not a directory of that name."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with holdfast.open("~/store") as hf:
        assert hf.location("a").startswith(str(tmp_path / "store"))


@pytest.mark.req("S2-106")
def test_a_time_far_in_the_future_is_no_error(hf):
    """An event of a wrong clock does not make a session unreadable."""
    session = hf.session("a")
    session.append(Event.make("user", {"content": "x"}, timestamp=10**17))
    assert hf.last_modified("a").year == 9999
    assert hf.list()[0].session_id == "a"


def test_a_negative_limit_is_refused(hf):
    """A limit below zero is a typed error."""
    hf.session("a").user("x")
    with pytest.raises(UsageError):
        hf.events("a", limit=-1)


@pytest.mark.parametrize("type", ["instructions", "task", "config", "metadata", "todo_update"])
def test_state_that_no_fold_could_keep_is_refused(hf, type):
    """A state event beyond the blob threshold is TooLarge, not silently missing from the state."""
    with hf.session("a") as s, pytest.raises(TooLarge) as caught:
        s.append(type, {"content": "z" * 300_000})
    assert caught.value.needed_bytes > 300_000
    assert not hf.exists("a")
