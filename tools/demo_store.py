"""Invented sessions for demonstrations, the same every time."""

from __future__ import annotations

import base64
import datetime as dt
import random
import struct
import zlib
from pathlib import Path
from typing import Any

import holdfast

_MODELS = ("claude-sonnet-4-5", "gpt-5", "claude-haiku-4-5")
_TOOLS = ("read_file", "search", "run_tests", "edit_file", "fetch_page")
_TOPICS = (
    ("Rename the settings module", "refactoring", "coder"),
    ("Why do the nightly tests fail?", "bug", "coder"),
    ("Summarise the customer interviews", "research", "writer"),
    ("A menu for Sunday, without nuts", "home", "cook"),
    ("Translate the release notes into Portuguese", "release", "writer"),
    ("Choose a queue for the import jobs", "design", "coder"),
    ("Draft the talk about append-only logs", "talk", "writer"),
    ("Clean up the address book export", "data", "coder"),
    ("What changed in the tax rules for studios?", "research", "writer"),
    ("Bread that rises overnight", "home", "cook"),
    ("Speed up the first page load", "performance", "coder"),
    ("Plan the move to the new office", "planning", "planner"),
)
ANSWER = """\
Three days in the city, one by the sea, and one with nothing planned.

### The week

| day | where | why |
|---|---|---|
| Monday | Alfama, on foot | the light is best in the morning |
| Tuesday | Belém | everything is open again |
| Wednesday | Sintra, by train | 40 minutes from Rossio |

- Take tram 28 **before nine**, or not at all.
- The castle in Sintra needs a ticket with a *time*.

```python
def daily_budget(total: int, days: int) -> int:
    return total // days
```

More at [the tourist office](https://example.org/lisbon)."""
_CHEAPER = """\
Yes, that is tram 28. Thursday now ends with a picnic at the Miradouro instead of the restaurant:
**60 euros less**."""


class _Clock:
    """A clock that the story controls."""

    def __init__(self, start: dt.datetime) -> None:
        self._now = start

    def __call__(self) -> int:
        return int(self._now.timestamp() * 1000)

    def wait(self, **passed: float) -> None:
        """Move the clock forward."""
        self._now += dt.timedelta(**passed)


def make_demo(place: Path, now: dt.datetime, *, count: int = 64) -> None:
    """Fill an empty store at ``place`` with a few sessions to read and a number of others."""
    rng = random.Random(7)  # noqa: S311 - the same every time is what is wanted
    with holdfast.open(place) as hf:
        for number in range(count):
            days = 1 + 330 * (number / count) ** 1.4
            clock = _Clock(now - dt.timedelta(days=days, hours=rng.uniform(0, 6)))
            _make_past(hf, rng, clock, number)
        _make_trip(hf, _Clock(now - dt.timedelta(minutes=24)))
        _make_branches(hf, _Clock(now - dt.timedelta(minutes=9)))


def _make_past(hf: holdfast.Holdfast, rng: random.Random, clock: _Clock, number: int) -> None:
    title, tag, agent = _TOPICS[number % len(_TOPICS)]
    with hf.session(f"demo-{number:03}", title=title, agent_id=agent, clock=clock) as s:
        s.tag(tag)
        if number in (2, 9):
            s.append("metadata", {"pinned": True})
        for _ in range(rng.randint(1, 5)):
            s.user(f"{title}. Begin with the part that matters.")
            for _ in range(rng.randint(0, 3)):
                is_bad = rng.random() < 0.08
                _call(s, clock, rng.choice(_TOOLS), {"path": "notes/plan.md"},
                      "no such file" if is_bad else "12 lines", failed=is_bad)  # fmt: skip
            clock.wait(seconds=rng.uniform(4, 30))
            usage = {"input_tokens": rng.randint(900, 14_000), "output_tokens": rng.randint(80, 1_600)}
            s.assistant("Here is what I found, and what I would do next.", usage=usage, model=rng.choice(_MODELS))
            clock.wait(minutes=rng.uniform(1, 4))


