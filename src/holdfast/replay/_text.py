"""Values that every provider accepts: valid Unicode, finite numbers, bounded nesting, valid ids.

Everything here returns the very object it was given when nothing had to change, so that a caller can compare with
``is``.
"""

from __future__ import annotations

import binascii
import gc
import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import chain
from typing import Any

DEPTH_MAX = 64  # nesting of one value; deeper parts are cut off. The same bound as for recorded events.

_REPEATS_MAX = 10_000
_INTEGER_BITS_MAX = 12_000  # Python writes integers of at most 4,300 digits as text
_WHOLE = slice(None)
_NAME_OF = type.__dict__["__name__"]  # a class may lie about its own name, or refuse to give it
_MARK = "\N{REPLACEMENT CHARACTER}"


def clean_text(text: str) -> str:
    """Return ``text`` without NUL and lone surrogates, which are replaced by U+FFFD."""
    if type(text) is not str:
        text = str.__getitem__(text, _WHOLE)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", _MARK) if "\0" in text else text


def is_blank(text: str) -> bool:
    """Return whether a provider would call this an empty text."""
    return not text or text.isspace()


def is_base64(text: str) -> bool:
    """Return whether a text is complete base64 without anything in between."""
    try:
        binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return False
    return bool(text)


def type_name(value: object) -> str:
    """Return the name of a value's type, for a message, without calling the value's own code."""
    return str(_NAME_OF.__get__(type(value)))


def plain_text(value: Any) -> str | None:
    """Return ``value`` as clean text if it is a string, else None."""
    return clean_text(value) if isinstance(value, str) else None


def clean_json(value: Any) -> Any:
    """Return ``value`` as plain JSON data.

    Cycles, too deep and too often repeated parts, NaN, infinities, huge integers and foreign objects become short
    texts that describe them; keys become strings.
    """
    # A name and a text for each, as nearly all tools are given.
    for one in chain.from_iterable(value.items()) if type(value) is dict else (None,):
        if type(one) is not str or ((not one.isascii() or "\0" in one) and clean_text(one) is not one):
            break
    else:
        return value
    return _Cleaner().clean(value, DEPTH_MAX)


