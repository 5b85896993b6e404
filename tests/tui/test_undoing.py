"""Undoing what cannot be undone any more, and what the bottom line says meanwhile."""

from __future__ import annotations


async def test_what_is_gone_does_not_stand_before_what_was_done_earlier(sit, hf, trip):
    """It is told and dropped; the next key undoes what was done before it."""
    async with sit(size=(120, 30)) as seat:
        await seat.sees("Trip to Lisbon")
        await seat.press("p")
        await seat.until(lambda: hf.info(trip).pinned)
        await seat.until(lambda: not seat.app.screen.actions.under_way)
        await seat.press("F")
        await seat.sees("Fork up to event")
        await seat.press("enter")
        await seat.until(lambda: len(seat.app._main.actions.done) == 2)
        [made] = hf.list(parent=trip)
        hf.delete(made.session_id)
        await seat.press("u")
        await seat.sees("cannot be undone", "u undoes")
        assert len(seat.app._main.actions.done) == 1
        await seat.press("u")
        await seat.until(lambda: not hf.info(trip).pinned)
        await seat.until(lambda: seat.app._main.actions.done == [])


async def test_nothing_works_while_a_merge_waits_for_the_user(sit, hf, trip):
    """The bottom line says so neither while it asks nor when all is done."""
    fork = hf.fork(trip, title="Trip to Porto")
    for id, budget in ((trip, 700), (fork, 500)):
        with hf.session(id) as s:
            s.variables["budget"] = budget
    async with sit(size=(100, 40)) as seat:
        await seat.sees("Trip to Porto")
        main = seat.app.screen
        main.sessions.marked = [trip, fork]
        await seat.press("m")
        for words in ("Where both changed", "Both changed the variable budget"):
            await seat.sees(words)
            assert main.actions.under_way == 0
            assert "working" not in main._status()
            await seat.press("enter" if words.startswith("Where") else "2")
        await seat.sees("merged into")
        await seat.until(lambda: main.actions.under_way == 0)
    assert len(hf.list()) == 3
