"""The terminal app without a terminal: keys are pressed, and the screen is read as text."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager

import pytest
from textual._wait import SLEEP_GRANULARITY, wait_for_idle
from textual.pilot import Pilot

from holdfast.apps.tui import SessionsApp
from holdfast.testing.model_server import Say, ScriptedModel

WAIT_S = 120  # a loaded machine takes its time
_KEYS = "ANTHROPIC_API_KEY OPENAI_API_KEY OPENAI_BASE_URL GEMINI_API_KEY GOOGLE_API_KEY OLLAMA_BASE_URL OLLAMA_HOST"


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Textual's own waiting, for what a loaded machine takes: until all is dealt with and drawn."""
    monkeypatch.setattr(Pilot._wait_for_screen, "__defaults__", (WAIT_S,))
    monkeypatch.setattr(wait_for_idle, "__defaults__", (SLEEP_GRANULARITY, 10))
    notify = SessionsApp.notify

    def stay(app, *words, **options):
        """Tell something for as long as a test may take to look."""
        notify(app, *words, **options | {"timeout": WAIT_S})

    monkeypatch.setattr(SessionsApp, "notify", stay)


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch):
    """A working directory of the test's own, and no provider's key."""
    place = tmp_path / "project"
    (place / ".git").mkdir(parents=True)
    monkeypatch.chdir(place)
    for name in _KEYS.split():
        monkeypatch.delenv(name, raising=False)
    return place


@pytest.fixture
def trip(hf):
    """A session with everything that a conversation shows."""
    with hf.session("trip-planner", title="Trip to Lisbon", agent_id="planner") as s:
        s.tag("travel")
        s.user("Plan a week in Lisbon")
        s.append("thinking", {"content": "Weather first.\nThen trains."})
        call = s.tool_call("Weather", {"city": "Lisbon", "days": 7})
        s.tool_result(call, {"content": "\n".join(f"day {day}: sunny" for day in range(40))})
        s.assistant(
            "# Plan\n\nTake the **train** to [Sintra](https://example.org).\n\n"
            "```python\nfor day in week:\n    rest()\n```",
            usage={"input_tokens": 1200, "output_tokens": 34},
        )
        s.variables["budget"] = 900
        s.memory.set("name", "Ada")
        s.user([{"type": "text", "text": "Like this?"}, {"type": "image", "source": {}}])
        s.assistant("Just so.")
    return "trip-planner"


@pytest.fixture
def fill(hf):
    """So many small sessions, the last one the newest."""

    def fill(count):
        for number in range(count):
            with hf.session(f"note-{number:03}", title=f"Note {number}") as s:
                s.user(f"words of note {number}")
                for _ in range(number % 7):
                    s.assistant("noted")

    return fill


class Seat:
    """Someone who sits before the app."""

    def __init__(self, app, pilot):
        self.app = app
        self.pilot = pilot

    @property
    def shown(self):
        """The screen as text."""
        return "\n".join(strip.text for strip in self.app.screen._compositor.render_strips())

    async def press(self, *keys):
        """Press keys by their names."""
        await self.pilot.press(*keys)

    async def type(self, text):
        """Type letters."""
        await self.pilot.press(*(_NAMES.get(char, char) for char in text))

    async def until(self, is_so, what="it"):
        """Wait until something holds."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            await asyncio.sleep(0.02)
            if is_so():
                return self.shown
        raise AssertionError(f"{what} never came; the screen:\n{self.shown}")

    async def sees(self, *texts):
        """Wait until all the texts are on the screen."""
        return await self.until(lambda: all(text in self.shown for text in texts), repr(texts))

    async def misses(self, text):
        """Wait until a text is gone."""
        return await self.until(lambda: text not in self.shown, f"without {text!r}")

    async def rests(self):
        """Wait until no thread works, and what they found is drawn."""
        await self.until(lambda: all(one.is_finished for one in self.app.workers), "rest")
        await self.pilot.pause()


_NAMES = {" ": "space", ":": "colon", "-": "minus", "/": "slash", ".": "full_stop"}


@pytest.fixture
def sit(hf):
    """Someone sits down before the app, on a terminal of a given size."""

    @asynccontextmanager
    async def sit(size=(80, 24), library=None, ready="by updated", **options):
        app = SessionsApp(library or hf, **options)
        async with app.run_test(size=size, notifications=True) as pilot:
            seat = Seat(app, pilot)
            await seat.sees(ready)
            yield seat

    return sit


def echo(request):
    """Answers with the words that it was given last."""
    said = [message for message in request.messages if message["role"] == "user"]
    content = said[-1]["content"]
    text = content if isinstance(content, str) else content[-1]["text"]
    return Say(f"you said {text}")


@pytest.fixture
def model(monkeypatch):
    """A model that echoes; a test may give it another script."""
    scripts = [echo]

    def answer(request):
        return scripts[-1](request)

    with ScriptedModel(answer) as model:
        model.follow = scripts.append
        monkeypatch.setenv("HOLDFAST_MODEL", "openai:scripted")
        monkeypatch.setenv("OPENAI_BASE_URL", model.openai_url)
        yield model
