"""Search across everything, and the way to a hit."""

from __future__ import annotations

from holdfast.apps.render.search import FoundSession


async def test_search_and_go_to_the_hit(sit, trip, fill):
    """Hits come as the query is typed, with their words; Enter opens the session at the place."""
    fill(3)
    async with sit() as seat:
        await seat.press("f")
        await seat.type("sintra")
        shown = await seat.sees("1 hit", "Trip to Lisbon")
        assert "Sintra" in shown
        await seat.press("down", "enter")
        await seat.sees("▶ assistant", "for day in week:")


async def test_many_hits_and_none(sit, fill):
    """The cursor goes through the hits; a query without any says so; Escape leads back."""
    fill(12)
    async with sit() as seat:
        await seat.press("f")
        await seat.type("words")
        await seat.sees("12 hits")
        await seat.press(*["down"] * 11)
        await seat.until(lambda: seat.app.screen.query_one("HitList").cursor == 11)
        await seat.press("pageup", "up")
        await seat.until(lambda: seat.app.screen.query_one("HitList").cursor == 2)
        await seat.press(*["backspace"] * 5)
        await seat.type("zebra")
        await seat.sees("0 hits")
        await seat.press("escape")
        await seat.sees("12 sessions")


async def test_a_chosen_hit_stays_chosen_when_the_same_hits_come_again(sit, fill):
    """Each letter of a query is answered by itself, and the last answer may come after the cursor was moved."""
    fill(12)
    async with sit() as seat:
        await seat.press("f")
        await seat.type("words")
        await seat.sees("12 hits")
        await seat.press(*["down"] * 3)
        hits = seat.app.screen.query_one("HitList")
        await seat.until(lambda: hits.cursor == 3)
        found = [FoundSession(hit.session_id, hit.title, [hit], {}) for hit in hits.hits]
        hits.put(found)
        assert hits.cursor == 3
        hits.put(found[:2])
        assert hits.cursor == 0


async def test_a_hit_in_a_folded_result_is_open(sit, trip):
    """What was found is unfolded where it is."""
    async with sit() as seat:
        await seat.press("f")
        await seat.type("sunny")
        await seat.press("enter")  # before anything was found
        await seat.sees("day 3: sunny")


async def test_words_that_forks_share_are_one_hit(sit, hf, trip):
    """A hit stands once, with the names of the sessions that have it too."""
    hf.fork(trip, new_id="copy", title="By boat")
    async with sit() as seat:
        await seat.press("f")
        await seat.type("sintra")
        shown = await seat.sees("2 hits in 2 sessions; what forks share is shown once", "also in By boat")
        assert len(seat.app.screen.query_one("HitList").hits) == 1
        assert "Trip to Lisbon" in shown
