"""The fold as a whole: deterministic, tolerant of any content, the same however it is fed."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import TooNew
from holdfast.model import BODIES, Event
from holdfast.replay import Fold, State, fold

STATUSES = ("idle", "running", "waiting", "interrupted", "failed", "suspended")

TYPES = [*BODIES, "unknown", "x.vendor"]

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["a", "b", "c1", "TodoWrite", "once", "allow", "deny", "completed", "suspended"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner), max_leaves=4
)
MEMBERS = {
    "id": st.sampled_from(["c1", "c2"]),
    "tool": st.sampled_from(["Read", "TodoWrite"]),
    "toolCallId": st.sampled_from(["c1", "c2"]),
    "content": st.sampled_from(["Hi", "", [{"text": "Hi"}]]),
    "usage": st.just({"input_tokens": 2}),
    "metadata": st.just({"usage": {"output_tokens": 1}, "model": "m"}),
    "covers_from": st.integers(0, 9),
    "seqs": st.lists(st.integers(0, 9), max_size=3),
    "name": st.sampled_from("ab"),
    "value": VALUES,
    "key": st.sampled_from("ab"),
    "params": st.just({"todos": [{"content": "x"}]}),
    "todos": st.just([{"content": "y"}]),
    "reason": st.sampled_from(["completed", "cancelled", "suspended"]),
    "decision": st.sampled_from(["allow", "deny", "allowlist", "blocklist"]),
    "tag": st.sampled_from("ab"),
    "kind": st.just("acp"),
    "session": st.just("p"),
    "log": st.sampled_from("ab"),
}
DATA = st.fixed_dictionaries({}, optional={name: usual | VALUES for name, usual in MEMBERS.items()})
EVENTS = st.lists(
    st.builds(
        dict,
        type=st.sampled_from(TYPES),
        data=DATA,
        timestamp=st.integers(0, 9),
        run=st.sampled_from([None, "r"]),
        key=st.sampled_from([None, None, "k1", "k2"]),
    ),
    max_size=25,
)


def log(drafts):
    """Events of a log from drafts, numbered."""
    return [Event.make(seq=seq, **draft) for seq, draft in enumerate(drafts)]


@given(EVENTS)
def test_live_and_loaded_give_the_same_state(drafts):
    """Applied one by one by the writer with its data, or read from the log: the same."""
    live = Fold()
    for event, draft in zip(log(drafts), drafts, strict=True):
        live.apply(event, draft["data"])
    raw = [Event(e.type, e.seq, e.timestamp, msgspec.Raw(bytes(e.raw)), e.run, e.key) for e in log(drafts)]
    assert live.state == fold(raw) == fold(log(drafts))
    assert live.state.event_count == len(drafts)


@given(EVENTS, st.integers(0, 25))
def test_a_snapshot_at_any_point_and_the_rest_give_the_same_state(drafts, cut):
    """State as bytes, read again, and the events after it: the same as all events."""
    events = log(drafts)
    state = State.from_json(fold(events[:cut]).to_json())
    assert Fold(state).fold(events[cut:]) == fold(events)


@given(EVENTS)
def test_stats_and_views_never_fail(drafts):
    """Whatever was recorded, every view of the state can be read, and stats agree."""
    state = fold(log(drafts))
    assert state.memory_stats().total_entries == len(state.memory)
    assert state.status in STATUSES
    assert set(state.variables) == set(state.encoded)
    assert state.usage.requests == sum(part.requests for part in state.usage_by_model.values())
    for key, entry in state.memory.items():
        assert msgspec.json.decode(entry.raw) == entry.value
        assert entry.key == key
    assert state.copy() == state


@pytest.mark.req("S3-17")
@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("raw", [b"{}", b"[]", b"null", b'"x"', b"{", b'{"id":1,"tool":2}', b"\xff"])
def test_malformed_data_of_any_type_never_raises(type, raw):
    """Data of any shape, even no JSON at all, leaves a state that can go on."""
    live = Fold()
    live.apply(Event.make("tool_call", {"id": "c", "tool": "Read"}, seq=0))
    live.apply(Event.make("delta", {"content": "x"}, seq=1))
    live.fold([Event(type, 2, 5, raw)])
    assert live.state.event_count == 3
    assert live.state.copy() == live.state


@pytest.mark.req("S3-17")
def test_malformed_data_is_counted_and_unknown_types_are_not():
    """Known types with unusable data are counted as ignored; unknown types are simply passed."""
    events = [Event("variable_set", 0, 1, b'{"value":1}'), Event("new_thing", 1, 1, b'{"a":1}')]
    assert fold(events).ignored == 1
    live = Fold()
    for event in events:
        live.apply(event, event.data)
    assert live.state.ignored == 1


def test_data_nested_too_deep_is_ignored():
    """Ten thousand levels of nesting do no harm."""
    raw = b'{"a":' + b"[" * 10_000 + b"]" * 10_000 + b"}"
    live = Fold()
    live.fold([Event("metadata", 0, 1, raw)])
    live.apply(Event("metadata", 1, 1, raw))
    assert (live.state.ignored, live.state.metadata) == (2, {})


def test_idempotency_keys_lead_to_the_first_event():
    """A key names the event that carried it first."""
    events = [Event.make("user", {"content": "x"}, seq=seq, key="k") for seq in (0, 1)]
    assert fold(events).keys == {"k": 0}
    live = Fold()
    for event in events:
        live.apply(event, {})
    assert live.state.keys == {"k": 0}


def test_gaps_in_the_numbers_do_no_harm():
    """A log with a hole folds: seq is that of the last event, the count that of those seen."""
    state = fold([Event.make("user", {"content": "x"}, seq=seq) for seq in (0, 7)])
    assert (state.seq, state.event_count) == (7, 2)


@pytest.mark.req("S3-12")
@pytest.mark.req("S3-13")
@pytest.mark.req("S3-14")
def test_a_plain_recorded_log_folds_as_it_is():
    """Events in the shape of foreign logs: counts, usage, no session_start, version 0."""
    lines = [
        ("agent_start", {"agent": "a", "depth": 0}),
        ("user", {"role": "user", "content": "Go"}),
        ("tool_call", {"id": "c", "tool": "x", "params": {}, "agent": "a"}),
        ("tool_result", {"toolCallId": "c", "result": {"ok": True}}),
        ("assistant", {"role": "assistant", "content": "Done", "agent": "a"}),
        ("agent_complete", {"agent": "a", "duration": 5}),
    ]
    state = fold([Event.make(type, data, seq=seq) for seq, (type, data) in enumerate(lines)])
    assert (state.format, state.message_count, state.status) == (0, 3, "idle")
    assert state.ignored == 0


@pytest.mark.parametrize("type", ["session_start", "opened"])
def test_a_newer_format_is_refused_by_both_ways(type):
    """An event that begins a newer format raises TooNew, live or loaded: it is not content."""
    event = Event.make(type, {"format": 2})
    with pytest.raises(TooNew):
        fold([event])
    with pytest.raises(TooNew):
        Fold().apply(event, event.data)


def test_an_opening_may_raise_the_version_of_an_older_log():
    """A writer that goes on with an older log says so, and the state knows."""
    events = [Event.make("user", {"content": "x"}, seq=0), Event.make("opened", {"format": 1}, seq=1)]
    assert fold(events).format == 1
    assert fold([events[0], Event.make("opened", {}, seq=1)]).format == 0


def test_numbers_and_times_are_those_of_the_last_event_whenever_one_asks():
    """Live: the first time is kept, a missing one changes nothing, and every event counts."""
    live = Fold()
    moments = [(0, 0, None), (1, 5, None), (2, 7, None), (3, 9, "k"), (4, 0, None), (5, 8, None)]
    told = []
    for seq, timestamp, key in moments:
        live.apply(Event.make("user", {"content": "x"}, seq=seq, timestamp=timestamp, key=key))
        if seq != 2:
            state = live.state
            told.append((state.seq, state.event_count, state.created_at, state.updated_at))
    assert told == [(0, 1, 0, 0), (1, 2, 5, 5), (3, 4, 5, 9), (4, 5, 5, 9), (5, 6, 5, 8)]
    assert live.state.keys == {"k": 3}
    live.fold([Event.make("user", {"content": "y"}, seq=6, timestamp=11)])
    assert (live.state.seq, live.state.event_count, live.state.updated_at) == (6, 7, 11)
