"""What is looked at is decoded together, and is the same as one by one."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidData
from holdfast.model import Event, one_by_one
from holdfast.model import _event as event_module


def _events(*raws: bytes) -> list[Event]:
    return [Event("user", seq, 1, raw) for seq, raw in enumerate(raws)]


def _is_decoded(events: list[Event]) -> list[bool]:
    return ["data" in event.__dict__ for event in events]


def test_who_looks_gets_the_next_events_decoded():
    """Of the second batch on, and each event has its own data."""
    first, second = _events(b'{"a":1}', b'{"a":2}'), _events(b'{"a":3}', b'{"b":{"c":[4]}}')
    taken = one_by_one([first, second])
    assert [next(taken).data for _ in first] == [{"a": 1}, {"a": 2}]
    assert not any(_is_decoded(second))
    assert next(taken) is second[0]
    assert _is_decoded(second) == [True, True]
    assert all(event.is_whole for event in second)
    assert [event.data for event in second] == [{"a": 3}, {"b": {"c": [4]}}]


def test_who_does_not_look_has_nothing_decoded():
    """Also if some of the events were looked at."""
    batches = [_events(b'{"a":1}', b'{"a":2}', b'{"a":3}'), [], _events(b'{"a":4}')]
    for event in one_by_one(batches):
        if event.seq == 1:
            assert event.data == {"a": 2}
    assert _is_decoded(batches[0]) == [False, True, False]
    assert _is_decoded(batches[2]) == [False]


@pytest.mark.parametrize(
    "raw", [b'{"$blob":"x","media":"y","bytes":3}', b'{"a":"\\ud800"}', b'{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}"]
)
def test_what_is_unusual_is_left_to_who_looks_at_it(raw):
    """A payload beside the log, broken text, depth: each event says what it is."""
    events = _events(b'{"a":1}', raw)
    for event in one_by_one([_looked_at(), events]):
        assert event.raw is not None
    assert _is_decoded(events) == [False, False]
    assert not any(event.is_whole for event in events)
    assert events[0].data == {"a": 1}


def test_data_that_is_no_object_is_told_when_it_is_looked_at():
    """The others of its batch are decoded."""
    events = _events(b"[]", b'{"a":1}')
    list(one_by_one([_looked_at(), events]))
    assert _is_decoded(events) == [False, True]
    with pytest.raises(InvalidData, match="not an object"):
        assert events[0].data


def test_lines_that_do_not_come_one_for_each_event_are_left(monkeypatch):
    """What is decoded must belong to its event."""
    monkeypatch.setattr(event_module, "_decode_lines", lambda _: [{}])
    events = _events(b'{"a":1}', b'{"a":2}')
    list(one_by_one([_looked_at(), events]))
    assert [event.data for event in events] == [{"a": 1}, {"a": 2}]


def test_a_huge_batch_is_not_decoded_ahead(monkeypatch):
    """It would take as much memory again."""
    monkeypatch.setattr(event_module, "_TOGETHER_MAX", 1)
    events = _events(b'{"a":1}', b'{"a":2}')
    list(one_by_one([_looked_at(), events]))
    assert _is_decoded(events) == [False, False]


def _looked_at() -> list[Event]:
    events = _events(b"{}")
    assert events[0].data == {}
    return events
