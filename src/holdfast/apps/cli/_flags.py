"""What was asked for whatever the verb: known even if the rest of the command line is wrong."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Asked(NamedTuple):
    """How things are to be told."""

    as_json: bool = False
    colour: str | None = None
    pager: bool = True


def asked(arguments: Sequence[str]) -> Asked:
    """What the command line says about it, as far as it can be understood."""
    words = list(arguments)
    if "--" in words:
        del words[words.index("--") :]
    colour = None
    for word, after in pairwise([*words, ""]):
        name, equals, value = word.partition("=")
        if name == "--color":
            colour = value if equals else after
    return Asked(
        "--json" in words, colour if colour in CHOICES else None, "--no-pager" not in words
    )


# Whether there are colours: what the user says, then what the environment says, then the place.


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