def _make_trip(hf: holdfast.Holdfast, clock: _Clock) -> None:
    title = "A week in Lisbon"
    with hf.session("trip-to-lisbon", title=title, agent_id="planner", clock=clock) as s:
        s.tag("travel", "family")
        s.user("Plan a week in Lisbon for two, not too much walking. We have 900 euros.")
        clock.wait(seconds=2)
        s.thinking("Weather first, then what is open on Mondays. Hills matter: prefer trams.")
        days = "\n".join(f"day {day}: {18 + day % 3} °C, mostly sunny" for day in range(1, 8))
        _call(s, clock, "weather", {"city": "Lisbon", "days": 7}, days)
        _call(s, clock, "opening_hours", {"place": "Mosteiro dos Jerónimos"},
              "the server answered 503: try again later", failed=True)  # fmt: skip
        clock.wait(seconds=9)
        s.assistant(ANSWER, usage={"input_tokens": 4_210, "output_tokens": 612}, model="claude-sonnet-4-5")
        s.variables["budget"] = 900
        s.memory.set("walking", "short distances only", description="said in the first message")
        s.todos.write([
            {"content": "Book the train to Sintra", "status": "completed"},
            {"content": "Ask about the lift in the hotel", "status": "in_progress"},
            {"content": "Find a place for the last evening", "status": "pending"},
        ])  # fmt: skip
        s.snapshot()
        clock.wait(minutes=8)
        image = base64.b64encode(picture()).decode()
        source = {"type": "base64", "media_type": "image/png", "data": image}
        s.user([
            {"type": "text", "text": "Is this the tram? And make Thursday cheaper, please."},
            {"type": "image", "source": source},
        ])  # fmt: skip
        s.variables["budget"] = 840
        clock.wait(seconds=11)
        usage = {"input_tokens": 5_480, "output_tokens": 231}
        s.assistant(_CHEAPER, usage=usage, model="claude-sonnet-4-5")


def _make_branches(hf: holdfast.Holdfast, clock: _Clock) -> None:
    asked = [event.seq for event in hf.events("trip-to-lisbon", types=("user",))]
    hf.fork("trip-to-lisbon", asked[1] - 2, new_id="trip-by-train", title="The same, all by train")
    with hf.session("trip-by-train", clock=clock) as s:
        s.user("Make Thursday cheaper, and go everywhere by train.")
        _call(s, clock, "timetable", {"from": "Lisbon", "to": "Cascais"}, "every 20 minutes")
        s.variables["budget"] = 780
        usage = {"input_tokens": 3_100, "output_tokens": 190}
        words = "Thursday goes to Cascais by train, and lunch comes from the market."
        s.assistant(words, usage=usage, model="gpt-5")
    hf.fork("trip-by-train", new_id="trip-with-bikes", title="With bicycles on the train")
    with hf.session("trip-with-bikes", clock=clock) as s:
        s.user("Could we take bicycles along?")
        s.assistant("Yes, outside the rush hours.", model="gpt-5")
    hf.fork("trip-to-lisbon", asked[0], new_id="trip-in-may", title="In May instead")
    with hf.session("trip-in-may", clock=clock) as s:
        s.user("And in May?")


def _call(s: Any, clock: _Clock, tool: str, params: dict[str, Any], result: str, *, failed: bool = False) -> None:
    call = s.tool_call(tool, params)
    clock.wait(seconds=1.5 + len(tool) / 7)
    s.tool_result(call, result, is_error=failed)


def picture(width: int = 220, height: int = 120) -> bytes:
    """Return a small PNG with a yellow tram against a blue sky."""
    rows = b"".join(b"\0" + b"".join(_colour(x / width, y / height) for x in range(width)) for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )


def _colour(x: float, y: float) -> bytes:
    if 0.25 < x < 0.75 and 0.35 < y < 0.75:
        is_window = 0.42 < y < 0.55 and int(x * 20) % 2 == 0
        return b"\x9f\xc8\xe8" if is_window else b"\xf2\xc2\x30"
    return b"\x6f\x72\x78" if y > 0.78 else b"\x8c\xbc\xdd"
