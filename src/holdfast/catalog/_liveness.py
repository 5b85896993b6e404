"""What only the moment of asking tells of a session that was not closed: whether a writer lives."""

from __future__ import annotations

from holdfast.storage.disk import is_at_work

__all__ = ["CUT_SHORT", "OPEN", "liveness"]

OPEN = "open"
CUT_SHORT = "cut short"


def liveness(*, closed: bool, cut_short: bool, pid: int | None, host: str | None) -> str | None:
    """OPEN if a writer on this machine has it; CUT_SHORT if it ended in mid-turn."""
    if not closed and is_at_work(pid, host):
        return OPEN
    return CUT_SHORT if cut_short else None
