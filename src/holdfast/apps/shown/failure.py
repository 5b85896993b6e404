"""What people are told when something goes wrong: a sentence, and what to do about it."""

from __future__ import annotations

import os
from typing import NamedTuple

from holdfast.errors import HoldfastError, Locked

__all__ = ["Told", "told"]


class Told(NamedTuple):
    """A sentence without its full stop, and a remedy; the remedy may be empty."""

    message: str
    remedy: str


def told(error: BaseException, *, waits: bool = False) -> Told:
    """What to say about an exception, whatever it is, to someone who can wait with ``--wait``."""
    if isinstance(error, HoldfastError):
        return Told(error.message, _remedy(error, waits=waits))
    if isinstance(error, OSError):
        why = os.strerror(error.errno) if error.errno else str(error)
        return Told(f"the system refused: {why}", "Check the disk and your rights.")
    return Told(
        f"{type(error).__name__}: {error}",
        "This is a defect of Holdfast. Please report it with what HOLDFAST_TRACEBACK=1 adds.",
    )


def _remedy(error: HoldfastError, *, waits: bool) -> str:
    """The error's own remedy; one that is about Python calls is said for people."""
    if isinstance(error, Locked) and error.remedy == Locked.remedy:
        wait = ", or wait with --wait" if waits else ""
        return f"Close it there first{wait}. Reading it works all the time."
    return error.remedy
