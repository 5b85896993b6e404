"""What the end of a log says about how the work on it ended."""

from __future__ import annotations

from typing import Any

from holdfast.replay._stage import may_have_run
from holdfast.replay._state import State

__all__ = ["needs_interruption"]


def needs_interruption(state: State) -> dict[str, Any] | None:
    """The data of the ``interrupted`` event that the next writer records; None if none is due.

    Due when the log ends in mid-turn and nobody closed it: the process that was at work is gone. A
    suspended session is not interrupted, it waits. Ask before the first append of a new open; once
    the event is applied, the answer is None.
    """
    if state.suspended or not state.mid_turn:
        return None
    turn, calls = state.open_turn, state.pending_calls
    not_run = [name for name, call in calls.items() if not may_have_run(call.stage)]
    return {
        "turn": None if turn is None else turn.turn,
        "calls": [name for name in calls if name not in not_run],
        **({"not_run": not_run} if not_run else {}),
        "streaming": state.uncovered_delta,
        "reason": "the process ended in mid-turn",
    }
