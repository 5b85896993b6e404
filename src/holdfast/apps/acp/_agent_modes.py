"""How freely our agent works: asking first, changing nothing, or by itself."""

from __future__ import annotations

from typing import Any

__all__ = ["ASK", "AUTO", "MODES", "OPTIONS", "READ_ONLY", "mode_state"]

ASK = "ask"
READ_ONLY = "read-only"
AUTO = "auto"
MODES = {
    ASK: ("Ask", "Asks before it changes files or runs commands."),
    READ_ONLY: ("Read only", "Reads, and is refused whatever would need a permission."),
    AUTO: ("Auto", "Changes files and runs commands without asking."),
}

# What a user may answer, and what it means: allowed or not, and for how long.
OPTIONS = {
    "allow_once": ("Allow", True, "once"),
    "allow_always": ("Allow for this session", True, "session"),
    "reject_once": ("Reject", False, "once"),
}


def mode_state(current: str) -> dict[str, Any]:
    """The modes as an editor shows them."""
    available = [
        {"id": id, "name": name, "description": about} for id, (name, about) in MODES.items()
    ]
    return {"currentModeId": current, "availableModes": available}
