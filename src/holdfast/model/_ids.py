"""Ids: one grammar that is a safe file name on every system.

An id is ``[A-Za-z0-9][A-Za-z0-9._-]{0,127}`` without ``..``, without a trailing dot, and not a device name of
Windows. Ids are unique case-insensitively: :func:`fold_id` is what stores compare.
"""

from __future__ import annotations

import re

from holdfast.errors import InvalidId

ID_CHARS_MAX = 128

_GRAMMAR = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z", re.ASCII)
_SIMPLE = re.compile(r"[a-z0-9][a-z0-9_-]{0,127}\Z", re.ASCII)  # most ids: without a dot
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", "clock$"] + [f"{port}{number}" for port in ("com", "lpt") for number in range(10)]
)
_UNFIT = re.compile(r"[^a-z0-9]+")
# Crockford's digits: no letter that can be mistaken for another, and they sort like their values.
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_DIGITS = 10
_RANDOM_DIGITS = 16
RANDOM_BYTES = _RANDOM_DIGITS * 5 // 8


def is_id(text: object) -> bool:
    """Return whether ``text`` is a well-formed id."""
    return isinstance(text, str) and _fault(text) is None


def check_id(text: object, *, what: str = "session id") -> str:
    """Return ``text``. Raises InvalidId, with the broken rule, if it is not a well-formed id."""
    if not isinstance(text, str):
        raise InvalidId(f"a {what} must be a string, not {type(text).__name__}")
    if _SIMPLE.match(text) and text not in _DEVICES:
        return text
    fault = _fault(text)
    if fault is not None:
        shown = ascii(text if len(text) <= 60 else text[:57] + "...")
        raise InvalidId(f"{shown} is not a {what}: {fault}", id=text)
    return text


def fold_id(text: str) -> str:
    """Return the form in which two ids are compared: case does not count."""
    return text.lower()


def fit_id(foreign: str) -> str:
    """Return a well-formed id for any foreign one: itself if it fits, else always the same stand-in.

    Two different foreign ids never share a stand-in (128 bits of SHA-256), and the readable part is kept, so that a
    person can recognise it.
    """
    import hashlib

    if is_id(foreign):
        return foreign
    digest = hashlib.sha256(foreign.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    readable = _UNFIT.sub("-", foreign.lower()).strip("-")[:64].rstrip("-")
    return f"{readable}-{digest}" if readable else f"x-{digest}"


def make_id(time_ms: int, random: bytes) -> str:
    """Return an id of 26 characters that sorts by time; ``random`` (10 bytes) distinguishes ids of one time."""
    if len(random) != RANDOM_BYTES or not 0 <= time_ms < 1 << (5 * _TIME_DIGITS):
        raise InvalidId("an id needs a time since 1970 in milliseconds and 10 random bytes")
    return _digits(time_ms, _TIME_DIGITS) + _digits(int.from_bytes(random), _RANDOM_DIGITS)


def _digits(number: int, width: int) -> str:
    return "".join(_DIGITS[number >> shift & 31] for shift in range(5 * (width - 1), -1, -5))


def _fault(text: str) -> str | None:
    """Return what is wrong with an id, in words, or None."""
    if not text:
        return "it is empty"
    if len(text) > ID_CHARS_MAX:
        return f"it has {len(text):,} characters, at most {ID_CHARS_MAX} are allowed"
    if not _GRAMMAR.match(text):
        return "only letters, digits, dots, dashes and underscores, beginning with a letter or digit"
    if ".." in text or text.endswith("."):
        return "two dots in a row and a dot at the end are not allowed"
    if text.partition(".")[0].lower() in _DEVICES:
        return "it is the name of a device on some systems"
    return None
