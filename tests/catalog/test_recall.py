"""What an event says, read from its log by its number."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.catalog._recall import Recaller
from holdfast.catalog._search import Found


@pytest.fixture
def hf(tmp_path):
    """A store with one session."""
    with holdfast.open(tmp_path) as found:
        with found.session("s") as s:
            s.user("first")
            s.tool_call("Read", {"path": "a"})
            # Just below what is kept beside the log: longer than one read together with the slack.
            s.user("x " * 129_700 + "end")
            s.append("delta", {"content": "half "})
            s.append("delta", {"content": "aside", "kind": "thinking"})
            s.append("delta", {"content": "said"})
        yield found


def recall(hf, seq, *, key="sessions/s", place=0, last=None, role="user", name=None, hint=None):
    """What a recaller says of an event, and when."""
    found = Found(1, 1, seq, last, place, 0, role, name)
    return Recaller(hf.store, lambda _: key, hint).recall(found)


def test_an_event_by_its_number(hf):
    """Text, role and time are those of the log, wherever the index thinks that the line is."""
    event = next(hf.events("s", 2))
    for place in (0, 5, 100_000, 10**9):
        recalled = recall(hf, 2, place=place)
        assert (recalled.said.role, recalled.said.text) == ("user", "first")
        assert recalled.timestamp == event.timestamp


def test_a_line_longer_than_one_read(hf):
    """A line that ends in the next piece of the log is read whole."""
    assert recall(hf, 4).said.text.endswith("x end")


def test_the_name_of_the_tool(hf):
    """A call names its tool itself; of a result the index knows it."""
    assert recall(hf, 3, name="Other").said.name == "Read"


def test_streams(hf):
    """The pieces of one stream are put together, those of another are left out."""
    assert recall(hf, 5, last=7, role="assistant").said.text == "half said"
    assert recall(hf, 6, last=6, role="thinking").said.text == "aside"
    assert recall(hf, 4, last=7, role="assistant") is None
    assert recall(hf, 99, last=100, role="assistant") is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"seq": 99},
        {"seq": 0},
        {"seq": 2, "key": None},
        {"seq": 2, "key": "sessions/none"},
        {"seq": 2, "key": "no key"},
        {"seq": 2, "hint": b"->"},
    ],
)
def test_what_is_not_there(hf, wrong):
    """An event that is missing, says nothing or is in no session gives nothing, and no error."""
    assert recall(hf, **wrong) is None


@pytest.mark.parametrize("digits", [b"00000000", b"zzzzzzzz"])
def test_a_wrong_checksum(hf, tmp_path, digits):
    """A line that is not as written is not believed."""
    log = tmp_path / "sessions" / "s" / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2][:-11] + digits + lines[2][-3:]
    log.write_bytes(b"".join(lines))
    assert recall(hf, 2) is None


def test_several_events_of_one_session(hf):
    """What was read for one hit serves the next."""
    recaller = Recaller(hf.store, lambda _: "sessions/s")
    texts = [
        recaller.recall(Found(1, 1, seq, None, 0, 0, "user", None)).said.text[:5]
        for seq in (2, 3, 4, 2)
    ]
    assert texts == ["first", "Read\n", "x x x", "first"]
