"""What can be done to a session: each action, and what becomes of it."""

from __future__ import annotations

import time

import pytest
from textual.widgets import Input

import holdfast


async def answer(seat, text):
    """Type an answer into the dialog, in the place of what stands there."""
    await seat.press("ctrl+a", "ctrl+k")
    await seat.type(text)
    await seat.press("enter")


async def test_title_tags_and_pin(sit, hf, trip):
    """Labels are set, shown, and taken away."""
    async with sit(size=(100, 24)) as seat:
        await seat.sees("Trip to Lisbon")
        await seat.press("r")
        await seat.sees("Title")
        await answer(seat, "Porto")
        await seat.sees("renamed to Porto")
        await seat.press("t")
        await seat.sees("Now: travel")
        await answer(seat, "sea -travel")
        await seat.sees("tags: sea")
        await seat.press("p")
        await seat.until(lambda: hf.info(trip).pinned)
        await seat.until(lambda: seat.app.screen.chosen.pinned)
        await seat.press("p")
        await seat.until(lambda: not hf.info(trip).pinned)
    assert hf.info(trip).title == "Porto"
    assert hf.info(trip).tags == ("sea",)


async def test_fork(sit, hf, trip):
    """A fork up to an event is made and opened."""
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        await seat.press("F")
        await seat.sees("Fork up to event")
        await seat.type("4")
        await seat.press("enter")
        await seat.sees("forked into")
    [made] = hf.list(parent=trip)
    assert [event.seq for event in hf.events(made.session_id) if event.seq > 4][:1] == [5]


@pytest.mark.req("S2-57")
async def test_export(sit, hf, trip, own_place):
    """The format is chosen, then the file, which has every message, call, result and time."""
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        await seat.press("x")
        await seat.sees("Export as", "Markdown")
        await seat.press("enter")
        await seat.sees("Write it to")
        await seat.press("enter")
        await seat.sees("wrote")
        written = (own_place / "trip-planner.md").read_text()
        for said in ("Plan a week", "Weather", "day 39: sunny", "Sintra", "Just so."):
            assert said in written
        day = hf.info(trip).created_at // 1000
        assert time.strftime("%Y-%m-%d", time.gmtime(day)) in written
        await seat.press("x")
        await seat.sees("Export as")
        await seat.press("escape")


async def test_archive_and_back(sit, hf, trip):
    """An archived session says so, and comes out again."""
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        await seat.press("z")
        await seat.sees("archived; it stays readable")
        await seat.until(lambda: seat.app.screen.chosen.archived)
        await seat.press("z")
        await seat.until(lambda: not hf.info(trip).archived)


async def test_delete_and_undo(sit, hf, trip, fill):
    """Deleting asks; it is gone from the list, and comes back with one key."""
    fill(1)
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        await seat.press("down", "enter")
        await seat.sees("Just so.")
        await seat.press("d")
        await seat.sees("into the trash?")
        await seat.press("n")
        assert hf.exists(trip)
        await seat.press("d")
        await seat.sees("into the trash?")
        await seat.press("y")
        await seat.until(lambda: not hf.exists(trip))
        await seat.until(lambda: len(seat.app.screen.sessions.rows) == 1)
        await seat.press("u")
        await seat.until(lambda: hf.exists(trip))
        await seat.until(lambda: len(seat.app.screen.sessions.rows) == 2)
        await seat.press("u")
        await seat.sees("there is nothing to undo")


async def test_undoing_one_thing_after_the_other(sit, hf, trip):
    """Labels, archive and copies are undone, the last first; each says what became of it."""
    async with sit(size=(120, 30)) as seat:
        await seat.sees("Trip to Lisbon")
        for key, words, told in (
            ("r", "Porto", "renamed to Porto"),
            ("t", "sea -travel", "tags: sea"),
            ("t", "sea", "tags: sea"),
            ("F", "", "forked into"),
        ):
            await seat.press(key)
            await seat.until(lambda: isinstance(seat.app.focused, Input))  # what was told may lie over it
            await answer(seat, words)
            await seat.sees(told)
            await seat.until(lambda: not seat.app.screen.actions.under_way)
        [made] = hf.list(parent=trip)
        await seat.press("escape")
        await seat.until(lambda: seat.app.screen.sessions.choose(trip))
        for key, is_so in (("p", "pinned"), ("z", "archived")):
            await seat.press(key)
            await seat.until(lambda name=is_so: getattr(hf.info(trip), name))
            await seat.until(lambda: not seat.app.screen.actions.under_way)
        assert len(seat.app._main.actions.done) == 5
        await seat.press("u")
        await seat.until(lambda: not hf.info(trip).archived)
        await seat.press("u")
        await seat.until(lambda: not hf.info(trip).pinned)
        await seat.press("u")
        await seat.sees("is in the trash")
        await seat.press("u")
        await seat.until(lambda: hf.info(trip).tags == ("travel",))
        await seat.press("u")
        await seat.sees("called Trip to Lisbon again")
        assert seat.app._main.actions.done == []
    assert not hf.exists(made.session_id)
    assert hf.info(trip).title == "Trip to Lisbon"


