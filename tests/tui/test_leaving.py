"""Threads that end when their screen, or the app, was left: nothing breaks, nobody is told."""

from __future__ import annotations

import threading

import pytest

from holdfast.errors import NotFound


@pytest.fixture
def gate(hf, monkeypatch):
    """A question to the library that is answered when the gate opens."""
    opened = threading.Event()
    asked = threading.Event()

    def hold(name, answer=None):
        group, _, name = name.rpartition(".")
        owner = type(getattr(hf, group)) if group else hf
        known = getattr(owner, name)

        def slow(*values, **options):
            asked.set()
            opened.wait(120)
            if isinstance(answer, Exception):
                raise answer
            return known(*values, **options)

        monkeypatch.setattr(owner, name, slow)

    gate = type("Gate", (), {"hold": staticmethod(hold), "open": opened.set, "asked": asked})
    yield gate
    opened.set()


SCREENS = {
    "search": (("f", "x"), "search"),
    "analytics": (("a",), "stats"),
    "branches": (("b",), "info"),
    "time": (("v",), "state"),
}
ACTIONS = {
    "pin": (("p",), "policies.pin"),
    "delete": (("d", "y"), "delete"),
    "fork": (("F", "enter"), "fork"),
    "read": (("enter",), "events"),
}


@pytest.mark.req("S2-94")
@pytest.mark.parametrize("answer", [None, NotFound("gone")], ids=["found", "failed"])
@pytest.mark.parametrize("name", SCREENS)
async def test_a_screen_that_was_left(sit, trip, gate, name, answer):
    """What comes too late for its screen is dropped, and the app goes on."""
    keys, question = SCREENS[name]
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        gate.hold(question, answer)
        await seat.press(*keys)
        await seat.until(gate.asked.is_set)
        await seat.press("escape")
        await seat.until(lambda: seat.app.screen is seat.app._main)
        gate.open()
        await seat.until(lambda: all(one.is_finished for one in seat.app.workers))
        await seat.sees("Trip to Lisbon")
        await seat.press("enter")
        await seat.sees("Just so.")


@pytest.mark.parametrize("answer", [None, NotFound("gone")], ids=["done", "failed"])
@pytest.mark.parametrize("name", ACTIONS)
async def test_an_app_that_was_left(sit, trip, gate, name, answer):
    """An action that is under way when the app is left ends without a word."""
    keys, question = ACTIONS[name]
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        gate.hold(question, answer)
        for key in keys:
            await seat.press(key)
        await seat.until(gate.asked.is_set)
        threading.Timer(0.2, gate.open).start()
        seat.app.exit()
    assert seat.app.return_code == 0


@pytest.mark.req("S2-94")
async def test_a_slow_action_is_told(sit, trip, gate):
    """What takes long says so, and keys count meanwhile."""
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        gate.hold("policies.pin")
        await seat.press("p")
        await seat.sees("working …")
        await seat.press("enter")
        await seat.sees("Just so.")
        gate.open()
        await seat.sees("pinned")
        await seat.misses("working …")


@pytest.mark.req("S2-94")
async def test_a_slow_first_page_is_told(sit, trip, gate):
    """The list says that it looks for sessions, before there are some."""
    gate.hold("list")
    async with sit(ready="looking …") as seat:
        gate.open()
        await seat.sees("Trip to Lisbon")
