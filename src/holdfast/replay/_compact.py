"""Dicts that take half the memory: those that are made alike share what their keys take.

The interpreter does so for the attributes of a class's instances, and for copies of such a dict. It
is a plain dict to everyone, and becomes an ordinary one when its members change.
"""

from __future__ import annotations

from typing import Any

__all__ = ["template"]

# The interpreter leaves each instance room for attributes to come, and a little less than the last.
_INSTANCES = 40


def template(**members: Any) -> dict[str, Any]:
    """A dict with these members whose copies share their keys, for what is kept in numbers."""
    kind = type("Members", (), {})
    found: dict[str, Any] = {}
    for _ in range(_INSTANCES):
        one = kind()
        for name, value in members.items():
            setattr(one, name, value)
        found = vars(one)
    return found
