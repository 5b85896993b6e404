"""Text without the escapes that JSON put into it, however often, and the way back to its places.

A secret is often in JSON that is a text in JSON that is a text in JSON: rules must see a name in
quotes, and where a line begins, not the backslashes before them.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

# A whole run of backslashes. What stands behind the first of them keeps a long run from being
# looked at from each of its signs.
_BACKSLASHES = r"\\(?<!\\\\)\\*+"
_BREAK = re.compile(_BACKSLASHES + r"[nrt]")
_CODED = re.compile(_BACKSLASHES + r"u00(2[267bfBF]|3[cdeCDE])")
_ESCAPED = re.compile(_BACKSLASHES + r"(?=[\"'/&+<=>])")
_CHANGED_BY_JSON = re.compile(r'[^ -~]|["\\]')
_LEVELS = 3


def without_breaks(text: str) -> str:
    """A text of the same length, in which breaks that JSON has escaped are blanks.

    Signs that JSON has coded by their number stand for themselves, behind backslashes, which
    :func:`unescaped` leaves out with those before quotes.
    """
    if "\\" not in text:
        return text
    if "\\u00" in text:
        text = _CODED.sub(_decoded, text)
    if "\\\\" in text:
        return _BREAK.sub(lambda match: " " * len(match.group()), text)
    for sign in "nrt":
        text = text.replace(f"\\{sign}", "  ")
    return text


def _decoded(match: re.Match[str]) -> str:
    sign = chr(int(match.group(1), 16))
    return sign.rjust(len(match.group()), "\\")


def unescaped(text: str) -> str:
    """The text without backslashes before quotes and other signs that are escaped."""
    return _ESCAPED.sub("", text) if "\\" in text else text


def places_before(places: Iterable[tuple[int, int]], text: str) -> list[tuple[int, int]]:
    """Where these places of ``unescaped(text)`` are in the text itself.

    What begins with an escaped sign begins with its backslashes.
    """
    where, totals, total = [], [0], 0
    for match in _ESCAPED.finditer(text):
        start, stop = match.span()
        where.append(start - total)
        total += stop - start
        totals.append(total)
    return [
        (start + totals[bisect_left(where, start)], stop + totals[bisect_right(where, stop - 1)])
        for start, stop in places
    ]


def reads_the_same(value: str) -> bool:
    """Whether a value stands in JSON as it is."""
    return _CHANGED_BY_JSON.search(value) is None


def forms_of(value: str) -> list[str]:
    """How a value reads in an unescaped text, by itself and within JSON of a few levels."""
    if reads_the_same(value):
        return [unescaped(value)]
    forms, given = [], {value}
    for _ in range(_LEVELS):
        forms += [unescaped(without_breaks(form)) for form in given]
        given = {
            json.dumps(form, ensure_ascii=pure)[1:-1] for form in given for pure in (True, False)
        }
    return sorted(set(forms))


# Texts that are wrapped in base64: found, unwrapped, and given back with where they were.


_PIECE = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_BLOCK = re.compile(
    r"(?:[A-Za-z0-9+/]{60,}(?:\r?\n|\\r\\n|\\n)[ \t]{0,32})+[A-Za-z0-9+/]{1,}={0,2}"
)
_LINE_BREAK = re.compile(r"\\[rn]|\s")
_LINE_MIN = 60
_PROBE_CHARS = 32
_TEXT_MAX = 4 << 20
_PRINTABLE = frozenset(b"\t\n\r" + bytes(range(0x20, 0x7F)))


def wrapped_texts(text: str, runs: list[tuple[int, int]]) -> Iterator[tuple[int, int, str]]:
    """(start, stop, inner text) of every run that is base64 of ASCII text, broken lines too."""
    done = 0
    for low, high in runs:
        if low < done:
            continue
        block = _BLOCK.match(text, low) if high - low >= _LINE_MIN else None
        if block is not None:
            done = block.end()
            inner = _unwrapped(_LINE_BREAK.sub("", block.group()))
            if inner:
                yield low, done, inner
                continue
        for piece in _PIECE.finditer(text, low, high):
            inner = _unwrapped(piece.group())
            if inner:
                yield *piece.span(), inner


def _unwrapped(coded: str) -> str:
    """The text, or nothing if it is none."""
    if coded == coded.lower():
        return ""  # two dozen letters of a text always give a capital
    coded = coded.rstrip("=").replace("-", "+").replace("_", "/")[:_TEXT_MAX]
    if not _is_text(_from_base64(coded[:_PROBE_CHARS])):
        return ""
    inner = _from_base64(coded)
    return inner.decode("ascii") if _is_text(inner) else ""


def _from_base64(coded: str) -> bytes:
    whole = len(coded) - (len(coded) % 4 == 1)
    try:
        return base64.b64decode(coded[:whole] + "=" * (-whole % 4))
    except (binascii.Error, ValueError):
        return b""


def _is_text(data: bytes) -> bool:
    return bool(data) and _PRINTABLE.issuperset(data)
