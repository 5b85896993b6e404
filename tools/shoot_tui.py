"""Take pictures of the terminal app for the documentation: ``python tools/shoot_tui.py [FOLDER]``.

The sessions in them are made up here, and so is the time: the same picture comes out each time.
Each is an SVG that names no font of another host.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from unittest import mock

import holdfast
from holdfast.apps.tui import SessionsApp
from holdfast.testing.model_server import AskForTool, Say, ScriptedModel

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from holdfast.apps.tui._main_screen import MainScreen

_FONTS = re.compile(r"@font-face \{.*?\}", re.DOTALL)
_COMMENTS = re.compile(r"<!--.*?-->", re.DOTALL)
_CLIPS = re.compile(r"terminal-\d+-")
_NOON_NS = 1_777_636_800 * 10**9  # 2026-05-01 12:00 UTC
_MINUTE_NS = 60 * 10**9
_DAY_NS = 1_440 * _MINUTE_NS
_WAIT_S = 120  # a busy machine takes its time
_STILL = 3  # looks without a change


class Shot(NamedTuple):
    """A screen: the keys that open it, the text that must be on it, and the keys that close it."""

    name: str
    keys: tuple[str, ...]
    sees: str
    back: tuple[str, ...] = ("escape",)
    also: tuple[str, ...] = ()
    """The text that appears last; without it the screen is not complete."""


SHOTS = (
    Shot("list", (), "A week in Lisbon", ()),
    Shot("filter", ("slash", *"tag", "colon", *"home"), "2 sessions", ("escape",)),
    Shot("conversation", ("enter",), "Alfama, on foot", ()),
    Shot("unfolded", ("o",), "rain on Thursday", ("o", "escape")),
    Shot("search", ("f", *"sintra"), "2 hits"),
    Shot("compare", ("space", "down", "equals_sign"), "Porto", ("escape", "up", "space")),
    Shot("branches", ("b",), "A week in Porto"),
    Shot("time-travel", ("v",), "Ada, likes trains"),
    Shot("analytics", ("a",), "Tokens by day"),
    Shot("rename", ("r",), "Title"),
    Shot("export", ("x",), "Export as"),
    Shot("delete", ("d",), "into the trash?"),
    Shot("help", ("question_mark",), "Everywhere"),
    Shot("palette", ("ctrl+p",), "Search for commands"),
    Shot("permission", ("c", *"read", "enter"), "May the agent use", ()),
    Shot("talk", ("n",), "Packed light: two pairs of shoes.", ("escape", "escape"), ("#34", "8 msgs · 3.7k tokens")),
)
_DOCUMENTED = ("list", "conversation", "search", "compare", "time-travel", "analytics", "talk")


class Clock:
    """A simulated clock, which stands still until it is moved."""

    def __init__(self) -> None:
        self.now = _NOON_NS

    def __call__(self) -> int:
        """Return the time in nanoseconds."""
        return self.now


class _Shown(SessionsApp):
    """The app on a store that is shown under another address."""

    @property
    def where(self) -> str:
        """A path without private details."""
        return "~/.local/share/holdfast"


@contextmanager
def world() -> Iterator[holdfast.Holdfast]:
    """Yield the library with the sessions, the time and the model of the pictures."""
    clock = Clock()
    with (
        tempfile.TemporaryDirectory() as place,
        mock.patch("holdfast.session._clock.time_ns", clock),
        # A busy machine streams in different chunks than an idle one; so there is a single chunk.
        mock.patch("holdfast.agent._loop.HOLD_S", 60.0),
        _environment(place),
        ScriptedModel(_answer) as model,
        mock.patch.dict(os.environ, {"OPENAI_BASE_URL": model.openai_url}),
        holdfast.open(Path(place) / "store") as library,
    ):
        record(library, clock)
        yield library


@contextmanager
def _environment(place: str) -> Iterator[None]:
    """Set a separate home directory and a fixed time zone."""
    own = {f"XDG_{name}_HOME": place for name in ("STATE", "CONFIG", "DATA", "CACHE")}
    given = {"HOLDFAST_MODEL": "openai:scripted", "OPENAI_API_KEY": "none", "TZ": "UTC", **own}
    with mock.patch.dict(os.environ, given):
        time.tzset()
        yield
    time.tzset()


def _answer(request: Any) -> AskForTool | Say:
    if request.messages[-1]["role"] == "user":
        return AskForTool("read_file", {"path": "packing-list.md"})
    return Say("Packed light: two pairs of shoes.")


def record(library: holdfast.Holdfast, clock: Clock) -> None:
    """Record a few weeks of sessions."""
    for days, (title, tags) in enumerate(_SMALL):
        clock.now = _NOON_NS - (2 * days + 1) * _DAY_NS - days * 47 * _MINUTE_NS
        with library.session(f"note-{days:02}", title=title, agent_id="helper") as s:
            if tags:
                s.tag(*tags)
            s.user(f"Help me with this: {title.lower()}")
            used = {"input_tokens": 320 * (days + 1), "output_tokens": 80 + 35 * days}
            s.assistant("Gladly. Where shall we begin?", usage=used, model="claude-sonnet-4-5")
    clock.now = _NOON_NS - 55 * _MINUTE_NS
    _record_trip(library, clock)
    clock.now = _NOON_NS - 20 * _MINUTE_NS
    library.fork("lisbon", 5, new_id="porto", title="A week in Porto")
    with library.session("porto") as s:
        s.user("And Porto instead?")
        used = {"input_tokens": 1400, "output_tokens": 90}
        s.assistant("Then by boat along the Douro.", usage=used, model="claude-sonnet-4-5")
    clock.now = _NOON_NS - 12 * _MINUTE_NS
    with library.session("lisbon") as s:
        s.user("Which day for Sintra?")
        s.assistant("Thursday, before the rain.", model="claude-sonnet-4-5")
    clock.now = _NOON_NS


_SMALL = (
    ("Tax papers", ("home", "money")),
    ("A birthday song", ()),
    ("Mending the shed roof", ("home",)),
    ("Garden plan", ("garden",)),
    ("漢字の練習 with flash cards", ("study",)),
    ("Why the sourdough does not rise, and what to do about it before Sunday's breakfast", ()),
    ("Bicycle: brakes, chain, lights", ("repair",)),
    ("Letters to the council", ()),
)


def _record_trip(library: holdfast.Holdfast, clock: Clock) -> None:
    with library.session("lisbon", title="A week in Lisbon", agent_id="helper") as s:
        s.tag("travel")
        s.user("Plan a week in Lisbon")
        s.append("thinking", {"content": "Weather first.\nThen trains."})
        clock.now += 20 * 10**9
        call = s.tool_call("weather", {"city": "Lisbon", "days": 7})
        s.tool_result(call, "sunny until Wednesday\nrain on Thursday\nsunny again")
        s.memory.set("traveller", "Ada, likes trains")
        s.variables["budget"] = 900
        s.todos.write(
            [
                {"content": "find a room in Alfama", "status": "completed"},
                {"content": "book the train to Sintra", "status": "pending"},
            ]
        )
        clock.now += 40 * 10**9
        plan = "## Plan\n\n1. Alfama, on foot\n2. Sintra, by **train**\n\n```python\nbook(2)\n```"
        used = {"input_tokens": 1250, "output_tokens": 210}
        s.assistant(plan, usage=used, model="claude-sonnet-4-5")
        s.snapshot()


# -- the walk ----------------------------------------------------------------------------------


async def walk(
    library: holdfast.Holdfast, size: tuple[int, int], *, light: bool = False, shots: tuple[Shot, ...] = SHOTS
) -> AsyncIterator[tuple[str, SessionsApp]]:
    """Yield each screen in turn, at rest, with the app that shows it."""
    app = _Shown(library, light=light)
    app.animation_level = "none"
    async with app.run_test(size=size, notifications=False) as pilot:
        for shot in shots:
            await pilot.press(*shot.keys)
            await _rest(pilot, shot.sees, *shot.also)
            yield shot.name, app
            await pilot.press(*shot.back)
            await _rest(pilot)


def shown(app: SessionsApp) -> str:
    """Return the screen as text."""
    strips = app.screen._compositor.render_strips()  # noqa: SLF001 - there is no other way to read it
    return "\n".join(strip.text for strip in strips)


async def _rest(pilot: Pilot[Any], *sees: str) -> None:
    """Wait until the text is there, no thread is working and nothing moves."""
    app = cast("SessionsApp", pilot.app)
    end, before, still = time.monotonic() + _WAIT_S, "", 0
    while still < _STILL or any(word not in before for word in sees):
        if time.monotonic() > end:
            raise TimeoutError(f"{sees!r} is not on the screen:\n{before}")
        await asyncio.sleep(0.06)
        await pilot.pause(0)  # until what was due meanwhile is done
        _stop_blinking(app)
        now = shown(app)
        still = still + 1 if now == before and not _is_busy(app) else 0
        before = now


def _is_busy(app: SessionsApp) -> bool:
    """Return whether a thread is working, or an answer is in progress that waits for no permission."""
    answering = cast("MainScreen", app.screen_stack[0]).sessions.busy
    is_working = any(not worker.is_finished for worker in app.workers)
    return is_working or bool(answering and not app.screen.is_modal)


def _stop_blinking(app: SessionsApp) -> None:
    for line in app.screen.query("Input"):
        line.cursor_blink = False


# -- pictures ----------------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    """Write every picture; 0."""
    folder = Path(arguments[0] if arguments else "docs/howto/pictures")
    folder.mkdir(parents=True, exist_ok=True)
    pictures = asyncio.run(_shoot())
    for name, picture in pictures.items():
        (folder / f"terminal-app-{name}.svg").write_text(picture, encoding="utf-8")
    print(f"wrote {len(pictures)} pictures into {folder}")
    return 0


async def _shoot() -> dict[str, str]:
    found = {}
    with world() as library:
        async for name, app in walk(library, (124, 32)):
            if name in _DOCUMENTED:
                found[name] = _plain(app.export_screenshot(title="holdfast"))
    return found


def _plain(picture: str) -> str:
    """Return the picture without external fonts, and with the same names each time."""
    return _CLIPS.sub("terminal-", _COMMENTS.sub("", _FONTS.sub("", picture)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
