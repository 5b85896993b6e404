"""What was asked for whatever the verb: known even if the rest of the command line is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from holdfast.apps.cli._screen import COLOURS


class Flags(NamedTuple):
    """How things are to be told."""

    as_json: bool = False
    colour: str | None = None
    pager: bool = True


def asked(arguments: Sequence[str]) -> Flags:
    """What the command line says about it, as far as it can be understood."""
    words = list(arguments)
    if "--" in words:
        del words[words.index("--") :]
    colour = None
    for word, after in pairwise([*words, ""]):
        name, equals, value = word.partition("=")
        if name == "--color":
            colour = value if equals else after
    return Flags(
        "--json" in words, colour if colour in COLOURS else None, "--no-pager" not in words
    )
