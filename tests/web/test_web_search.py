"""The search of the web app: what it counts, how it is narrowed and sorted, and words that forks share."""

from __future__ import annotations

import re

import pytest

from holdfast.apps.render.search import gather
from holdfast.apps.web import _list
from holdfast.catalog import Hit, Snippet

ROW = re.compile(r'class="row-title" data-row href="/s/([^"]+)"')
COUNT = re.compile(r"data-tell>(.*?) \(", re.DOTALL)


def search(visitor, **query):
    """The ids of the rows, in order, and the sentence above them."""
    text = visitor.get("/", params=query).text
    told = COUNT.search(text)
    return ROW.findall(text), told and told[1]


@pytest.fixture
def loops(hf):
    """Sessions that all speak of one thing, of every state."""
    for number, title in enumerate(("Cedar", "Birch", "Ash")):
        with hf.session(title.lower(), title=title) as s:
            for turn in range(3 - number):
                s.user(f"the event loop, part {turn}")
    with hf.session("broken", title="Broken") as s:
        s.user("the event loop fails")
        s.append("agent_error", {"agent": "a", "error": "boom"})
    hf.archive("ash")
    return hf


def test_totals_are_those_of_the_store(loops, visitor, monkeypatch):
    """All sessions and places are counted, also those on later pages, to which a link leads."""
    monkeypatch.setattr(_list, "_ROWS", 2)
    rows, told = search(visitor, q="event loop")
    assert len(rows) == 2
    assert told == f"4 sessions found, {len(loops.search('event loop', limit=None))} matches"
    more, _ = search(visitor, q="event loop", after="2")
    assert {*rows, *more} == {"cedar", "birch", "ash", "broken"}
    assert "after=2" in visitor.get("/", params={"q": "event loop"}).text
    assert "after=" not in visitor.get("/", params={"q": "event loop", "after": "2"}).text


def test_a_search_that_is_cut_says_so(loops, visitor, monkeypatch):
    """Where more was found than is looked at, no total is claimed."""
    monkeypatch.setattr(_list, "_HITS_MAX", 3)
    _, told = search(visitor, q="event loop")
    assert told.startswith("More than 3 matches in at least ")


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"status": "failed"}, ["broken"]),
        ({"status": "waiting"}, []),
        ({"kept": "archived"}, ["ash"]),
        ({"kept": "active", "sort": "title"}, ["birch", "broken", "cedar"]),
        ({"sort": "title"}, ["ash", "birch", "broken", "cedar"]),
        ({"sort": "messages"}, ["cedar", "birch"]),
    ],
)
def test_filters_and_order_count_in_a_search(loops, visitor, filters, expected):
    """Status, archive and order narrow and sort what was found, as they do the list."""
    rows, _ = search(visitor, q="event loop", **filters)
    assert rows[: len(expected)] == expected
    assert len(rows) == len(expected) or filters["sort"] == "messages"


def test_ids_too_are_narrowed(loops, visitor):
    """A session that is found by its id fits the filters as well."""
    assert search(visitor, q="cedar")[0] == ["cedar"]
    assert search(visitor, q="cedar", status="failed")[0] == []


def test_a_found_session_shows_its_state(loops, visitor):
    """A failed session has its badge among hits as in the list."""
    for query in ({}, {"q": "event loop"}):
        assert '<span class="badge bad">failed</span>' in visitor.get("/", params=query).text


def test_words_that_forks_share_are_shown_once(hf, visitor):
    """A hit stands in the session it was said in; the forks and merges that have it too are named."""
    with hf.session("root", title="Root") as s, s.turn():
        s.user("where is the event loop")
    hf.fork("root", new_id="fork-a", title="By train")
    hf.fork("root", new_id="fork-b", title="By boat")
    with hf.session("fork-b") as s, s.turn():
        s.user("an event loop of its own")
    hf.merge("fork-a", "fork-b", new_id="both", title="Both")
    rows, told = search(visitor, q="event loop")
    assert sorted(rows) == ["fork-b", "root"]
    assert told == "4 sessions found, 6 matches; matches that forks share are shown once"
    text = visitor.get("/", params={"q": "event loop"}).text
    for id, title in (("fork-a", "By train"), ("fork-b", "By boat"), ("both", "Both")):
        assert f'<a href="/s/{id}">{title}</a>' in text


def test_the_same_words_twice_in_a_session_are_two_places():
    """Only what sessions share is told once: what one says again stays."""
    hits = [
        Hit(session_id=id, seq=seq, role="user", snippet=Snippet("echo"), score=1.0, timestamp=5)
        for id in ("copy", "first")
        for seq in (7, 3)
    ]
    [one] = gather(hits, {"copy": "first"}.get)
    assert (one.session_id, [hit.seq for hit in one.hits], one.also_in) == ("first", [7, 3], {"copy": "copy"})