async def test_a_copy_that_went_on_stays(sit, hf, trip):
    """Undoing would lose what was said in it since, so it is refused, and can be tried again."""
    async with sit(size=(120, 30)) as seat:
        await seat.sees("Trip to Lisbon")
        await seat.press("v")
        await seat.sees("Memory (")
        await seat.press("R")
        await seat.sees("goes on from there")
        [made] = hf.list(parent=trip)
        with hf.session(made.session_id) as s:
            s.user("and then")
        await seat.press("u")
        await seat.sees("went on since")
        assert len(seat.app._main.actions.done) == 1
    assert hf.exists(made.session_id)


async def test_compare_and_merge(sit, hf, trip):
    """Two sessions stand side by side; a merge of them is made and opened."""
    fork = hf.fork(trip, 4, title="Trip to Porto")
    with hf.session(fork) as s:
        s.user("Plan a week in Porto")
        s.assistant("Take the boat.")
    async with sit(size=(100, 40)) as seat:
        await seat.sees("Trip to Porto")
        await seat.press("equals_sign")
        await seat.sees("Mark one session with Space")
        await seat.press("space", "down", "equals_sign")
        shown = await seat.sees("In common", "Take the boat.")
        assert "Weather" in shown
        await seat.press("o", "escape")
        await seat.sees("✓")
        await seat.press("m")
        await seat.sees("Which turns of Trip to Lisbon")
        await seat.press("escape")
        await seat.misses("Which turns")
        await seat.press("m")
        await seat.sees("Which turns of Trip to Lisbon", "Like this?")
        await seat.press("space", "enter")
        await seat.sees("Where both changed", "keep both")
        await seat.press("down", "enter")
        await seat.sees("merged into")
    [made] = [row.session_id for row in hf.list() if row.session_id not in (trip, fork)]
    assert hf.merge_report(made).merged_turns == 1


async def test_a_merge_asks_where_both_changed_the_same(sit, hf, trip):
    """Each such value is shown with what it was and is; Escape merges nothing."""
    fork = hf.fork(trip, title="Trip to Porto")
    for id, budget in ((trip, 700), (fork, 500)):
        with hf.session(id) as s:
            s.variables["budget"] = budget
    async with sit(size=(100, 40)) as seat:
        await seat.sees("Trip to Porto")
        seat.app.screen.sessions.marked = [trip, fork]
        for answer, told in (("escape", "nothing was merged"), ("2", "merged into")):
            await seat.press("m")
            await seat.sees("Where both changed", "ask me about each")
            await seat.press("enter")
            await seat.sees("Both changed the variable budget", "the first: 700", "before: 900")
            await seat.press(answer)
            await seat.sees(told)
        await seat.misses("2 marked")
    [made] = [row.session_id for row in hf.list() if row.session_id not in (trip, fork)]
    assert dict(hf.session(made, read_only=True).variables)["budget"] == 500


async def test_leaving_while_a_merge_asks(sit, hf, trip):
    """The app ends at once, and nothing was merged."""
    fork = hf.fork(trip, 4)
    async with sit() as seat:
        seat.app.screen.sessions.marked = [fork, trip]
        await seat.press("m")
        await seat.sees("Which turns")
    assert len(hf.list()) == 2


async def test_a_failure_is_told_and_changes_nothing(sit, hf, trip, store_root):
    """What another program has open cannot be renamed; the app says so."""
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        with holdfast.open(store_root) as other:
            other.policies.hold(trip, "a case")
        await seat.press("d")
        await seat.sees("into the trash?")
        await seat.press("y")
        await seat.sees("is under legal")
    assert hf.exists(trip)
