"""The common parts of all providers' rules: the state of a check, pairing, and valid values.

These modules are written from the providers' published rules (docs/reference/provider-rules.md) and share no code
with the repair, so that each reveals the other's mistakes.
"""

from __future__ import annotations

import base64
import json
import math
import re
from abc import ABC, abstractmethod
from typing import Any

_DEPTH_MAX = 64
_BITS_MAX = 12_000
# Each occurrence of a shared part counts: a few lists could represent any number of values.
_REPEATS_MAX = 10_000


def is_text(value: object) -> bool:
    """Return whether a value is a string of valid Unicode without NUL that is not blank."""
    if type(value) is not str or value.isspace() or value == "":
        return False
    return ("\0" not in value) if value.isascii() else _is_clean(value)


def _is_clean(text: str) -> bool:
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_address(value: object, *schemes: str) -> bool:
    """Return whether a value is a text that begins with one of these schemes and continues."""
    if type(value) is not str or not is_text(value):
        return False
    scheme, _, rest = value.partition("://")
    return scheme.lower() in schemes and rest != ""


def is_json(value: Any) -> bool:
    """Return whether a value is plain JSON data: exact types, finite numbers, bounded nesting and sharing."""
    if type(value) is dict:
        # A name and a text for each, as nearly all arguments are: no need to remember the path.
        for key, item in value.items():
            if type(item) is not str:
                break
            if type(key) is not str or not _is_clean(key):
                return False
            if "\0" in item or not (item.isascii() or _is_clean(item)):
                return False
        else:
            return True
    seen: set[int] = set()
    repeats = 0
    waiting = [(value, _DEPTH_MAX)]
    while waiting:
        value, depth = waiting.pop()
        kind = type(value)
        if kind is not dict and kind is not list:
            if not _is_leaf(value):
                return False
            continue
        repeats += id(value) in seen
        if depth <= 0 or repeats > _REPEATS_MAX:
            return False
        seen.add(id(value))
        if kind is dict:
            if not all(type(key) is str and _is_clean(key) for key in value):
                return False
            value = value.values()
        waiting += [(item, depth - 1) for item in value]
    return True


def _is_leaf(value: Any) -> bool:
    kind = type(value)
    if kind is str:
        return _is_clean(value)
    if kind is int:
        return bool(value.bit_length() <= _BITS_MAX)
    if kind is float:
        return math.isfinite(value)
    return value is None or kind is bool


def is_encoded(value: object) -> bool:
    """Return whether a value is bytes in base64."""
    try:
        return type(value) is str and bool(base64.b64decode(value, validate=True))
    except ValueError:
        return False


def is_json_object(text: object) -> bool:
    """Return whether a value is a string that holds one JSON object."""
    if type(text) is not str or not is_text(text):
        return False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return type(value) is dict and is_json(value)


class Rules(ABC):
    """One check of one list. Subclasses define what a message may be and what may follow what."""

    id_pattern = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
    # ``\Z``, not ``$``: that one also takes a newline at the end.
    name_pattern = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")

    continued = False  # whether the list continues something unknown, which is assumed valid

    alone = False  # whether a message is checked by itself: its context is assumed valid

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.unknown: list[str] = []
        """The errors about a role, a part or a member that the provider does not have."""
        self.index = 0
        self._open: dict[str, str] = {}
        # Ids are unique in a whole list, though they pair only neighbours.
        self.seen: set[str] = set()
        self.begun = False

    @abstractmethod
    def check(self, message: Any) -> None:
        """Check the next message of the list."""

    def end(self) -> None:
        """Check what can only be seen at the end of the list."""
        self.expect_no_open("the list ends")

    def fail(self, text: str) -> None:
        """Note one broken rule."""
        self.errors.append(f"messages[{self.index}]: {text}")

    def fail_unknown(self, text: str) -> None:
        """Note something that the provider does not know."""
        self.fail(text)
        self.unknown.append(text)

    def need(self, holds: object, text: str) -> bool:
        """Note a broken rule unless the condition holds."""
        if not holds:
            self.fail(text)
        return bool(holds)

    def members(self, value: dict[Any, Any], allowed: frozenset[str], what: str) -> None:
        """Refuse members that the provider does not know."""
        if not allowed.issuperset(value):
            names = ", ".join(f"{name!r:.60}" for name in value if name not in allowed)
            self.fail_unknown(f"{what} has no member {names}")

    def begin(self, role: object, user: str) -> None:
        """Check that the first turn is a user's."""
        if not self.begun:
            self.begun = True
            self.need(self.alone or role == user, f"the first turn must be of role {user!r}")

    # --- calls and results
    def open_call(self, identity: Any, name: Any) -> None:
        """Check a call: well-formed, with an id of its own."""
        if not (type(identity) is str and self.id_pattern.match(identity)):
            self.fail("the id of a call is not well-formed")
            return
        if identity in self.seen:
            self.fail(f"the id {identity} is used twice")
        self.seen.add(identity)
        self._open[identity] = name if type(name) is str else ""
        self.need(self._open[identity] and self.name_pattern.match(name), "malformed tool name")

    def close_call(self, identity: Any) -> None:
        """Check a result: of a call just before it that has none yet."""
        found = self._open.pop(identity, None) if type(identity) is str else None
        if found is None and not (self.alone and type(identity) is str):
            self.fail("a result does not answer an open call right before it")

    def expect_no_open(self, when: str) -> None:
        """Check that every call has its result by now."""
        if self._open and not self.alone:
            self.fail(f"{when} while calls have no result: {', '.join(list(self._open)[:5])}")
            self._open.clear()
