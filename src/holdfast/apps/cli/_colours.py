"""Whether there are colours: what the user says, then what the environment says, then the place."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # the command's quick start loads this, and loading `typing` takes longer
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CHOICES", "wants_colour"]

CHOICES = ("auto", "always", "never")


def wants_colour(
    choice: str | None, *, is_terminal: bool, environment: Mapping[str, str] = os.environ
) -> bool:
    """Whether to colour: by ``--color``, else as NO_COLOR, FORCE_COLOR and CLICOLOR ask for.

    A variable that is empty says nothing, and `0` takes back what FORCE_COLOR asks for. Without
    any of them only a terminal has colours.
    """
    if choice in ("always", "never"):
        return choice == "always"
    if environment.get("NO_COLOR"):
        return False
    if any(environment.get(name, "0") not in ("", "0") for name in _FORCING):
        return True
    return is_terminal and environment.get("CLICOLOR") != "0"


_FORCING = ("FORCE_COLOR", "CLICOLOR_FORCE")
