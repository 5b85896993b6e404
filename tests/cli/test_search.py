"""``holdfast search``, and the jump to what it found."""

from __future__ import annotations

import json
import re

import pytest


@pytest.fixture
def talk(library):
    """A session long enough to jump around in."""
    with library.session("talk", title="A long talk") as s:
        s.tag("long")
        for number in range(12):
            s.user(f"question number {number}")
            s.assistant(f"answer number {number}")
        call = s.tool_call("Read", {"path": "src/auth/login.py"})
        s.tool_result(call, {"content": "line\n" * 50 + "the needle\n" + "line\n" * 50})
    return "talk"


@pytest.mark.req("S2-58")
def test_hits_are_shown(run, talk, trip):
    """A hit names session and event, who said it, when, and shows it; and how to get there."""
    outcome = run("search", "question", "7")
    assert outcome.code == 0
    title, who, text = outcome.out.splitlines()
    assert title == "A long talk  talk"
    assert re.search(r"user  (just now|\d+ min ago)", who)
    assert text == "    question number 7"
    seq = who.split()[0].removeprefix("#")
    assert f"holdfast show talk --at {seq}" in outcome.err


def test_hits_of_one_session_stand_together(run, talk):
    """The session is named once for hits that follow each other; calls and results have a sign."""
    lines = run("search", "login.py OR needle").out.splitlines()
    assert lines[0] == "A long talk  talk"
    assert len(lines) == 5
    assert {line.split()[1] for line in lines[1::2]} == {"→", "←"}


def test_json(run, talk):
    """--json has the hits with the ranges of what was found."""
    document = json.loads(run("search", "needle", "--json").out)
    [hit] = document["hits"]
    assert document["query"] == "needle"
    begin, end = hit["snippet"]["ranges"][0]
    assert hit["snippet"]["text"][begin:end] == "needle"
    assert (hit["session_id"], hit["role"], hit["tool"]) == ("talk", "tool_result", "Read")


@pytest.mark.req("S2-59")
@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--in", "talk"], 12),
        (["--in", "tal"], 12),
        (["--in", "trip-planner"], 0),
        (["--tag", "long"], 12),
        (["--tag", "travel"], 0),
        (["--since", "1h"], 12),
        (["--until", "2020-01-01"], 0),
        (["--agent", "nobody"], 0),
        (["--model", "none"], 0),
        (["--role", "assistant"], 0),
        (["--tool", "Read"], 0),
        (["--limit", "3"], 3),
        (["--limit", "0"], 12),
    ],
)
def test_options(run, talk, trip, options, count):
    """Each option narrows the search."""
    document = json.loads(run("search", "question", "number", *options, "--json").out)
    assert len(document["hits"]) == count


def test_more_than_the_limit(run, talk):
    """Where not everything may be shown, that is said."""
    assert "There may be more" in run("search", "number", "--limit", "2").err
    assert "There may be more" not in run("search", "needle", "--limit", "2").err


def test_nothing_found(run, talk):
    """No hit is no failure; it is said on standard error."""
    outcome = run("search", "unheard-of")
    assert (outcome.code, outcome.out) == (0, "")
    assert "No matches" in outcome.err


@pytest.mark.parametrize(
    "arguments", [["search"], ["search", ""], ["search", "x", "--role", "nobody"], ["search", "x", "--limit", "-1"]]
)
def test_wrong_usage(run, arguments):
    """A search without words, or with a wrong option, is wrong usage."""
    assert run(*arguments).code == 2


def test_a_session_that_is_not_there(run, talk):
    """--in names a session that must exist."""
    assert run("search", "x", "--in", "nowhere").code == 3


def test_the_jump(run, talk):
    """--at shows the conversation around an event, which is marked and whole."""
    hit = json.loads(run("search", "needle", "--json").out)["hits"][0]
    out = run("show", talk, "--at", str(hit["seq"])).out
    assert f"shown     around event {hit['seq']}" in out
    assert "the needle" in out
    [marked] = [line for line in out.splitlines() if line.startswith("▶")]
    assert f"#{hit['seq']}" in marked
    assert "answer number 11" in out
    assert "question number 3" not in out
    assert "earlier entries; drop --at to show all" in out


def test_the_jump_into_the_middle(run, talk):
    """A few entries before and after are shown, and how many there are beyond them."""
    hit = json.loads(run("search", "question 5", "--json").out)["hits"][0]
    out = run("show", talk, "--at", str(hit["seq"])).out
    shown = [line.split()[-1] for line in out.splitlines() if "number" in line]
    assert shown == ["3", "4", "4", "5", "5", "6", "6"]
    assert "earlier entries" in out
    assert "later entries" in out


def test_the_jump_to_an_event_that_is_no_entry(run, talk):
    """An event that nobody sees in a conversation leads to the entry before it, or the first."""
    out = run("show", talk, "--at", "0").out
    [marked] = [line for line in out.splitlines() if line.startswith("▶")]
    assert "user" in marked
    assert run("show", talk, "--at", "9999").code == 3


def test_the_last_entries_up_to_there(run, talk):
    """With --last the entries up to the event are shown, and none after it."""
    hit = json.loads(run("search", "question 5", "--json").out)["hits"][0]
    out = run("show", talk, "--at", str(hit["seq"]), "--last", "2").out
    assert "question number 5" in out
    assert "answer number 4" in out
    assert "answer number 5" not in out
