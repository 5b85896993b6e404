"""Text of strangers in a document: harmless, and as people wrote it.

A document is not a terminal: there the two joiners that emoji, Persian and the scripts of India
are written with may stay where they join something, one at a time. Elsewhere they hide something.
"""

from __future__ import annotations

import re

from holdfast.security import neutralise, neutralise_line

__all__ = ["harmless", "harmless_line"]

_PICTURE = "\u2190-\u2bff\U0001f000-\U0001faff"
_LETTER = "\u0620-\u06ff\u0750-\u077f\u0900-\u0dff\u1000-\u109f"
_JOINERS = re.compile(
    f"(?<=[{_PICTURE}\ufe0f])\u200d(?=[{_PICTURE}])|(?<=[{_LETTER}])[\u200c\u200d](?=[{_LETTER}])"
)


def harmless(text: str) -> str:
    """``text`` without anything that could be obeyed or hide something; lines and tabs stay."""
    return _joined(text, neutralise(text))


def harmless_line(text: str) -> str:
    """The same for a place of one line."""
    return _joined(text, neutralise_line(text))


def _joined(text: str, clean: str) -> str:
    """Put joiners back; each character of the one stands where it stands in the other."""
    found = [] if text.isascii() else list(_JOINERS.finditer(text))
    if not found:
        return clean
    characters = list(clean)
    for one in found:
        characters[one.start()] = one[0]
    return "".join(characters)
