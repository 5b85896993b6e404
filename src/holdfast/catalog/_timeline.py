"""The course of one session: turn after turn, how long each took, what it used, and the pauses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.catalog._hours import Hour
from holdfast.catalog._prices import Bill, Prices, bill_of
from holdfast.catalog._tally import Tally
from holdfast.model import Event

_PROMPT_CHARS = 120


class TurnFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One turn. Times are Unix milliseconds."""

    seq: int
    """Of its first event."""
    start: int = 0
    duration_ms: int = 0
    pause_ms: int = 0
    """How long nothing happened before it."""
    prompt: str = ""
    """How what the user said begins."""
    messages: int = 0
    tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """None if nothing was used, or a price is not known."""
    tools: dict[str, int] = {}
    """Calls by tool."""
    failures: int = 0


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """A session from its first to its last event."""

    session_id: str
    first: int = 0
    last: int = 0
    active_ms: int = 0
    tokens: int = 0
    cost: float | None = None
    """None if a price is not known."""
    unpriced_tokens: int = 0
    turns: list[TurnFigures] = []


class _Open(msgspec.Struct):
    seq: int
    start: int
    pause_ms: int
    last: int
    tally: Tally
    prompt: str = ""


def timeline_of(session_id: str, events: Iterable[Event], prices: Prices) -> Timeline:
    """The course of a session.

    A turn begins where one was recorded, and in a log without turns with what the user says.
    """
    whole = Tally()
    turns: list[TurnFigures] = []
    current: _Open | None = None
    recorded, before = False, 0
    for event in events:
        whole.feed([event])
        recorded = recorded or event.type == "turn_start"
        if event.type == "turn_start" or (event.type == "user" and not recorded):
            _end(current, turns, prices)
            pause = max(event.timestamp - before, 0) if before else 0
            current = _Open(event.seq, event.timestamp, pause, event.timestamp, Tally())
        if current is not None:
            _go_on(current, event)
        before = event.timestamp or before
        if event.type == "turn_end":
            _end(current, turns, prices)
            current = None
    _end(current, turns, prices)
    return _timeline(session_id, whole, turns, prices)


def _go_on(current: _Open, event: Event) -> None:
    current.tally.feed([event])
    current.last = max(current.last, event.timestamp)
    if event.type == "user" and not current.prompt:
        current.prompt = _prompt(event)


def _prompt(event: Event) -> str:
    try:
        content: Any = event.data.get("content")
    except ValueError:
        return ""
    if isinstance(content, list):
        texts = (block.get("text") for block in content if isinstance(block, dict))
        content = next((text for text in texts if isinstance(text, str)), None)
    text = content[: _PROMPT_CHARS * 4] if isinstance(content, str) else ""
    return " ".join(text.split())[:_PROMPT_CHARS]


def _end(current: _Open | None, turns: list[TurnFigures], prices: Prices) -> None:
    if current is None:
        return
    whole = Hour()
    for hour in current.tally.all_hours():
        whole.add(hour)
    spent = current.tally.spent().values()
    turns.append(
        TurnFigures(
            seq=current.seq,
            start=current.start,
            duration_ms=max(current.last - current.start, 0),
            pause_ms=current.pause_ms,
            prompt=current.prompt,
            messages=whole.messages,
            tokens=sum(one.total for one in spent),
            input_tokens=sum(one.input for one in spent),
            output_tokens=sum(one.output for one in spent),
            cost=bill_of(whole, prices).total,
            tools={name: use.calls for name, use in whole.tools.items() if use.calls},
            failures=sum(use.failures for use in whole.tools.values()),
        )
    )


def _timeline(session_id: str, whole: Tally, turns: list[TurnFigures], prices: Prices) -> Timeline:
    bill = Bill()
    for hour in whole.all_hours():
        bill.add(bill_of(hour, prices))
    return Timeline(
        session_id=session_id,
        first=whole.first,
        last=whole.last,
        active_ms=whole.active_ms,
        tokens=sum(one.total for one in whole.spent().values()),
        cost=bill.total,
        unpriced_tokens=bill.unpriced,
        turns=turns,
    )
