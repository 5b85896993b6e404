"""Keys that come faster than the app draws: what follows a key goes where that key leads."""

from __future__ import annotations

import pytest
from textual import events

_NAMES = {"/": "slash", ":": "colon", " ": "space", "\n": "enter", "-": "minus"}


def burst(seat, text):
    """All at once, as over a slow line: none waits for what the one before it led to."""
    for char in text:
        character = None if char == "\n" else char
        seat.app.post_message(events.Key(_NAMES.get(char, char), character))


@pytest.mark.req("S2-94")
async def test_a_search(sit, trip):
    """Letters after f are the query, and Enter goes to the first hit."""
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        burst(seat, "fsunny\n")
        await seat.until(lambda: seat.app._main.conversation.session_id == trip)


async def test_a_filter(sit, trip, fill):
    """Letters after / narrow the list; none of them is taken for a key: d deletes nothing."""
    fill(3)
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        burst(seat, "/dyn")
        await seat.sees("dyn", "Nothing fits")
        assert seat.app.screen is seat.app._main


async def test_a_title(sit, hf, trip):
    """Letters after r are the new title."""
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        burst(seat, "rThere and back\n")
        await seat.sees("renamed")
    assert hf.info(trip).title == "There and back"


async def test_what_is_said(sit, trip, model):
    """Letters after c are said to the agent."""
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        burst(seat, "cdid you\n")
        await seat.sees("you said did you")
