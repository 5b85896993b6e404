"""Time travel, branches, analytics, help, the palette and the themes."""

from __future__ import annotations

import pytest

from holdfast.apps.render.transcript import family
from holdfast.apps.tui._time_screen import TimeScreen


@pytest.mark.req("S4-74")
async def test_time_travel(sit, hf, trip):
    """The slider shows state, memory and variables as they were, and knows the snapshots."""
    with hf.session(trip) as s:
        s.todos.write([{"content": "pack", "status": "pending"}])
        s.snapshot()
    async with sit(size=(80, 30)) as seat:
        await seat.sees("Trip to Lisbon")
        await seat.press("v")
        await seat.sees("Memory (1)", "name: Ada", "budget: 900", "[ ] pack", "1 snapshot")
        await seat.press("home")
        await seat.sees("event 0 of", "Memory (0)")
        await seat.press("right", "right")
        await seat.sees("event 2 of")
        await seat.press("s")
        await seat.sees("a snapshot")
        await seat.press("pageup", "left", "end", "home", "right", "right", "right", "right")
        await seat.sees("event 4 of")
        await seat.press("enter")
        await seat.sees("Plan a week in Lisbon")
        assert seat.app.screen.conversation.session_id == trip


async def test_going_on_from_the_past(sit, hf, trip):
    """R makes a session that goes on from there; the old one stays."""
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        await seat.press("v")
        await seat.sees("event")
        await seat.press("home", *["right"] * 5)
        await seat.sees("event 5 of")
        await seat.press("R")
        await seat.until(lambda: len(hf.list()) == 2)
        await seat.until(lambda: not isinstance(seat.app.screen, TimeScreen))
        await seat.until(lambda: seat.app.screen.chosen.session_id != trip)
    assert hf.list(parent=trip)


async def test_the_tree_of_branches(sit, hf, trip):
    """Forks stand below their parent; Enter opens one."""
    first = hf.fork(trip, 4, title="Porto")
    hf.fork(first, title="Porto by boat")
    async with sit() as seat:
        await seat.sees("Porto by boat")
        await seat.press("b")
        shown = await seat.sees("└─ Porto", "   └─ Porto by boat")
        assert shown.index("Trip to Lisbon") < shown.index("└─ Porto")
        await seat.press("up", "up", "down", "up", "enter")
        await seat.until(lambda: seat.app.screen.chosen.session_id == trip)


def test_a_family_whose_forebears_are_gone(hf, trip):
    """A fork of a deleted session stands by itself."""
    child = hf.fork(trip, 4)
    hf.delete(trip)
    assert [row.session_id for row in family(hf, child, 9)[0]] == [child]


async def test_analytics(sit, trip, fill):
    """Figures and charts, by day, week or month, of all time or less."""
    fill(2)
    async with sit(size=(100, 50)) as seat:
        await seat.sees("Trip to Lisbon")
        await seat.press("a")
        await seat.sees("3 sessions", "Tokens by day", "Weather")
        await seat.press("p")
        await seat.sees("by week")
        await seat.press("s")
        await seat.sees("the last 7 days")
        await seat.press("question_mark")
        await seat.sees("Everywhere")
        await seat.press("escape", "escape")
        await seat.sees("3 sessions")


async def test_help_names_every_key(sit, trip):
    """The page of keys scrolls, and leaves with Escape."""
    async with sit(size=(100, 70)) as seat:
        await seat.press("question_mark")
        shown = await seat.sees("Everywhere", "The list", "A conversation", "Marks")
        for word in ("rename", "fork", "merge", "time travel", "analytics", "stop"):
            assert word in shown
        await seat.press("escape")
        await seat.misses("Everywhere")


async def test_the_palette_has_every_action(sit, trip):
    """Ctrl+P finds an action by its name and does it."""
    async with sit(size=(100, 30)) as seat:
        await seat.sees("Trip to Lisbon")
        await seat.press("ctrl+p")
        await seat.type("analyt")
        await seat.sees("Show the usage of all sessions")
        await seat.press("enter")
        await seat.sees("1 session ", "Analytics")


async def test_light_and_dark(sit, trip):
    """The theme changes with a key; the conversation is drawn anew."""
    async with sit(light=True) as seat:
        await seat.press("enter")
        await seat.sees("Just so.")
        assert not seat.app.current_theme.dark
        await seat.press("ctrl+t")
        assert seat.app.current_theme.dark
        view = seat.app.screen.conversation
        await seat.until(lambda: all(block.look.dark for block in view._flat))
