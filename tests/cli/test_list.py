"""``holdfast list``."""

from __future__ import annotations

import json
import time

import pytest


@pytest.fixture
def three(library):
    """Three sessions, one after the other."""
    for number, name in enumerate(["first", "second", "third"]):
        with library.session(name, agent_id="even" if number % 2 == 0 else "odd") as s:
            s.user(f"question {number}")
            s.tag("all")
            if number:
                s.tag("late")
        time.sleep(0.01)


def ids(outcome):
    """The first column of a listing."""
    return [line.split()[0] for line in outcome.out.splitlines()[1:]]


@pytest.mark.req("S2-29")
def test_newest_first(run, three):
    """The session that changed last is on top."""
    assert ids(run("list")) == ["third", "second", "first"]


@pytest.mark.req("S2-6")
def test_what_a_row_tells(run, trip):
    """A row has id, age, title, messages, tokens and tags."""
    header, row = run("list").out.splitlines()
    assert header.split() == ["ID", "UPDATED", "TITLE", "MSGS", "TOKENS", "TAGS", "STATE"]
    assert row.split("  ")[0] == "trip-planner"
    for part in ("just now", "Trip to Lisbon", " 4 ", "1.2k", "travel"):
        assert part in row


def test_limit(run, three):
    """--limit cuts, and 0 means all."""
    assert ids(run("list", "--limit", "2")) == ["third", "second"]
    assert len(ids(run("list", "--limit", "0"))) == 3


@pytest.mark.req("S2-62")
def test_tags_must_all_be_there(run, three):
    """Several --tag ask for sessions that have them all."""
    assert ids(run("list", "--tag", "all", "--tag", "late")) == ["third", "second"]


def test_agent(run, three):
    """--agent shows one agent's sessions."""
    assert ids(run("list", "--agent", "odd")) == ["second"]


@pytest.mark.req("S2-59")
def test_since_and_until(run, three):
    """Times may be dates or how long ago."""
    assert len(ids(run("list", "--since", "1h"))) == 3
    assert run("list", "--until", "1h").out == ""
    assert len(ids(run("list", "--since", "today", "--until", "today"))) == 3
    assert run("list", "--since", "2999-01-01").out == ""


@pytest.mark.parametrize("when", ["soon", "3x", "2026-13-01", "99999999d", ""])
def test_a_time_that_is_none(run, when):
    """A wrong time is wrong usage, and the message shows what is right."""
    outcome = run("list", "--since", when)
    assert outcome.code == 2
    assert "3d, 2h" in outcome.err


def test_json(run, trip):
    """--json gives one document with the sessions' metadata."""
    (row,) = json.loads(run("list", "--json").out)["sessions"]
    assert row["session_id"] == "trip-planner"
    assert row["title"] == "Trip to Lisbon"
    assert row["tags"] == ["travel"]
    assert row["message_count"] == 4
    assert row["total_tokens"] == 1234
    assert row["updated_at"] >= row["created_at"] > 1_700_000_000_000


def test_an_empty_store_says_so(run, store_root):
    """With nothing to list, the place is named and standard output stays empty."""
    outcome = run("list")
    assert outcome.code == 0
    assert outcome.out == ""
    assert f"no sessions in {store_root} yet" in outcome.err


def test_nothing_fits(run, three):
    """A filter that nothing passes is told apart from an empty store."""
    assert "fits" in run("list", "--tag", "none").err


def test_states_are_told(run, damaged, too_new, library):
    """A session that is damaged, too new or was cut off says so."""
    with library.session("cut") as s:
        s.append("turn_start", {"turn": 1})
        s.append("interrupted", {"reason": "killed"})
    states = {line.split()[0]: line.split()[-1] for line in run("list").out.splitlines()[1:]}
    assert states["broken"] == "damaged"
    assert states["from-the-future"] == "new"
    assert states["cut"] == "interrupted"
