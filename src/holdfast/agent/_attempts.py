"""Run attempts: each turn of a session as it began, lived and ended, read from its log."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast.model import Event


class Attempt(msgspec.Struct, kw_only=True):
    """One try at a turn. Times are Unix milliseconds; ``heartbeat_at`` is the last sign of life.

    ``reason`` is completed, failed, cancelled, suspended or interrupted; None while it goes on.
    """

    run: str
    agent: str | None
    started_at: int
    heartbeat_at: int
    ended_at: int | None = None
    reason: str | None = None
    iterations: int = 0

    @property
    def duration_ms(self) -> int:
        """How long it took, or has taken so far."""
        return (self.ended_at or self.heartbeat_at) - self.started_at


def attempts(events: Iterable[Event]) -> list[Attempt]:
    """The attempts of a session, oldest first; a later one means that an open one is gone."""
    found: list[Attempt] = []
    open_ones: dict[str, Attempt] = {}
    for event in events:
        run = event.run or ""
        if event.type == "turn_start":
            one = _begin(event)
            found.append(one)
            open_ones[run] = one
        elif event.type == "turn_end" and run in open_ones:
            _end(open_ones.pop(run), event, str(event.data.get("reason", "completed")))
        elif event.type == "interrupted":
            for one in open_ones.values():
                _end(one, event, "interrupted")
            open_ones.clear()
        elif run in open_ones:
            _live(open_ones[run], event)
    return found


def _begin(event: Event) -> Attempt:
    agent = event.data.get("agent")
    return Attempt(
        run=event.run or "",
        agent=agent if isinstance(agent, str) else None,
        started_at=event.timestamp,
        heartbeat_at=event.timestamp,
    )


def _live(attempt: Attempt, event: Event) -> None:
    attempt.heartbeat_at = max(attempt.heartbeat_at, event.timestamp)
    if event.type == "agent_iteration" and not event.data.get("heartbeat"):
        attempt.iterations += 1


def _end(attempt: Attempt, event: Event, reason: str) -> None:
    attempt.reason = reason
    # An interruption is noted by the next process, long after the last sign of life.
    attempt.ended_at = attempt.heartbeat_at if reason == "interrupted" else event.timestamp