class _Cleaner:
    """One walk over one value. Shared parts are walked again, up to a limit."""

    __slots__ = ("_path", "_repeats", "_seen")

    def __init__(self) -> None:
        self._path: set[int] = set()
        self._seen: set[int] = set()
        self._repeats = 0

    def clean(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is str:
            return clean_text(value)
        if value is None or kind is bool:
            return value
        if not issubclass(kind, (dict, list, tuple)):  # isinstance would call the value's own code
            return _clean_leaf(value)
        identity = id(value)
        if identity in self._path:
            return "(a cycle)"
        if identity in self._seen:
            self._repeats += 1
        if depth <= 0 or self._repeats > _REPEATS_MAX:
            return "(nested too deeply)"
        self._seen.add(identity)
        self._path.add(identity)
        same = kind is dict or kind is list
        cleaned: Any = {} if issubclass(kind, dict) else []
        # Each by its own class: the value's own methods may return anything.
        if issubclass(kind, dict):
            for key, item in dict.items(value):
                leaf = _clean_leaf(key)
                name = leaf if isinstance(leaf, str) else str(leaf)
                cleaned[name] = self.clean(item, depth - 1)
                same = same and name is key and cleaned[name] is item
        else:
            for item in (list if issubclass(kind, list) else tuple).__iter__(value):
                cleaned.append(self.clean(item, depth - 1))
                same = same and cleaned[-1] is item
        self._path.discard(identity)
        return value if same else cleaned


def _clean_leaf(value: Any) -> Any:
    """Return a scalar value as JSON has it."""
    kind = type(value)
    if issubclass(kind, int):
        number = int.__index__(value)
        return number if number.bit_length() <= _INTEGER_BITS_MAX else "(a huge integer)"
    if issubclass(kind, float):
        real = float.__add__(value, 0.0)
        return real if math.isfinite(real) else float.__repr__(value)
    if issubclass(kind, str):
        return clean_text(value)
    if issubclass(kind, (bytes, bytearray)):
        return clean_text(bytes(value).decode("utf-8", "replace"))
    return "null" if value is None else f"({type_name(value)})"


# Dicts that take half the memory: those with the same keys share them.
# The interpreter does so for the attributes of a class's instances, and for copies of such a dict. It is a plain dict
# to everyone, and becomes an ordinary one when its members change. The interpreter leaves each instance room for
# attributes to come, and a little less than the last.
_INSTANCES = 40


def template(**members: Any) -> dict[str, Any]:
    """Return a dict with these members whose copies share their keys, for large numbers of dicts."""
    kind = type("Members", (), {})
    found: dict[str, Any] = {}
    for _ in range(_INSTANCES):
        one = kind()
        for name, value in members.items():
            setattr(one, name, value)
        found = vars(one)
    return found


# A pause of the garbage collector while very many lasting values are made.
MANY = 2_000  # the number from which it is worthwhile; also used if the number is unknown


@contextmanager
def collector_paused(count: int) -> Iterator[None]:
    """Pause the collection of cycles during a piece of work on ``count`` things, if those are many.

    The collector would walk over everything made so far again and again, find nothing, and make the work take more
    than linear time. It resumes afterwards if it was on before.
    """
    pause = count >= MANY and gc.isenabled()
    if pause:
        gc.disable()
    try:
        yield
    finally:
        if pause:
            gc.enable()


# Ids and names of tool calls as each provider accepts them, deterministic.
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
    """Return the key that pairs a result with its call: the id as recorded; None if there is none."""
    if isinstance(value, str):
        return clean_text(value) or None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(int(value))
    return None


def name_key(name: Any) -> str:
    """Return the key that pairs calls and results of a form with names and no ids."""
    return f"{_NAMED}{clean_text(name) if isinstance(name, str) else ''}"


def is_named(key: str) -> bool:
    """Return whether a key was made from a name: then it is repeated by each call of that tool."""
    return key.startswith(_NAMED)


def fit_id(key: str) -> str:
    """Return a valid id for a recorded one: letters, digits, ``_`` and ``-``, at most 64."""
    return _shorten(_BAD.sub("_", key), ID_CHARS_MAX)


def fit_name(name: str, chars_max: int = NAME_CHARS_MAX) -> str:
    """Return a valid tool name for a recorded one; ``unknown_tool`` if nothing of it is usable."""
    return _shorten(_BAD.sub("_", name), chars_max) or "unknown_tool"


def openai_id(identity: str) -> str:
    """Return a valid id within the length that OpenAI's chat accepts."""
    return _shorten(identity, OPENAI_ID_CHARS_MAX)


def mistral_id(identity: str) -> str:
    """Return nine letters or digits that stand for this id."""
    if _MISTRAL.match(identity):
        return identity
    number = _hash(identity)
    digits = []
    for _ in range(_MISTRAL_CHARS):
        number, digit = divmod(number, 62)
        digits.append(_DIGITS[digit])
    return "".join(digits)


@cache  # it loads OpenSSL, and few conversations need a digest
def _sha256() -> Callable[[bytes], Any]:
    from hashlib import sha256

    return sha256


def _hash(identity: str) -> int:
    return int.from_bytes(_sha256()(identity.encode()).digest()[:8])


def _mistral_number(identity: str) -> int:
    """Return ``mistral_id`` as a number, which is much faster: equal if and only if those are."""
    if len(identity) != _MISTRAL_CHARS or not _MISTRAL.match(identity):
        return _hash(identity) % _MISTRAL_COUNT
    number = 0
    for digit in reversed(identity):
        number = number * 62 + _DIGITS.index(digit)
    return number


def _shorten(text: str, chars_max: int) -> str:
    if len(text) <= chars_max:
        return text
    mark = _sha256()(text.encode()).hexdigest()[:16]
    return f"{text[: chars_max - 17]}-{mark}"


class CallNames:
    """Gives each call of a conversation an id, the recorded one or ``…-2``, that is unique in every dialect."""

    __slots__ = ("_counts", "_taken")

    def __init__(self) -> None:
        # By number: equal names have equal numbers, which take the least memory.
        self._taken: set[int] = set()
        self._counts: dict[str, int] = {}

    def take_all(self, names: Iterable[str]) -> bool:
        """Reserve names as they are, if all of them are free."""
        numbers = list(map(_mistral_number, names))
        numbers += [_mistral_number(openai_id(name)) for name in names if len(name) > OPENAI_ID_CHARS_MAX]
        if not self._taken.isdisjoint(numbers) or len(set(numbers)) != len(numbers):
            return False
        self._taken.update(numbers)
        return True

    def take(self, base: str) -> str:
        """Return ``base`` if it is free, else a free variation of it."""
        name = base
        while True:
            numbers = {_mistral_number(name)}
            # Two ids that differ only after that would be one to OpenAI.
            if len(name) > OPENAI_ID_CHARS_MAX:
                numbers.add(_mistral_number(openai_id(name)))
            if self._taken.isdisjoint(numbers):
                self._taken |= numbers
                return name
            count = self._counts[base] = self._counts.get(base, 1) + 1
            name = f"{base[: ID_CHARS_MAX - 8]}-{count}"
