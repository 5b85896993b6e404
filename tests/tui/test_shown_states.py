"""What the list and the line to talk in show of a session: its state, its whole title, all that is pasted."""

from __future__ import annotations

import pytest
from textual import events

from holdfast.testing.model_server import Say


async def test_a_paste_is_one_message_with_all_its_lines(sit, hf, trip, model):
    """Three lines that are pasted are sent together, and none is lost."""
    model.follow(lambda _: Say("All three."))
    async with sit(session_id=trip, ready="Just so.") as seat:
        await seat.press("c")
        seat.app.post_message(events.Paste("one\r\ntwo\nthree\n"))
        line = seat.app.screen.query_one("#say")
        await seat.until(lambda: line.value == "one\ntwo\nthree")
        await seat.press("alt+enter", *"four", "enter")
        await seat.sees("All three.")
    said = [event.data["content"] for event in hf.events(trip, types=["user"])]
    assert said[-1] == "one\ntwo\nthree\nfour"


async def test_what_failed_is_gone_on_with(sit, hf, trip, model):
    """A failed session says so in the list, is found by it, and the agent tries again when it is asked to."""
    with hf.session(trip) as s:
        s.user("Are you there?")
        s.append("agent_error", {"agent": "planner", "error": "boom"})
    model.follow(lambda _: Say("Here I am."))
    async with sit() as seat:
        await seat.sees("Trip to Lisbon", "failed", "C Continue")
        await seat.press("C")
        await seat.sees("Here I am.")
        await seat.until(lambda: not seat.app.talks.is_running(trip))
    assert hf.info(trip).status == "idle"


@pytest.mark.parametrize("width", [80, 120, 160, 200])
async def test_titles_get_the_room_that_is_left(sit, hf, width):
    """No terminal shows less of a title than a narrower one does."""
    title = "A title of forty letters and not of fewer"[:40]
    with hf.session("long", title=title) as s:
        s.user("Hi")
    async with sit(size=(width, 24)) as seat:
        await seat.sees(title)


async def test_an_empty_store_says_what_to_do(sit):
    """Whoever has no sessions yet reads how to get some, in whole lines."""
    async with sit(size=(120, 24)) as seat:
        await seat.sees("No sessions yet.", "holdfast import --scan", "begins one: talk to an agent")


async def test_the_highlight_is_on_the_session_that_is_shown(sit, hf, trip, model):
    """A new session has no row at first, then its own: never is another one highlighted."""
    model.follow(lambda _: Say("Welcome."))
    async with sit(size=(140, 24)) as seat:
        await seat.press("n")
        await seat.until(lambda: seat.app.screen.sessions.is_elsewhere)
        heading = seat.app.screen.query_one("#heading")
        assert str(heading.content) == "New session"
        await seat.type("hello")
        await seat.press("enter")
        await seat.sees("Welcome.")
        await seat.until(lambda: "hello" in str(heading.content))
        made = seat.app.tracking.session_id
        table = seat.app.screen.sessions
        await seat.until(lambda: not table.is_elsewhere and table.chosen.session_id == made)
