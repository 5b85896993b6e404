"""Take pictures of the terminal app for the documentation: ``python tools/shoot_tui.py [FOLDER]``.

The sessions in them are made up here. Each picture is an SVG that names no font of another host.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import holdfast
from holdfast.apps.tui import SessionsApp

_FONTS = re.compile(r"@font-face \{.*?\}", re.DOTALL)
_COMMENTS = re.compile(r"<!--.*?-->", re.DOTALL)
_SHOTS: dict[str, tuple[str, ...]] = {
    "list": (),
    "search": ("f", *"sintra"),
    "time-travel": ("v",),
}


class _Shown(SessionsApp):
    """The app on a store that is said to be elsewhere."""

    @property
    def where(self) -> str:
        return "~/.local/share/holdfast"


def main(arguments: list[str]) -> int:
    """Write every picture; 0."""
    folder = Path(arguments[0] if arguments else "docs/howto/pictures")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, holdfast.open(Path(place) / "store") as library:
        _record(library)
        for name, keys in _SHOTS.items():
            picture = asyncio.run(_shoot(library, keys))
            (folder / f"terminal-app-{name}.svg").write_text(picture, encoding="utf-8")
    print(f"wrote {len(_SHOTS)} pictures into {folder}")
    return 0


def _record(library: holdfast.Holdfast) -> None:
    for title in ("Tax papers", "A birthday song", "Mending the shed roof", "Garden plan"):
        with library.session(title=title, agent_id="helper") as s:
            s.user(f"Help me with this: {title.lower()}")
            s.assistant("Gladly.", usage={"input_tokens": 320, "output_tokens": 80})
    with library.session("lisbon", title="A week in Lisbon", agent_id="helper") as s:
        s.tag("travel")
        s.user("Plan a week in Lisbon")
        s.tool_result(s.tool_call("weather", {"city": "Lisbon"}), "sunny\nsunny\nrain")
        s.memory.set("traveller", "Ada, likes trains")
        s.variables["budget"] = 900
        s.todos.write([{"content": "book the train to Sintra", "status": "pending"}])
        plan = "## Plan\n\n1. Alfama, on foot\n2. Sintra, by **train**\n\n```python\nbook(2)\n```"
        s.assistant(plan, usage={"input_tokens": 1250, "output_tokens": 210})
        s.snapshot()


async def _shoot(library: holdfast.Holdfast, keys: tuple[str, ...]) -> str:
    app = _Shown(library)
    async with app.run_test(size=(124, 32)) as pilot:
        await _rest(pilot)
        for key in keys:
            await pilot.press(key)
        await _rest(pilot)
        picture = app.export_screenshot(title="holdfast")
    return _COMMENTS.sub("", _FONTS.sub("", picture))


async def _rest(pilot: Any) -> None:
    """Until the threads have brought what they were asked for."""
    for _ in range(5):
        await pilot.pause(0.2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
