"""The list of sessions: pages, filter, order, marks."""

from __future__ import annotations

import re

import pytest

import holdfast
from holdfast.apps.tui import _sessions
from holdfast.apps.tui._sessions import ORDERS, SessionPages, parse, renewed
from holdfast.model import SessionMetadata


def row(id, updated=0):
    """A row of a list."""
    return SessionMetadata(session_id=id, updated_at=updated)


@pytest.mark.req("S2-6")
@pytest.mark.req("S2-56")
async def test_the_list_shows_what_there_is(sit, trip, fill):
    """Title, age, messages, tokens, newest first, and how many there are."""
    fill(3)
    async with sit(size=(100, 24)) as seat:
        shown = await seat.sees("Trip to Lisbon", "4 sessions")
        lines = shown.splitlines()
        assert "TITLE" in lines[1]
        assert [line.split()[0] for line in lines[2:6]] == ["Note", "Note", "Note", "Trip"]
        assert re.search(r"just now|\d min ago", lines[5])  # on a busy machine
        assert " 5 " in lines[5]
        assert "1.2k" in lines[5]
        assert "travel" in lines[5]


async def test_an_empty_store_is_told(sit):
    """Without sessions the app opens all the same."""
    async with sit() as seat:
        await seat.sees("0 sessions")
        await seat.press("enter", "d", "r", "t", "p", "x", "z", "v", "b", "F", "colon")
        assert len(seat.app.screen_stack) == 1


async def test_the_folder_of_another_system_is_told(sit, store_root):
    """In place of an empty list it says whose sessions lie there."""
    folder = store_root / "session-abc123"
    folder.mkdir(parents=True)
    line = '{"type": "user", "timestamp": 1701234567890, "data": {"content": "hi"}}'
    (folder / "events.jsonl").write_text(line)
    async with sit(size=(100, 24)) as seat:
        await seat.sees("0 sessions", "Sessions of event-folder lie here", "holdfast import")


async def test_filter_as_you_type(sit, trip, fill):
    """Each letter narrows the list; fields go to the store; Escape brings all back."""
    fill(12)
    async with sit() as seat:
        await seat.sees("13 sessions")
        await seat.press("slash")
        await seat.type("lisb")
        await seat.sees("1 session  ")
        await seat.misses("Note 1")
        await seat.press("enter")
        assert seat.app.screen.chosen.session_id == trip
        await seat.press("slash", *["backspace"] * 4)
        await seat.type("tag:travel")
        await seat.sees("1 session  ")
        await seat.press("escape")
        await seat.sees("13 sessions")


async def test_sort_by_another_column(sit, fill):
    """A key goes through the orders; the most messages come first when sorted by them."""
    fill(10)
    async with sit() as seat:
        await seat.sees("10 sessions")
        for order in ORDERS[1:4]:
            await seat.press("s")
            await seat.sees(f"by {order}")
        await seat.until(lambda: seat.app.screen.chosen.session_id == "note-006")
        counts = [one.message_count for one in seat.app.screen.sessions.rows]
        assert counts == sorted(counts, reverse=True)


async def test_pages_come_when_they_are_needed(sit, fill, monkeypatch):
    """At first there is one page; End fetches all the rest and goes to the last."""
    monkeypatch.setattr(_sessions, "FIRST_PAGE", 10)
    monkeypatch.setattr(_sessions.SessionPages.first, "__defaults__", (10,))
    monkeypatch.setattr(_sessions, "_PAGE", 20)
    fill(75)
    async with sit(size=(80, 12)) as seat:
        await seat.sees("75 sessions")
        assert len(seat.app.screen.sessions.rows) == 10
        await seat.press("pagedown")
        await seat.until(lambda: len(seat.app.screen.sessions.rows) > 10)
        await seat.press("end")
        await seat.sees("Note 0 ")
        assert seat.app.screen.chosen.session_id == "note-000"
        await seat.press("home")
        await seat.sees("Note 74")


async def test_what_another_program_does_appears(sit, fill, store_root):
    """A session that is made, opened or deleted elsewhere changes the list by itself."""
    fill(3)
    async with sit() as seat:
        await seat.sees("3 sessions")
        with holdfast.open(store_root) as other, other.session("new", title="Fresh news") as s:
            s.user("hello")
            shown = await seat.sees("Fresh news", "4 sessions")
            assert "●" in next(line for line in shown.splitlines() if "Fresh" in line)
        with holdfast.open(store_root) as other:
            other.delete("new")
        await seat.misses("Fresh news")


async def test_a_click_chooses_and_a_second_one_opens(sit, fill):
    """The mouse works in the list."""
    fill(5)
    async with sit() as seat:
        await seat.sees("5 sessions")
        await seat.pilot.click("#sessions", offset=(5, 3))
        await seat.until(lambda: seat.app.screen.chosen.session_id == "note-002")
        await seat.pilot.click("#sessions", offset=(5, 3))
        await seat.sees("words of note 2")


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (160, 50), (300, 80)])
async def test_every_size_is_drawn(sit, trip, size):
    """From small to very wide: the title is there, and no line is wider than the screen."""
    async with sit(size=size) as seat:
        shown = await seat.sees("Trip to Lisbon")
        assert max(len(line) for line in shown.splitlines()) <= size[0]


def test_words_and_fields_of_a_filter():
    """Known fields are for the store, all else is words."""
    asked = parse("Lisbon tag:travel tag:work agent:planner note:x tag:")
    assert asked.words == ("lisbon", "note:x", "tag:")
    assert asked.filters() == {"tags": ["travel", "work"], "agent_id": "planner", "text": "lisbon note:x tag:"}
    assert not asked.is_newest_first
    assert parse("tag:travel").is_newest_first
    assert parse("", order=2).filters() == {"sort": "title"}


def test_a_newer_page_replaces_the_head():
    """What moved up moves up, what is gone from the page goes, the rest stays."""
    old = [row("a", 9), row("b", 8), row("c", 7), row("d", 6)]
    head = [row("c", 10), row("a", 9)]
    assert [one.session_id for one in renewed(old, head, more=True)] == ["c", "a", "b", "d"]
    head = [row("a", 9), row("c", 7)]
    assert [one.session_id for one in renewed(old, head, more=True)] == ["a", "c", "d"]
    assert renewed(old, [], more=False) == []


def test_every_order_is_the_store_s_own(hf, fill):
    """Filtered or sorted, only pages are asked for, and they follow each other."""
    fill(10)
    pages = SessionPages(hf)
    for order in range(len(ORDERS)):
        asked = parse("note", order)
        rows, after = pages.first(asked, 4)
        while after is not None:
            assert len(rows) < 10
            more, after = pages.following(asked, after)
            rows += more
        expected = [row.session_id for row in hf.list(None, sort=ORDERS[order])]
        assert [row.session_id for row in rows] == expected
    [row], after = pages.first(parse("NOTE 3"))
    assert (row.session_id, after) == ("note-003", None)
