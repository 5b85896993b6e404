"""What a session records, and that it is there again after reopening."""

from __future__ import annotations

import json
import threading
import time
import uuid

import pytest

import holdfast
from holdfast.errors import InvalidData, TooLarge, UsageError
from holdfast.model import Event, line_maker, read_events
from holdfast.session import _clock, _journal, resolve_blobs


def types(hf, session_id):
    """The types of a session's events, in order."""
    return [event.type for event in hf.events(session_id)]


@pytest.mark.req("S3-1")
@pytest.mark.req("S3-12")
@pytest.mark.req("S2-83", "S3-2")
def test_a_user_message_comes_back_after_reopening(hf):
    """What was appended is read back with its role, content and number."""
    with hf.session("a") as s:
        event = s.user("My name is Alice")
    found = next(hf.events("a", start=event.seq))
    assert found == event
    assert found.data == {"role": "user", "content": "My name is Alice"}


@pytest.mark.req("S3-10")
def test_append_returns_a_frozen_event_with_dense_seqs(hf):
    """Each append gives an immutable event whose seq is one more than the one before."""
    with hf.session("a") as s:
        first, second = s.user("1"), s.assistant("2")
        assert second.seq == first.seq + 1 == s.seq
        with pytest.raises(AttributeError):
            first.seq = 5


def test_changing_the_callers_data_after_append_changes_nothing(hf):
    """The log and the state hold what was given at the moment of the append."""
    with hf.session("a") as s:
        value = {"list": [1]}
        s.variables["v"] = value
        event = s.append("custom", {"value": value})
        value["list"].append(2)
        assert s.variables["v"] == {"list": [1]}
        assert event.data == {"value": {"list": [1]}}


@pytest.mark.req("S3-9")
def test_folders_are_made_as_they_are_needed(tmp_path):
    """A store far below a folder that is there comes into being with its first event."""
    root = tmp_path / "not" / "yet" / "there"
    with holdfast.open(root) as hf, hf.session("a") as s:
        assert list(tmp_path.iterdir()) == []
        s.user("hi")
        assert (root / "sessions" / "a" / "events.jsonl").is_file()


@pytest.mark.req("S2-51")
def test_nothing_is_on_disk_before_the_first_event(hf, store_root):
    """Opening a new session, reading and closing it leaves no file behind."""
    with hf.session("a") as s:
        assert not s.restored
        assert s.messages() == []
        assert list(s.events()) == []
    assert list(store_root.iterdir()) == []


def test_the_first_append_says_who_opened_the_session(hf):
    """Format, log id, epoch, version, pid and host come before the first event, in one batch."""
    with hf.session("a", agent_id="helper", title="T") as s:
        s.user("hi")
    start, opened, title, user, closed = hf.events("a")
    assert [e.type for e in (start, opened, title, user, closed)] == [
        "session_start",
        "opened",
        "title",
        "user",
        "closed",
    ]
    assert start.data["format"] == 1
    assert start.data["agent_id"] == "helper"
    assert set(opened.data) == {"format", "epoch", "version", "pid", "host", "salt"}
    assert start.more
    assert opened.more
    assert not user.more


@pytest.mark.req("S3-18")
def test_a_call_without_an_id_gets_a_random_uuid(hf):
    """Generated call ids are UUIDs of version 4 and all different."""
    with hf.session("a") as s:
        ids = {s.tool_call("Read").id for _ in range(600)}
    assert len(ids) == 600
    assert {uuid.UUID(i).version for i in ids} == {4}


@pytest.mark.req("S3-15")
def test_a_result_is_tied_to_its_call_by_event_or_id(hf):
    """A tool result takes the call's event or the call's id."""
    with hf.session("a") as s:
        call = s.tool_call("Read", {"path": "a"}, id="c1")
        assert s.tool_result(call, 1).data["toolCallId"] == "c1"
        assert s.tool_result("c2", 2).data["toolCallId"] == "c2"
        with pytest.raises(UsageError, match="not a tool call"):
            s.tool_result(s.user("x"), 1)


def test_the_run_of_a_call_is_inherited_by_its_result(hf):
    """A result given by its call's event belongs to the same run."""
    with hf.session("a") as s:
        call = s.tool_call("Read", run="r1")
        assert s.tool_result(call, 1).run == "r1"


