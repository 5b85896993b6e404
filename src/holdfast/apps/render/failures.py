"""What people are told when something goes wrong: a sentence, and what to do about it."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from holdfast.errors import HoldfastError, Locked, ModelFailed

if TYPE_CHECKING:
    from holdfast.library import Holdfast


class FailureText(NamedTuple):
    """A sentence without its full stop, and a remedy; the remedy may be empty."""

    message: str
    remedy: str


def told(error: BaseException, *, waits: bool = False) -> FailureText:
    """What to say about an exception, whatever it is, to someone who can wait with ``--wait``."""
    if isinstance(error, Locked) and error.remedy == Locked.remedy:
        # Its own remedy is about Python calls.
        wait = ", or wait with --wait" if waits else ""
        return FailureText(error.message, f"Close it there first{wait}. Reading it works all the time.")
    if isinstance(error, ModelFailed):
        return _told_by_model(error)
    if isinstance(error, HoldfastError):
        return FailureText(error.message, error.remedy)
    if isinstance(error, OSError):
        why = os.strerror(error.errno) if error.errno else str(error)
        return FailureText(f"the system refused: {why}", "Check the disk and your rights.")
    remedy = "This is a defect of Holdfast. Please report it with what HOLDFAST_TRACEBACK=1 adds."
    return FailureText(f"{type(error).__name__}: {error}", remedy)


# What providers answer by number, in words; the rest of a range is told by its last number.
_STATUSES = {
    400: ("rejected this conversation", "Look at what it says, or try another model."),
    401: ("does not accept the API key", "Check the provider's key in the environment."),
    402: ("requires payment", "Look at the account there, or choose another model."),
    403: ("does not allow this with that API key", "Check what the key may do, or choose another model."),
    404: ("does not exist under this name", "Check the name of the model."),
    408: ("took too long to answer", "Try again."),
    413: ("does not accept a conversation this long", "Begin a new session, or set a window."),
    429: ("was asked too often, or its quota is used up", "Wait a little, then try again."),
    500: ("failed on the provider's side", "Try again in a moment."),
    503: ("is temporarily unavailable", "Try again in a moment."),
    504: ("took too long to answer", "Try again."),
    529: ("is overloaded", "Try again in a moment."),
}
_SAID = re.compile(r"['\"]message['\"]: (?:'([^']*)'|\"([^\"]*)\")")


def _told_by_model(error: ModelFailed) -> FailureText:
    """What a provider answered, without the form in which it came."""
    found = re.search(r"status_code: (\d{3})", error.message)
    if found is None:
        if "timed out" in error.message.lower() or "timeout" in error.message.lower():
            return FailureText(f"the model took too long to answer ({error.message})", "Try again.")
        return FailureText(error.message, error.remedy)
    number, name = int(found[1]), error.message.partition(":")[0]
    what, remedy = _STATUSES.get(number) or _STATUSES[500 if number >= 500 else 400]
    said = _SAID.search(error.message)
    own = next(filter(None, said.groups()), "") if said else ""
    return FailureText(
        f"the model {name} {what} ({number}{': ' + own if own else ''})", f"{remedy} The session is intact."
    )


def strangers_hint(library: Holdfast) -> tuple[str, str]:
    """What to say of a store that is the folder of another system, and what to do; else nothing."""
    place = library.foreign.strangers()
    if place is None:
        return "", ""
    whose = "another store" if place.tool == "holdfast" else place.tool
    told = f"{place.path} holds sessions of {whose}, and is no store of its own"
    return told, f"Bring them in: {import_command(place.path)}"


def import_command(path: str) -> str:
    """The command, into another store than the folder itself where that is what is set."""
    from shlex import quote

    from holdfast._config import configuration

    # To import a folder into itself would mix two systems' files.
    is_set = os.path.realpath(str(configuration().get("store"))) == os.path.realpath(path)
    return f"holdfast import {quote(path)}" + (" --store .holdfast" if is_set else "")
