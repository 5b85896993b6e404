"""What callers give, looked at before anything is done with it."""

from __future__ import annotations

import operator
import os
from typing import Any

from holdfast.errors import UsageError

_LIMIT_MAX = 2**40  # more than there is; a database does not count much further


def whole(name: str, value: Any) -> int:
    """A whole number, also one of another library's kind. Raises UsageError for anything else."""
    try:
        return operator.index(value)
    except TypeError:
        raise UsageError(f"{name} is a whole number, not {value!r:.40}") from None


def limit_of(value: Any, things: str) -> int | None:
    """How many ``things`` are wanted at most; None for all. Raises UsageError for what is none."""
    if value is None:
        return None
    found = whole("a limit", value)
    if found < 0:
        raise UsageError(f"a limit is a number of {things}, not {found}")
    return min(found, _LIMIT_MAX)


def check_text(name: str, value: Any) -> None:
    """Raise UsageError for what is neither a text nor None."""
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{name} is a text, not {type(value).__name__}")


def check_path(name: str, value: Any) -> None:
    """Raise UsageError for what can be no path of a file."""
    if not isinstance(value, (str, os.PathLike)):
        raise UsageError(f"{name} is a path, not {type(value).__name__}")
    try:
        is_one = b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        is_one = False
    if not is_one:
        raise UsageError(f"{name} is a path, which {os.fspath(value)[:40]!a} can be none of")


def check_function(name: str, value: Any) -> None:
    """Raise UsageError for what can neither be called nor is None."""
    if value is not None and not callable(value):
        raise UsageError(f"{name} is a function, not {type(value).__name__}")


def one_of_each(name: str, values: Any) -> frozenset[str]:
    """Texts that were given as a collection. Raises UsageError for anything else."""
    if isinstance(values, str):
        raise UsageError(f"{name} are a list of texts, not one text", remedy=f"Give [{values!r}].")
    try:
        found = list(values)
    except TypeError:
        found = [None]
    if not all(isinstance(one, str) for one in found):
        raise UsageError(f"{name} are a list of texts, not {values!r:.40}")
    return frozenset(found)
