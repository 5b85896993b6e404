"""What to say where the store is the folder of another system: whose it is, and what to do."""

from __future__ import annotations

import os
from shlex import quote

from holdfast._config import configuration
from holdfast.library import Holdfast

__all__ = ["import_command", "strangers_hint"]


def strangers_hint(library: Holdfast) -> tuple[str, str]:
    """What to say of a store that is the folder of another system, and what to do; else nothing."""
    place = library.strangers()
    if place is None:
        return "", ""
    whose = "another store" if place.tool == "holdfast" else place.tool
    told = f"{place.path} holds sessions of {whose}, and is no store of its own"
    return told, f"Bring them in: {import_command(place.path)}"


def import_command(path: str) -> str:
    """The command, into another store than the folder itself where that is what is set."""
    is_set = os.path.realpath(str(configuration().get("store"))) == os.path.realpath(path)
    return f"holdfast import {quote(path)}" + (" --store .holdfast" if is_set else "")
