"""Text without the escapes that JSON put into it, however often, and the way back to its places.

A secret is often in JSON that is a text in JSON that is a text in JSON: rules must see a name in
quotes, and where a line begins, not the backslashes before them.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

__all__ = ["forms_of", "places_before", "unescaped", "without_breaks"]

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


def forms_of(value: str) -> list[str]:
    """How a value reads in an unescaped text, by itself and within JSON of a few levels."""
    if _CHANGED_BY_JSON.search(value) is None:
        return [unescaped(value)]
    forms, given = [], {value}
    for _ in range(_LEVELS):
        forms += [unescaped(without_breaks(form)) for form in given]
        given = {
            json.dumps(form, ensure_ascii=pure)[1:-1] for form in given for pure in (True, False)
        }
    return sorted(set(forms))
