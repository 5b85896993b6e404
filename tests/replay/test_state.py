"""State as a value: bytes and back, copies that share nothing, any seq."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidData
from holdfast.model import Event
from holdfast.replay import Fold, State, describe, fold

EVENTS = [
    ("session_start", {"format": 1, "log": "L", "parent": "p", "agent_id": "a"}),
    ("opened", {"epoch": 2, "pid": 1, "host": "h"}),
    ("title", {"title": "Trip"}),
    ("turn_start", {}),
    ("user", {"content": "Hi"}),
    ("tag", {"tag": "travel"}),
    ("link", {"kind": "acp", "id": "1"}),
    ("metadata", {"m": {"deep": [1, 2**63, 1.5, None]}}),
    ("variable_set", {"name": "x", "value": {"a": [1]}}),
    ("memory_set", {"key": "k", "value": [1, 2]}),
    ("todo_update", {"todos": [{"content": "t"}]}),
    ("plugin_state", {"name": "p", "state": {"entries": []}, "version": 1}),
    ("permission", {"tool": "Read", "decision": "allow"}),
    ("tools", {"enabled": {"Read": True}}),
    ("instructions", {"content": "i"}),
    ("config", {"model": "m"}),
    ("task", {"task": ["t"]}),
    ("assistant", {"content": "x", "usage": {"input_tokens": 5, "cost": 0.5}, "model": "m"}),
    ("assistant", {"content": [{"type": "tool_use", "id": "c0", "name": "Read", "input": {}}]}),
    ("delta", {"content": "x"}),
    ("tool_call", {"id": "c1", "tool": "Read"}),
    ("turn_end", {}),
    ("delta", {"content": "x"}),
    ("turn_start", {}),
    ("tool_call", {"id": "c2", "tool": "Read"}),
    ("step", {"step": "s1", "name": "pay"}),
    ("step", {"step": "s2", "name": "pay"}),
    ("step_result", {"step": "s2", "ok": True, "value": [1]}),
    ("steer", {"content": "in Rome"}),
    ("suspended", {}),
]


def log():
    """A log that touches every part of the state."""
    return [
        Event.make(type, data, seq=seq, timestamp=1000 + seq, key=f"k{seq}") for seq, (type, data) in enumerate(EVENTS)
    ]


def test_the_sample_touches_every_part():
    """The log used below leaves no field at its default, but those of a turn that ended badly."""
    state, empty = fold(log()), State()
    same = {name for name in state.__struct_fields__ if getattr(state, name) == getattr(empty, name)}
    assert same == {"ignored", "generation", "agent_type", "provider_type", "interrupted_at", "failed_at", "alive"}


@pytest.mark.req("S4-48")
@pytest.mark.req("S0-15")
def test_a_state_survives_as_json():
    """Bytes and back gives the same state, and folding goes on from it as from the original."""
    events = log()
    for at in range(len(events) + 1):
        state = fold(events[:at])
        again = State.from_json(state.to_json())
        assert again == state
        assert Fold(again).fold(events[at:]) == fold(events)


@pytest.mark.req("S4-23")
@pytest.mark.req("S1-7")
def test_a_copy_shares_nothing():
    """Whatever is changed in a copy, the original stays as it was."""
    state = fold(log())
    before = state.to_json()
    copy = state.copy()
    copy.todos[0]["content"] = "other"
    copy.metadata["m"]["deep"].append(1)
    copy.permissions.approvals.clear()
    copy.memory["k"].pinned = True
    copy.last_open.closed = True
    copy.usage_by_model["m"].input_tokens = 0
    copy.task.append(1)
    assert state.to_json() == before != copy.to_json()


@pytest.mark.req("S4-45")
@pytest.mark.req("S4-47")
@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"shape":2}', b'{"shape":3,"seq":"x"}', b'{"shape":3,"tags":[', b"\xff"]
)
def test_bytes_of_another_shape_are_refused(data):
    """What is no state, or one of another version, is InvalidData, never half a state."""
    with pytest.raises(InvalidData, match="not a state"):
        State.from_json(data)


def test_the_shape_is_always_written():
    """Even an empty state says which shape it has, so that a later version can tell."""
    assert b'"shape":4' in State().to_json()


def test_states_do_not_share_defaults():
    """Two new states have nothing in common."""
    first, second = State(), State()
    first.tags.append("x")
    first.permissions.allowlist.append("y")
    first.tools.enabled["z"] = True
    assert second == State()


def test_state_at_any_seq():
    """at=n is the state after event n, for every n and beyond the end."""
    events = log()
    for at in range(-1, len(events) + 2):
        assert fold(events, at=at) == fold(events[: at + 1])


def test_the_caller_data_is_not_kept():
    """What the writer's caller changes afterwards does not reach the state."""
    data = {
        "variable_set": {"name": "x", "value": {"a": [1]}},
        "memory_set": {"key": "k", "value": [1]},
        "todo_update": {"todos": [{"content": "t"}]},
        "metadata": {"m": [1]},
        "task": {"task": [1]},
        "tools": {"enabled": {"Read": [1]}},
        "tool_call": {"id": "c", "tool": "TodoWrite", "params": {"todos": [{"content": "t"}]}},
    }
    live = Fold()
    for seq, (type, given) in enumerate(data.items()):
        event = Event.make(type, given, seq=seq)
        live.apply(event, given)
        _spoil(given)
        _spoil(event.data)
    state = live.state
    assert state.variables == {"x": {"a": [1]}}
    assert state.memory["k"].value == [1]
    assert (state.todos, state.metadata, state.task) == ([{"content": "t"}], {"m": [1]}, [1])
    assert state.tools.enabled == {"Read": [1]}
    assert list(state.pending_calls) == ["c"]


def _spoil(value):
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, (dict, list)):
            _spoil(item)
    value.clear()


def test_what_a_list_shows_of_a_state():
    """Title, times, counts, where it came from, and the marks that keep it."""
    told = describe(fold(log()), "trip", 17)
    assert (told.session_id, told.title, told.tags) == ("trip", "Trip", ("travel",))
    assert (told.created_at, told.updated_at, told.event_count) == (1000, 1029, len(EVENTS))
    assert (told.message_count, told.total_tokens, told.size_bytes) == (3, 5, 17)
    assert (told.agent_id, told.parent, told.status) == ("a", "p", "waiting")
    assert not told.pinned
    assert not told.held
    marks = {"pinned": True, "legal_hold": "case 7"}
    kept = describe(fold([*log(), Event.make("metadata", marks, seq=len(EVENTS))]), "trip", 0)
    assert kept.pinned
    assert kept.held
    assert describe(State(), "new", 0).parent is None
