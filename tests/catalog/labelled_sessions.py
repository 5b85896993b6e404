"""A hundred conversations, each with the tags of which a person would accept any as its first.

They were written and labelled before the method was tuned. Those of :func:`held_out` were not
looked at while tuning.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from holdfast.model import Event

_FILE = Path(__file__).with_suffix(".txt")


class Labelled(NamedTuple):
    """One conversation and the tags that fit it."""

    number: int
    fitting: frozenset[str]
    events: list[Event]


def all_labelled() -> list[Labelled]:
    """The hundred of them."""
    return [_read(block) for block in _FILE.read_text().split("\n= ")]


def tuned() -> list[Labelled]:
    """The sixty that the method may be tuned on."""
    return [one for one in all_labelled() if not _is_held_out(one.number)]


def held_out() -> list[Labelled]:
    """The forty that show what it does with others."""
    return [one for one in all_labelled() if _is_held_out(one.number)]


def _is_held_out(number: int) -> bool:
    return number % 5 in (1, 3)


def _read(block: str) -> Labelled:
    head, _, rest = block.removeprefix("= ").partition("\n")
    number, _, tags = head.partition(":")
    events: list[Event] = []
    for line in rest.replace("\n  ", "\\n").splitlines():
        if line:
            _add(events, line.replace("\\n", "\n") if line[0] in "UA" else line)
    return Labelled(int(number), frozenset(tags.split()), events)


def _add(events: list[Event], line: str) -> None:
    kind, _, text = line.partition(" ")
    seq = len(events)
    when = 1_770_000_000_000 + 20_000 * seq
    if kind == "T":
        tool, _, params = text.partition(" ")
        data = {"id": f"call-{seq}", "tool": tool, "params": json.loads(params)}
        events.append(Event.make("tool_call", data, seq=seq, timestamp=when))
    elif kind == "R":
        data = {"toolCallId": f"call-{seq - 1}", "result": text}
        events.append(Event.make("tool_result", data, seq=seq, timestamp=when))
    else:
        type = {"U:": "user", "A:": "assistant"}[kind]
        events.append(Event.make(type, {"content": text}, seq=seq, timestamp=when))
