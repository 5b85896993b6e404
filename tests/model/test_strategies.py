"""The strategies that are shipped: valid where they say so, and able to break things."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from holdfast.model import BODIES, Event, Limits, LineReader, encode_data, is_reference
from holdfast.testing import damaged_bytes, encode_log, event_data, events, json_values, logs

# Any example will do; the smallest is not worth the time.
SEARCH = settings(max_examples=5_000, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))


@given(json_values())
def test_json_values_can_be_recorded(value):
    """An append takes every one of them."""
    assert encode_data({"value": value}, Limits(depth_max=66))


@pytest.mark.parametrize("type", [*BODIES, "x.unknown"])
def test_event_data_is_well_formed(type):
    """Data of each type has a typed body."""

    @given(event_data(type))
    @settings(max_examples=5)
    def check(data):
        assert Event.make(type, data).body is not None

    check()


@given(events("tool_call"))
def test_events_of_one_type_are_of_that_type(event):
    """The type that was asked for, with its own members."""
    assert event.type == "tool_call"
    assert isinstance(event.body.tool, str)


@given(logs())
@settings(max_examples=30)
def test_logs_are_whole_conversations(log):
    """Numbered, begun with a start, and each call with one result after it."""
    assert [event.seq for event in log] == list(range(len(log)))
    assert log[0].type == "session_start"
    calls = [event.id for event in log if event.type == "tool_call"]
    results = [event.id for event in log if event.type == "tool_result"]
    assert sorted(calls) == sorted(results)
    assert len(set(calls)) == len(calls)
    places = {event.id: event.seq for event in log if event.type == "tool_call"}
    assert all(event.seq > places[event.id] for event in log if event.type == "tool_result")
    reader = LineReader()
    assert reader.feed(encode_log(log)) == log


@pytest.mark.parametrize(
    "wanted",
    [
        lambda log: any(a.type == b.type == "tool_call" for a, b in pairwise(log)),
        lambda log: [e.id for e in log if e.type == "tool_call"] != [e.id for e in log if e.type == "tool_result"],
        lambda log: sum(event.type == "turn_end" for event in log) > 1,
    ],
    ids=["parallel calls", "results out of order", "several turns"],
)
def test_logs_have_what_agents_do(wanted):
    """Parallel calls, results in another order, several turns."""
    assert wanted(find(logs(), wanted, settings=SEARCH))


LOG = encode_log([Event.make("user", {"content": str(number)}) for number in range(5)])


@pytest.mark.parametrize("lost", range(6))
def test_damage_loses_any_number_of_events(lost):
    """From none to all: the strategy reaches every outcome."""

    def loses(log: bytes) -> bool:
        reader = LineReader()
        return len(reader.feed(log) + reader.finish()) == 5 - lost

    assert loses(find(damaged_bytes(LOG), loses, settings=SEARCH))


@given(st.binary(max_size=40).flatmap(damaged_bytes))
def test_anything_can_be_damaged(log):
    """Bytes that are no log are damaged as well, without an error."""
    assert isinstance(log, bytes)


def test_references_are_not_made_by_chance():
    """Keys that look like ours come up, and are the user's."""
    found = find(json_values(), lambda value: isinstance(value, dict) and "$blob" in value, settings=SEARCH)
    assert not is_reference(Event.make("user", {"v": found}).data["v"])


def test_hypothesis_is_needed_only_when_used():
    """Who tests a store with the contract alone need not have it."""
    code = "import sys, holdfast.testing; sys.exit('hypothesis' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
