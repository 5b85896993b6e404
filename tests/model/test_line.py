"""The line: its bytes, its checksum, and what may stand in its head."""

from __future__ import annotations

import json
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidData
from holdfast.model import (
    START,
    Event,
    LineReader,
    Position,
    _line,
    encode_event_line,
    encode_line,
    encode_sealed_line,
    line_body,
    type_bytes,
)
from holdfast.testing.strategies import encode_log, events

EVENT = Event.make("user", {"content": "Hi"}, timestamp=5)


def test_a_line_is_as_the_design_shows_it():
    """Members in their order, no spaces, the checksum last."""
    event = Event("user", 7, 5, b'{"content":"Hi"}', "r", "k", more=True)
    line, _ = encode_line(7, line_body(event), 0)
    head = b'{"seq":7,"type":"user","timestamp":5,"run":"r","key":"k","more":true,"data":{"content":"Hi"},"crc":"'
    assert line == head + b'%08x"}\n' % crc32(head)


def test_the_checksum_runs_over_all_lines():
    """The value that a line returns is the one that the next goes on with."""
    first, crc = encode_line(0, line_body(EVENT), 0)
    second, after = encode_line(1, line_body(EVENT), crc)
    assert crc == crc32(first)
    assert after == crc32(first + second)
    assert first[9:-11] == second[9:-11]
    assert first[-11:] != second[-11:]


def test_the_short_way_gives_the_same_line():
    """What an append writes is what everyone else writes."""
    expected = encode_line(3, line_body(EVENT), 77)
    assert encode_event_line(3, "user", 5, EVENT.raw, 77) == expected


def test_a_sealed_line_shows_its_number_only():
    """The form that is reserved: seq, base64, checksum."""
    line, crc = encode_sealed_line(4, b"\x00\xff~", 9)
    head = b'{"seq":4,"sealed":"AP9+","crc":"'
    assert line == head + b'%08x"}\n' % crc32(head, 9)
    assert crc == crc32(line, 9)


def test_a_line_is_json_that_any_parser_takes():
    """A line is one JSON object in UTF-8 with one newline, at its end."""
    event = Event.make("user", {"content": 'a\n"b"\\ \u2028 ü 👋 \x7f'}, run="ü\n", key='"')
    line, _ = encode_line(0, line_body(event), 0)
    found = json.loads(line)
    assert list(found) == ["seq", "type", "timestamp", "run", "key", "data", "crc"]
    assert found["data"] == event.data
    assert (found["run"], found["key"]) == ("ü\n", '"')
    assert line.count(b"\n") == 1


@given(st.lists(events(), max_size=8))
def test_what_is_encoded_is_decoded(found):
    """Any events, whatever they hold, come back equal."""
    reader = LineReader()
    read = reader.feed(encode_log(found)) + reader.finish()
    expected = [
        Event(event.type, seq, event.timestamp, event.raw, event.run, event.key) for seq, event in enumerate(found)
    ]
    assert read == expected
    assert [event.data for event in read] == [event.data for event in found]
    assert reader.position == Position(len(found), len(encode_log(found)), crc32(encode_log(found)))


@pytest.mark.parametrize("type", ["user", "x.vendor/a-b:c_D9", "a" * 64])
def test_event_types_are_short_names(monkeypatch, type):
    """Letters, digits and a few signs, at most 64, beginning with a letter."""
    monkeypatch.setattr(_line, "_type_bytes", {})  # other tests may have filled it
    assert type_bytes(type) == type.encode()
    assert type_bytes(type) is type_bytes(type)


@pytest.mark.parametrize("type", ["", "a" * 65, "1a", "a b", 'a"', "a\n", "ü", "a\0", None, 5, [], b"user", "user\n"])
def test_other_event_types_are_refused(type):
    """A name that could break the line is refused before anything is written."""
    with pytest.raises(InvalidData):
        type_bytes(type)
    with pytest.raises(InvalidData):
        Event.make(type)
    with pytest.raises(InvalidData):
        encode_event_line(0, type, 0, b"{}", 0)


def test_the_memory_of_names_is_bounded(monkeypatch):
    """Types that a hostile import invents are not kept for ever."""
    monkeypatch.setattr(_line, "_type_bytes", {})
    monkeypatch.setattr(_line, "_heads", {})
    monkeypatch.setattr(_line, "_KEPT_MAX", 5)
    for number in range(20):
        line, _ = encode_event_line(0, f"invented-{number}", 0, b"{}", 0)
        assert b'"type":"invented-%d"' % number in line
    assert len(_line._type_bytes) == len(_line._heads) == 5


def test_the_model_has_no_other_names():
    """What is loaded late is found; what is not there is not."""
    import holdfast.model

    assert all(hasattr(holdfast.model, name) for name in holdfast.model.__all__)
    assert not hasattr(holdfast.model, "nothing")


@pytest.mark.parametrize(
    "changes",
    [
        {"timestamp": 1.5},
        {"timestamp": "5"},
        {"timestamp": True},
        {"timestamp": 1 << 63},
        {"timestamp": 10**5000},
        {"run": 5},
        {"run": "a\0"},
        {"run": "\ud800"},
        {"key": ["k"]},
        {"key": "\0"},
        {"key": "\udfff"},
        {"type": "no type"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_heads_that_no_reader_would_take_are_refused(changes):
    """Whatever is written can be read back."""
    members = {"type": "user", "seq": 0, "timestamp": 0, "raw": b"{}"} | changes
    with pytest.raises(InvalidData):
        line_body(Event(**members))


def test_a_position_is_three_numbers():
    """The beginning is at nothing."""
    assert Position(seq=0, offset=0, crc=0) == START
