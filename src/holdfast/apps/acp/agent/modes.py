"""How freely our agent works: asking first, changing nothing, or by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from holdfast.agent import Kit as AgentKit

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


# What our agent is made of, before it has a session.


_WINDOWS = (
    ("claude", 200_000),
    ("gpt-5", 400_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("gemini", 1_048_576),
)


@dataclass(frozen=True, kw_only=True)
class Kit(AgentKit):
    """The model and how the agents of an editor work on it."""

    WORDS: ClassVar[str] = (
        "You are a helpful assistant in a code editor. The user sees your answers, what your tools"
        " do, and the files as you change them. Use your tools to look before you answer, change"
        " only what was asked for, and answer briefly and plainly."
    )
    mode: str = ASK


def window_of(kit: Kit, model: str | None) -> int | None:
    """How many tokens a model takes at once; None if that is not known."""
    if kit.small_window is not None or not model:
        return kit.small_window
    return next((size for name, size in _WINDOWS if name in model), None)
