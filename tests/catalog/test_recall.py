"""What an event says, read from its log by its number."""

from __future__ import annotations

import os

import pytest

import holdfast
from holdfast.catalog._recall import Recaller
from holdfast.catalog._search import Candidate
from holdfast.storage import FileStore
from holdfast.testing import FaultyDisk


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
    found = Candidate(1, 1, seq, last, place, 0, role, name)
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
    texts = [recaller.recall(Candidate(1, 1, seq, None, 0, 0, "user", None)).said.text[:5] for seq in (2, 3, 4, 2)]
    assert texts == ["first", "Read\n", "x x x", "first"]


def many(tmp_path, disk=None):
    """A store with a word in thirty sessions, twice in each, and its library."""
    hf = holdfast.Holdfast(FileStore(str(tmp_path / "many"), disk=disk))
    for number in range(30):
        with hf.session(f"s{number:02d}") as s:
            s.user(f"a quokka in {number}")
            s.user("x" * 9_000 if number % 2 else "short")
            s.user(f"the other quokka of {number}, " + "y" * 20_000)
    folder = tmp_path / "many" / "sessions"
    for place in (*folder.glob("*/events.jsonl"), folder):
        os.utime(place, (10**9, 10**9))  # what has just changed is looked at again
    hf.search("warm")
    hf.search("warm")
    return hf


def test_hits_are_read_together(tmp_path):
    """For twenty hits the folder of sessions is opened once, and each log of theirs once."""
    disk = FaultyDisk()
    with many(tmp_path, disk) as hf:
        disk.counts.clear()
        hits = hf.search("quokka in")
        assert len(hits) == 20
        counts = {name: disk.counts[name] for name in ("open_directory", "open_read", "read_at")}
        assert counts == {"open_directory": 21, "open_read": 20, "read_at": 20}


def test_hits_that_were_read_before_are_not_opened_again(tmp_path):
    """What is remembered costs one look at each log, and none is opened."""
    disk = FaultyDisk()
    with many(tmp_path, disk) as hf:
        first = hf.search("quokka in")
        disk.counts.clear()
        assert hf.search("quokka in") == first
        assert (disk.counts["open_read"], disk.counts["read_at"]) == (0, 0)


def test_a_search_asks_the_index_three_times(tmp_path):
    """What changed, which events, and of which sessions: no statement more, however many hits."""
    with many(tmp_path) as hf:
        statements = []
        connection = hf._core.catalog._opened().connection
        connection.set_trace_callback(statements.append)
        assert len(hf.search("quokka in")) == 20
        connection.set_trace_callback(None)
        # What the full-text table asks of its own tables is no matter of ours.
        assert len([one for one in statements if not one.startswith("--")]) == 3


def test_long_lines_and_short_ones_together(tmp_path):
    """Every hit is found, those of one session and those with long lines too."""
    with many(tmp_path) as hf:
        hits = hf.search("quokka", limit=None)
        assert {(hit.session_id, hit.seq) for hit in hits} == {
            (f"s{number:02d}", seq) for number in range(30) for seq in (2, 4)
        }


@pytest.mark.parametrize("change", ["role = 99", "role = -1", "tool = tool + 1", "role = 'x'"])
def test_a_row_that_cannot_be(tmp_path, change):
    """A row that nobody can have written makes the index anew, and the answer is the same."""
    with many(tmp_path) as hf:
        hits = {(hit.session_id, hit.seq) for hit in hf.search("quokka in", limit=None)}
        index = hf._core.catalog._opened()
        index.connection.execute(f"UPDATE said SET {change}")
        found = hf.search("quokka in", limit=None)
        assert {(hit.session_id, hit.seq) for hit in found} == hits
        assert hf.catalog_health().mended == 1
