"""How far a tool call came that has no result, where its user may have been asked about it first.

A ``tool_call``, or a message that asks for one, is an intent: whether it took effect is unknown. A
``permission`` that names the call knows more. While the question is open, and after a refusal,
the call has not run.
"""

from __future__ import annotations

from typing import Any, Literal

__all__ = ["WHY_NOT_RUN", "Stage", "may_have_run", "stage_after", "stand_in"]

Stage = Literal["announced", "asked", "begun", "refused"]

_REFUSALS = frozenset({"deny", "denied", "reject", "rejected", "cancelled"})
WHY_NOT_RUN: dict[Stage, str] = {
    "asked": "nobody answered whether it may run",
    "refused": "it was refused",
}
"""Why a call has not run, by how far it came; any other may have."""
_UNKNOWN = "(interrupted: whether this call took effect is unknown)"


def stage_after(decision: Any) -> Stage | None:
    """How far a call is after a ``permission`` about it, given the decision in that; None for none.

    Whatever is neither a question nor a refusal may have let it run.
    """
    if not isinstance(decision, str):
        return None
    if decision == "ask":
        return "asked"
    return "refused" if decision in _REFUSALS else "begun"


def may_have_run(stage: Stage) -> bool:
    """Whether a call that came so far may have taken effect."""
    return stage not in WHY_NOT_RUN


def stand_in(stage: Stage) -> str:
    """What a model is told in the place of the result that a call never got."""
    why = WHY_NOT_RUN.get(stage)
    return _UNKNOWN if why is None else f"(not run: {why})"
