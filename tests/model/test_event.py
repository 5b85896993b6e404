"""The event: frozen, lazy, typed on demand, and equal to itself wherever it goes."""

from __future__ import annotations

import copy
import json
import pickle  # noqa: TID251 - events must survive it
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidData
from holdfast.model import BODIES, Event, LineReader, Notice, SessionMetadata, encode_line, line_body
from holdfast.testing.strategies import event_data

GOLDEN = Path(__file__).parents[1] / "golden/v1/full.expected.json"
EXAMPLES = json.loads(GOLDEN.read_text("utf-8"))["events"]


def from_log(event: Event) -> Event:
    """The same event as a reader gives it: its data is a view into the log."""
    line, _ = encode_line(0, line_body(event), 0)
    (found,) = LineReader().feed(line)
    return found


def test_an_event_cannot_be_changed():
    """Recorded is recorded."""
    event = Event.make("user", {"content": "Hi"})
    for name in ("type", "seq", "timestamp", "raw", "run", "key", "more", "data", "body", "id"):
        with pytest.raises(AttributeError):
            setattr(event, name, None)


def test_an_event_made_without_a_log_has_no_number():
    """It gets one with its append."""
    event = Event.make("tag", {"tag": "x"}, timestamp=3, run="r", key="k")
    assert (event.seq, event.timestamp, event.run, event.key, event.more) == (-1, 3, "r", "k", False)
    assert Event.make("closed").data == {}
    assert Event.make("closed", seq=4).seq == 4


def test_data_is_decoded_once_and_late():
    """Bytes that nobody looks at cost nothing; looked at twice, they are decoded once."""
    event = from_log(Event.make("user", {"content": "Hi"}))
    assert not event.__dict__
    assert event.data is event.data
    assert event.body is event.body


@pytest.mark.parametrize("raw", [b"[]", b"5", b'"text"', b"{", b"", b"\xff", b"[" * 100_000])
def test_data_that_is_no_map_is_a_typed_error(raw):
    """A foreign log may hold anything; whoever looks is told."""
    with pytest.raises(InvalidData):
        _ = Event("user", raw=raw).data


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["type"])
def test_the_body_of_every_type_has_its_members(example):
    """Typed access gives what the data says."""
    event = Event.make(example["type"], example["data"])
    body = event.body
    if event.type not in BODIES:
        assert body == event.data
        return
    assert type(body) is BODIES[event.type]
    for name in body.__struct_fields__:
        if name in event.data:
            assert getattr(body, name) == event.data[name]
    with pytest.raises(AttributeError):
        body.anything = 1


@given(st.data())
def test_bodies_take_whatever_is_well_formed(data):
    """Members that may be missing may be missing; unknown ones are passed over."""
    type = data.draw(st.sampled_from(sorted(BODIES)))
    members = data.draw(event_data(type))
    body = Event.make(type, members).body
    for field in msgspec.structs.fields(body):
        assert field.name not in members or getattr(body, field.name) == members[field.name]


@pytest.mark.parametrize(
    ("type", "data"),
    [
        ("tool_call", {"id": 5, "tool": "x"}),
        ("tool_call", {"tool": "x"}),
        ("delta", {"content": ["x"]}),
        ("variable_set", {}),
        ("usage", {"input_tokens": "many"}),
    ],
)
def test_a_body_that_is_not_well_formed_is_a_typed_error(type, data):
    """The data can still be read; only its typed form cannot."""
    event = Event.make(type, data)
    with pytest.raises(InvalidData, match=type):
        _ = event.body
    assert event.data == data


def test_every_body_shares_the_optional_extras():
    """Any event may say where it came from; free maps hold what they like."""
    for type, body in BODIES.items():
        if type not in ("config", "metadata"):
            assert {"metadata", "usage", "raw"} <= set(body.__struct_fields__)


def test_the_id_of_calls_and_results():
    """A call and its result have the same id; other events have none."""
    assert Event.make("tool_call", {"id": "c", "tool": "x"}).id == "c"
    assert Event.make("tool_result", {"toolCallId": "c"}).id == "c"
    assert Event.make("tool_result", {"toolCallId": 5}).id is None
    assert Event.make("tool_call").id is None
    assert Event.make("link", {"kind": "acp", "id": "c"}).id is None


def test_events_are_equal_by_what_they_record():
    """Wherever the bytes lie, and never equal to something else."""
    event = Event.make("user", {"content": "Hi"}, seq=0)
    assert event == from_log(event)
    assert not event != from_log(event)  # noqa: SIM202 - an operator of its own
    assert hash(event) == hash(from_log(event))
    assert len({event, from_log(event)}) == 1
    for other in (
        Event.make("user", {"content": "Ho"}, seq=0),
        Event.make("user", {"content": "Hi"}, seq=1),
        Event.make("user", {"content": "Hi"}, seq=0, run="r"),
        Event("user", 0, 0, event.raw, more=True),
        "user",
        None,
    ):
        assert event != other


@pytest.mark.parametrize("move", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_events_can_be_copied_and_pickled(move):
    """A copy is equal and stands alone, also one of an event that lies in a log."""
    event = Event.make("user", {"content": "Hi"}, seq=0, timestamp=7, run="r", key="k")
    for original in (event, from_log(event)):
        assert original.data
        assert move(original) == event
        assert move(original).data == {"content": "Hi"}


def test_an_event_shows_itself_shortly():
    """A long event does not flood a terminal."""
    shown = repr(Event.make("user", {"content": "x" * 10_000}))
    assert shown.startswith("Event(seq=-1, type='user', data={'content': 'xxx")
    assert len(shown) < 250


def test_an_event_whose_data_is_no_json_shows_its_bytes():
    """A damaged event can be looked at: to show it must not raise."""
    assert repr(Event("user", 3, 0, msgspec.Raw(b'{"content"'))) == "Event(seq=3, type='user', data=b'{\"content\"')"


def test_metadata_and_notices_are_plain_values():
    """Rows of lists and notices compare, copy and pickle, and cannot be changed."""
    row = SessionMetadata(session_id="s", tags=("a",))
    notice = Notice("deleted", "s")
    for value in (row, notice):
        assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value) == value
        with pytest.raises(AttributeError):
            value.session_id = "t"
    assert (row.status, row.state, notice.detail) == ("idle", "ok", {})
    assert Notice("x", "s").detail is not notice.detail


@pytest.mark.parametrize(
    ("raw", "id"),
    [
        (b'{"id":"c1","tool":"t"}', "c1"),
        (b'{"tool":"t","id":"c2"}', "c2"),
        (b'{"id":"a\\"b"}', 'a"b'),
        ('{"id":"\u00e9"}'.encode(), "\u00e9"),
        (b'{"toolCallId":"c3"}', None),
        (b'{"id":4}', None),
    ],
)
def test_the_id_is_the_same_whether_or_not_the_data_was_looked_at(raw, id):
    """It is usually read without decoding anything else, and never differs from the data's."""
    assert Event("tool_call", raw=raw).id == id
    seen = Event("tool_call", raw=raw)
    assert seen.data.get("id") == id or id is None
    assert seen.id == id
    assert Event("user", raw=raw).id is None