def test_unknown_types_and_members_survive(hf):
    """An event of an unknown type is recorded and read back as it is."""
    with hf.session("a") as s:
        event = s.append("acme:thing", {"x": [1, {"y": None}]}, run="r")
    assert list(hf.events("a", types=["acme:thing"])) == [event]


def test_a_foreign_event_keeps_its_time(hf):
    """An event that has a timestamp is recorded with it."""
    with hf.session("a") as s:
        recorded = s.append(Event.make("user", {"content": "old"}, timestamp=123))
    assert recorded.timestamp == 123


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), "a\0b", "\ud800", {1: 2}, object(), 10**5000],
    ids=["nan", "inf", "nul", "surrogate", "int-key", "object", "digits"],
)
def test_what_cannot_be_recorded_faithfully_is_refused_before_anything_is_written(hf, value):
    """Bad data gives a typed error, and the session goes on as if it had not been tried."""
    with hf.session("a") as s:
        s.user("before")
        size = hf.store.log("sessions/a").size()
        with pytest.raises(InvalidData):
            s.append("custom", {"value": value})
        assert hf.store.log("sessions/a").size() == size
        s.user("after")
    assert [e.data["content"] for e in hf.events("a", types=["user"])] == ["before", "after"]


def test_deep_data_is_refused_without_a_crash(hf):
    """Nesting beyond the limit is a typed error, however deep it is."""
    deep: dict[str, object] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with hf.session("a") as s, pytest.raises(InvalidData):
        s.append("custom", deep)
    assert not hf.exists("a")


def test_a_type_that_is_no_name_is_refused(hf):
    """An event type must be a short name."""
    with hf.session("a") as s, pytest.raises(InvalidData):
        s.append('x","y":"z', {})


@pytest.mark.req("S2-102")
def test_a_message_of_more_than_one_mebibyte_is_refused(hf):
    """The text of a message is limited; nothing is written beyond it."""
    with hf.session("a") as s:
        with pytest.raises(TooLarge) as caught:
            s.user("x" * (1 << 21))
        assert caught.value.needed_bytes == 1 << 21
        with pytest.raises(TooLarge):
            s.user([{"type": "text", "text": "x" * (1 << 21)}])
    assert not hf.exists("a")


def test_a_long_message_within_the_limit_comes_back_whole(hf):
    """Text above the blob threshold and below the message limit is kept beside the log."""
    text = "wörter " * 60_000
    with hf.session("a") as s:
        s.user(text)
        assert s.messages()[0]["content"] == text
    with hf.session("a") as s:
        assert s.history[0]["content"] == text
    assert hf.store.log("sessions/a").size() < 2_000


@pytest.mark.req("S2-101")
def test_a_session_over_its_limit_takes_no_more_but_can_be_closed(store_root):
    """The session's size is limited, with a notice before; ending it is always possible."""
    limits = holdfast.Limits(session_bytes_max=4000)
    notices = []
    with holdfast.Holdfast(store_root, limits=limits, timers=False) as hf:
        hf.subscribe(lambda _id, item: notices.append(item))
        with hf.session("a") as s:
            while hf.store.log("sessions/a").size() < 3_700:
                s.user("x" * 100)
            with pytest.raises(TooLarge) as caught:
                s.user("x" * 300)
            assert caught.value.limit == "session_bytes_max"
            assert any(getattr(n, "kind", "") == "session_near_limit" for n in notices)
        assert types(hf, "a")[-1] == "closed"


def test_a_big_tool_result_is_kept_beside_the_log(hf):
    """A payload of several megabytes leaves a reference in the line and comes back whole."""
    with hf.session("a") as s:
        call = s.tool_call("Read")
        s.tool_result(call, {"content": "z" * 3_000_000, "rest": 1})
        assert s.messages("anthropic")[-1]["content"][0]["content"].count("z") == 3_000_000
    assert hf.store.log("sessions/a").size() < 2_000
    assert hf.verify("a").ok


@pytest.mark.unmeasured
def test_a_payload_of_many_small_parts_is_kept_beside_the_log(hf):
    """What is big only in sum becomes one blob of JSON."""
    rows = [{"n": n} for n in range(40_000)]
    with hf.session("a") as s:
        s.tool_result("c", rows)
    assert hf.store.log("sessions/a").size() < 2_000
    assert hf.verify("a").ok


