"""The mouse: what can be chosen by keys can be clicked; and on which day something was said."""

from __future__ import annotations

import pytest

from holdfast.apps.render.words import day_time


async def test_hits(sit, trip, fill):
    """The first click chooses a hit, a second one goes there."""
    fill(3)
    async with sit() as seat:
        await seat.press("f")
        await seat.type("note")
        await seat.sees("hits")
        hits = seat.app.screen.query_one("HitList")
        await seat.until(lambda: len(hits.hits) > 2)
        wanted = hits.hits[2].session_id
        await seat.pilot.click(hits, offset=(5, 7))
        await seat.until(lambda: hits.cursor == 2)
        await seat.pilot.click(hits, offset=(5, 7))
        await seat.until(lambda: seat.app._main.conversation.session_id == wanted)


async def test_branches(sit, hf, trip):
    """A click on a relative chooses it, a second one reads it; the ground below does nothing."""
    hf.fork(trip, 4, new_id="porto", title="Trip to Porto")
    async with sit() as seat:
        await seat.press("b")
        await seat.sees("└─ Trip to Porto")
        page = seat.app.screen.page
        other = seat.app.screen._ids[1 - seat.app.screen._cursor]
        await seat.pilot.click(page, offset=(8, 9))
        row = seat.app.screen._ids.index(other)
        await seat.pilot.click(page, offset=(8, row))
        await seat.until(lambda: seat.app.screen._cursor == row)
        await seat.pilot.click(page, offset=(8, row))
        await seat.until(lambda: seat.app._main.conversation.session_id == other)


@pytest.mark.req("S4-74")
async def test_the_slider(sit, trip):
    """A click on the line of time goes to its event; at its ends to the first and the last."""
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        await seat.press("v")
        await seat.sees("of ")
        screen = seat.app.screen
        await seat.until(lambda: screen._newest > 0)
        await seat.pilot.click(screen.page, offset=(2, 0))
        await seat.sees("event 0 of")
        await seat.pilot.click(screen.page, offset=(screen._room + 1, 0))
        await seat.sees(f"event {screen._newest} of {screen._newest}")


@pytest.mark.req("S2-57")
async def test_the_day_of_what_was_said(sit, hf, trip, monkeypatch):
    """What was said today has a time; what is older has its day too."""
    said = hf.info(trip).updated_at
    today = day_time(said)[:10]
    monkeypatch.setattr("holdfast.apps.tui._conversation.now_ms", lambda: said)
    async with sit(session_id=trip) as seat:
        shown = await seat.sees("Just so.")
        assert today not in shown
    day = 86_400_000
    monkeypatch.setattr("holdfast.apps.tui._conversation.now_ms", lambda: said + 2 * day)
    async with sit(session_id=trip) as seat:
        await seat.sees("Just so.", today)
