"""Error messages for people: a sentence and a remedy."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from holdfast.errors import HoldfastError, Locked

if TYPE_CHECKING:
    from holdfast.library import Holdfast


class FailureText(NamedTuple):
    """A sentence without its full stop, and a remedy; the remedy may be empty."""

    message: str
    remedy: str


def told(error: BaseException, *, waits: bool = False) -> FailureText:
    """Return the message for any exception, for someone who can wait with ``--wait``."""
    if isinstance(error, Locked) and error.remedy == Locked.remedy:
        # Its own remedy is about Python calls.
        wait = ", or wait with --wait" if waits else ""
        return FailureText(error.message, f"Close it there first{wait}. It can be read meanwhile.")
    if isinstance(error, HoldfastError):
        return FailureText(error.message, error.remedy)
    if isinstance(error, OSError):
        why = os.strerror(error.errno) if error.errno else str(error)
        return FailureText(f"the system refused: {why}", "Check the disk and your rights.")
    remedy = "This is a defect of Holdfast. Please report it with what HOLDFAST_TRACEBACK=1 adds."
    return FailureText(f"{type(error).__name__}: {error}", remedy)


def strangers_hint(library: Holdfast) -> tuple[str, str]:
    """Return a message and a remedy for a store that is the folder of another system; else empty texts."""
    place = library.foreign.strangers()
    if place is None:
        return "", ""
    whose = "another store" if place.tool == "holdfast" else place.tool
    told = f"{place.path} holds sessions of {whose}, and is no store of its own"
    return told, f"Bring them in: {import_command(place.path)}"


def import_command(path: str) -> str:
    """Return the command, into another store than the folder itself where that is what is set."""
    from shlex import quote

    from holdfast._config import configuration

    # To import a folder into itself would mix two systems' files.
    is_set = os.path.realpath(str(configuration().get("store"))) == os.path.realpath(path)
    return f"holdfast import {quote(path)}" + (" --store .holdfast" if is_set else "")
