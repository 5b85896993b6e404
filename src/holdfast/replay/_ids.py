"""Ids and names of tool calls as each provider takes them, always the same for the same."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from holdfast.replay._text import clean_text

ID_CHARS_MAX = 64
OPENAI_ID_CHARS_MAX = 40
NAME_CHARS_MAX = 128
_BAD = re.compile(r"[^A-Za-z0-9_-]")
_MISTRAL = re.compile(r"[A-Za-z0-9]{9}\Z")
_MISTRAL_CHARS = 9
_NAMED = "function-"
_MISTRAL_COUNT: int = 62**_MISTRAL_CHARS
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def call_key(value: Any) -> str | None:
    """What pairs a result with its call: the id as recorded; None if there is none."""
    if isinstance(value, str):
        return clean_text(value) or None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(int(value))
    return None


def name_key(name: Any) -> str:
    """What pairs calls and results of a form that has names and no ids."""
    return f"{_NAMED}{clean_text(name) if isinstance(name, str) else ''}"


def is_named(key: str) -> bool:
    """Whether a key was made of a name: then it comes again with each call of that tool."""
    return key.startswith(_NAMED)


def fit_id(key: str) -> str:
    """A well-formed id for a recorded one: letters, digits, ``_`` and ``-``, at most 64."""
    return _shorten(_BAD.sub("_", key), ID_CHARS_MAX)


def fit_name(name: str, chars_max: int = NAME_CHARS_MAX) -> str:
    """A well-formed tool name for a recorded one; ``unknown_tool`` if nothing of it is usable."""
    return _shorten(_BAD.sub("_", name), chars_max) or "unknown_tool"


def short_id(identity: str, chars_max: int) -> str:
    """A well-formed id within a provider's length."""
    return _shorten(identity, chars_max)


def mistral_id(identity: str) -> str:
    """Nine letters or digits that stand for this id."""
    if _MISTRAL.match(identity):
        return identity
    number = _hash(identity)
    digits = []
    for _ in range(_MISTRAL_CHARS):
        number, digit = divmod(number, 62)
        digits.append(_DIGITS[digit])
    return "".join(digits)


def _hash(identity: str) -> int:
    return int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8])


def _mistral_number(identity: str) -> int:
    """``mistral_id`` as a number, which is much quicker to make: equal if and only if those are."""
    if not _MISTRAL.match(identity):
        return _hash(identity) % _MISTRAL_COUNT
    number = 0
    for digit in reversed(identity):
        number = number * 62 + _DIGITS.index(digit)
    return number


def _shorten(text: str, chars_max: int) -> str:
    if len(text) <= chars_max:
        return text
    mark = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{text[: chars_max - 17]}-{mark}"


class CallNames:
    """Gives each call of one conversation its own id: the recorded one, or ``…-2``, ``…-3``.

    An id is its own in every dialect: also its short forms belong to no other call.
    """

    __slots__ = ("_counts", "_taken")

    def __init__(self) -> None:
        # By number: names that are equal have the same, and it is the least that can be kept.
        self._taken: set[int] = set()
        self._counts: dict[str, int] = {}

    def take(self, base: str) -> str:
        """``base`` if it is free, else a free variation of it."""
        name = base
        while not self._reserve(name):
            count = self._counts[base] = self._counts.get(base, 1) + 1
            name = f"{base[: ID_CHARS_MAX - 8]}-{count}"
        return name

    def _reserve(self, name: str) -> bool:
        taken = self._taken
        number = _mistral_number(name)
        if number in taken:
            return False
        if len(name) > OPENAI_ID_CHARS_MAX:
            short = _mistral_number(short_id(name, OPENAI_ID_CHARS_MAX))
            if short in taken:
                return False
            taken.add(short)
        taken.add(number)
        return True
