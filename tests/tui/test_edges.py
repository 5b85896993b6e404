"""What goes wrong, what is too long, and what is clicked."""

from __future__ import annotations

import pytest

from holdfast.apps.render.transcript import family
from holdfast.apps.tui._entry_lines import EntryLook, block_of
from holdfast.apps.tui._session_table import state_of
from holdfast.errors import NotFound
from holdfast.model import SessionMetadata
from holdfast.replay import Entry


def fails(*arguments, **options):
    """A store that is not there any more."""
    raise NotFound("it went away")


async def test_the_keys_can_be_clicked(sit, trip):
    """A click on the bar below is a press of that key; beyond the last it is nothing."""
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        await seat.pilot.click("KeyBar", offset=(79, 0))
        place = seat.shown.splitlines()[-1].index("? Help")
        await seat.pilot.click("KeyBar", offset=(place + 2, 0))
        await seat.sees("Everywhere")


async def test_a_list_that_fails_is_told(sit, hf, fill, monkeypatch):
    """Whether it is the first page, a filter or a page further down: a sentence, and it goes on."""
    fill(3)
    async with sit() as seat:
        await seat.sees("3 sessions")
        monkeypatch.setattr(hf, "list", fails)
        await seat.press("s")
        await seat.sees("it went away")
        await seat.sees("Note 1")


async def test_pages_that_fail_are_told(sit, hf, trip, monkeypatch):
    """Comparison, time travel and statistics say what is wrong in their title."""
    hf.fork(trip, title="Porto")
    for name in ("compare", "state", "stats", "info"):
        monkeypatch.setattr(hf, name, fails)
    async with sit(size=(100, 24)) as seat:
        await seat.sees("Porto")
        for keys in (("space", "down", "equals_sign"), ("v",), ("a",), ("b",)):
            await seat.press(*keys)
            await seat.sees("it went away")
            await seat.press("escape")
            await seat.misses("it went away")


async def test_a_search_that_fails_is_told(sit, hf, trip, monkeypatch):
    """The line below the query says why; an empty query asks nothing."""
    monkeypatch.setattr(hf, "search", fails)
    async with sit() as seat:
        await seat.press("f")
        await seat.type("x")
        await seat.sees("it went away")
        await seat.press("backspace")
        await seat.misses("it went away")
        await seat.press("enter")
        assert len(seat.app.screen_stack) == 2


async def test_going_back_that_fails_is_told(sit, hf, trip, monkeypatch):
    """Nothing is made, and the page stays; without snapshots their key does nothing."""
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        await seat.press("v")
        await seat.sees("event")
        await seat.press("s")
        monkeypatch.setattr(hf, "restore", fails)
        await seat.press("R")
        await seat.sees("it went away")
    assert len(hf.list()) == 1


async def test_buttons_with_arrows_and_mouse(sit, hf, trip):
    """A dialog answers to arrows and Enter, and to a click."""
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        await seat.press("d")
        await seat.sees("into the trash?")
        await seat.press("right", "left", "right", "enter")
        await seat.misses("into the trash?")
        assert hf.exists(trip)
        await seat.press("d")
        await seat.sees("into the trash?")
        await seat.pilot.click("#answer-y")
        await seat.until(lambda: not hf.exists(trip))


async def test_talking_without_any_session_begins_one(sit, hf, model):
    """In an empty store the key to talk begins the first session; a blank line sends nothing."""
    async with sit() as seat:
        await seat.press("c", "enter")
        await seat.type("hello")
        await seat.press("enter")
        await seat.sees("you said hello")


def test_a_relative_that_cannot_be_read(hf, trip, monkeypatch):
    """It stands in the tree all the same."""
    child = hf.fork(trip, 4)
    info = hf.info
    monkeypatch.setattr(hf, "info", lambda one: fails() if one == child else info(one))
    assert [row.session_id for row in family(hf, trip, 9)[0]] == [trip, child]


@pytest.mark.unmeasured
def test_a_very_long_text_is_cut():
    """Only so much of a text is drawn, and the rest is counted."""
    entry = Entry(1, 0, 0, "assistant", ("word\n" * 60_000,))
    lines = block_of(entry, "it", EntryLook(40), is_open=True).lines
    assert len(lines) < 50_000
    assert "more characters; an export" in " ".join(line.text for line in lines[-6:])


def test_states_in_words():
    """What a session is, in a word or two."""
    made = {
        "too new": {"state": "too_new"},
        "waiting": {"status": "waiting"},
        "held": {"held": True, "pinned": True},
        "archived": {"archived": True},
        "pinned": {"pinned": True},
        "": {},
    }
    for word, members in made.items():
        assert state_of(SessionMetadata(session_id="x", **members)) == word