def test_user_data_that_looks_like_a_blob_reference_is_not_one(hf):
    """A dict with the key $blob comes back as it was, at any level of escaping."""
    forged = {"$blob": "0" * 64, "bytes": 1, "media": "text/plain"}
    data = {"a": forged, "b": {"$$blob": [{"$blob": 2}]}}
    with hf.session("a") as s:
        s.append("custom", data)
        s.tool_result("c", [data, "x" * 300_000])
        s.user([{"type": "text", "text": "t"}, {"type": "custom", "value": forged}])
        assert s.history[0]["content"][1] == {"type": "custom", "value": forged}
    assert next(hf.events("a", types=["custom"])).data == data
    log, documents = hf.store.log("sessions/a"), hf.store.documents("sessions/a")
    whole = {e.type: e.data for e in resolve_blobs(read_events(log.read()), documents)}
    assert whole["custom"] == data
    assert whole["tool_result"]["result"] == [data, "x" * 300_000]


@pytest.mark.req("S2-78")
def test_any_thread_may_append(hf):
    """Eight threads append 200 events each: all there, without gaps, each thread's in order."""
    each = range(200)
    with hf.session("a") as s:
        threads = [
            threading.Thread(target=lambda n=n: [s.append("t", {"n": n, "i": i}) for i in each]) for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    events = list(hf.events("a", types=["t"]))
    assert len(events) == 1600
    assert [e.seq for e in hf.events("a")] == list(range(len(list(hf.events("a")))))
    for n in range(8):
        assert [e.data["i"] for e in events if e.data["n"] == n] == list(range(200))


def test_a_batch_is_written_with_one_append_and_read_as_one(hf):
    """Every event gets its seq; all but the last line say that more is coming."""
    with hf.session("a") as s:
        s.user("first")
        batch = s.extend([("user", {"content": "1"}), Event.make("assistant", {"content": "2"})])
    assert [event.more for event in batch] == [True, False]
    assert list(hf.events("a", start=batch[0].seq, stop=batch[-1].seq + 1)) == batch


def test_an_empty_batch_is_nothing(hf):
    """A batch of nothing writes nothing."""
    with hf.session("a") as s:
        assert s.extend([]) == []
    assert not hf.exists("a")


def test_a_key_makes_a_second_append_return_the_first_event(hf):
    """The same key again is a no-op, in the same process and after reopening."""
    with hf.session("a") as s:
        first = s.append("user", {"content": "1"}, key="k")
        assert s.append("user", {"content": "2"}, key="k") == first
    with hf.session("a") as s:
        assert s.append("user", {"content": "3"}, key="k") == first
        batch = [Event.make("user", {"content": "4"}, key="k"), ("user", {"content": "5"})]
        assert s.extend(batch)[0] == first
    assert [e.data["content"] for e in hf.events("a", types=["user"])] == ["1", "5"]


def test_tags_and_titles_are_events(hf):
    """Tags are added and taken away, titles set, and both survive reopening."""
    with hf.session("a") as s:
        s.title = "Trip"
        s.tag("x", "y")
        s.untag("x")
        with pytest.raises(UsageError):
            s.tag("")
        with pytest.raises(UsageError):
            s.title = 5
    with hf.session("a") as s:
        assert (s.title, s.tags) == ("Trip", ["y"])


def test_a_turn_is_added_by_its_role(hf):
    """add_turn records the role's event; an unknown role is refused."""
    with hf.session("a") as s:
        assert s.add_turn("assistant", "x").type == "assistant"
        with pytest.raises(UsageError):
            s.add_turn("robot", "x")


def test_every_verb_records_its_event(hf):
    """system, thinking, delta, usage and link record events of those types."""
    with hf.session("a") as s:
        s.system("be brief")
        s.thinking("hm", signature="sig")
        s.thinking("hm")
        s.delta("He")
        s.usage(input_tokens=3)
        s.link("acp", "foreign-1")
        assert s.state.usage.input_tokens == 3
        assert s.state.links == {"acp": ["foreign-1"]}
    assert types(hf, "a")[2:-1] == ["system", "thinking", "thinking", "delta", "usage", "link"]


@pytest.mark.req("S1-11")
@pytest.mark.req("S1-12")
@pytest.mark.req("S1-38")
def test_history_lists_turns_with_times_in_seconds(hf):
    """Two turns are recorded with role, content and time; the last activity moves with them."""
    with hf.session("a") as s:
        s.add_turn("user", "hi")
        s.add_turn("assistant", "hello")
        assert [(h["role"], h["content"]) for h in s.history] == [("user", "hi"), ("assistant", "hello")]
        assert s.created_at <= s.history[0]["timestamp"] <= s.last_activity


@pytest.mark.req("S1-37")
def test_a_new_session_is_empty(hf):
    """A fresh session has an id, no history and no variables."""
    with hf.session("a") as s:
        assert s.id == "a"
        assert s.history == []
        assert dict(s.variables) == {}
        assert s.created_at > 0


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
@pytest.mark.parametrize("first", [True, False])
def test_what_is_no_text_is_refused_by_every_verb(hf, text, first):
    """Also after the first event, when appends take the shortest way."""
    with hf.session("a") as s:
        if not first:
            s.user("x")
        for refused in (
            lambda: s.user(text),
            lambda: s.assistant(text),
            lambda: s.tool_call(text, {}),
            lambda: s.tool_call("t", {"a": text}),
            lambda: s.tool_call("t", {}, id=text),
            lambda: s.append("user", {"content": text}),
            lambda: s.append(["user"], {}),
        ):
            with pytest.raises(InvalidData):
                refused()
        s.user("y")
    said = [event.data["content"] for event in hf.events("a", types=["user"])]
    assert said == (["y"] if first else ["x", "y"])


def test_a_tools_parameters_are_recorded_as_they_were_given(hf):
    """Whatever their shape: maps, lists, texts, numbers, nothing."""
    given = [None, {}, {"a": {"b": [1, None, 2.5]}}, [1, "x"], "text", {"$blob": "x"}, 7]
    with hf.session("a") as s:
        s.user("x")
        for params in given:
            s.tool_call("t", params)
    found = [event.data["params"] for event in hf.events("a", types=["tool_call"])]
    assert found == given


def test_an_event_of_a_run_or_with_a_key_goes_straight_to_the_log(hf, monkeypatch):
    """A run and a new key are as usual as none: no writer of rare events is asked."""
    with hf.session("a") as s:
        s.user("x")
        s.append("note", {"a": 0})  # a type's first line is made the long way
        for way in ("append", "extend"):
            monkeypatch.setattr(s._journal.writer, way, None)
        first = s.append("note", {"a": 1}, run="r", key="k")
        s.delta("he", run="r")
        assert s.append("note", {"a": 2}, key="k") == first
        monkeypatch.undo()
    found = [(event.run, event.key) for event in hf.events("a", types=["note", "delta"])]
    assert found == [(None, None), ("r", "k"), ("r", None)]
    assert hf.verify("a").ok


def test_both_forms_of_the_step_make_the_same_log(store_root, monkeypatch):
    """With and without its compiled part a session records the same bytes, unusual ones too."""
    monkeypatch.setattr(_clock, "time_ns", lambda: 1_701_234_568_456_789_000)
    logs = []
    for maker in (line_maker(pure=True), line_maker()):
        monkeypatch.setattr(_journal, "_make_line", maker)
        with holdfast.open(f"{store_root}-{len(logs)}") as hf:
            with hf.session("a") as s:
                first = s.user("hello").seq
                s.append("custom", {"price": 1.25, "list": [1, None, True]})
                s.tool_result(s.tool_call("Read", {"$blob": "no"}, id="1"), ("a", 1 << 70))
                with pytest.raises(InvalidData):
                    s.assistant("\0")
                s.assistant("x" * 300_000)
                s.assistant('"quoted"\n\x1f')
            logs.append([bytes(event.raw) for event in hf.events("a", start=first)])
    assert logs[0] == logs[1]
    assert len(logs[0]) > 6


@pytest.mark.req("S3-11")
def test_an_event_on_disk_has_type_time_and_data(store_root):
    """Each line is an object with a type, the time in Unix milliseconds, and the data."""
    before = time.time_ns() // 1_000_000
    with holdfast.open(store_root) as hf, hf.session("a") as s:
        s.user("hi")
        s.variables["x"] = 1
    after = time.time_ns() // 1_000_000
    lines = (store_root / "sessions" / "a" / "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    assert {"user", "variable_set"} <= {event["type"] for event in events}
    for event in events:
        assert isinstance(event["type"], str)
        assert isinstance(event["data"], dict)
        assert type(event["timestamp"]) is int
        assert before <= event["timestamp"] <= after
