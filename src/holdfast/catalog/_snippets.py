"""A short piece of a text around what was found in it, safe to show."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from holdfast.security import neutralise_line

SNIPPET_CHARS = 160
_LEAD_CHARS = 40
_SPACE = re.compile(r"[\s\x00-\x1f\x7f]+")
# The same for ASCII, in which nothing else has to be replaced.
_SPACES = dict.fromkeys((*range(32), 127), " ")
_CUT = "…"
_BREAK_CHARS_MAX = 15
Span = tuple[int, int]


class Snippet(msgspec.Struct, frozen=True):
    """One line of text; ``ranges`` are the places in it that were looked for.

    It holds no control characters: whitespace of any kind is one space, and what a terminal could
    obey or hide is replaced by a visible character.
    """

    text: str
    ranges: tuple[Span, ...] = ()

    def marked(self, before: str = "**", after: str = "**") -> str:
        """The text with marks around each place."""
        return "".join(
            f"{before}{part}{after}" if is_found else part for part, is_found in self.parts()
        )

    def parts(self) -> Iterator[tuple[str, bool]]:
        """The text piece by piece, and whether each was looked for."""
        at = 0
        for begin, end in self.ranges:
            if at < begin:
                yield self.text[at:begin], False
            yield self.text[begin:end], True
            at = end
        if at < len(self.text):
            yield self.text[at:], False

    def __str__(self) -> str:
        return self.text


def make_snippet(text: str, spans: list[Span], chars: int = SNIPPET_CHARS) -> Snippet:
    """The part of ``text`` that shows most of ``spans``, which are in order and do not overlap."""
    begin, end = _window(text, spans, chars)
    clean = _cleaner_of(text[begin:end])
    pieces: list[str] = [_CUT] if begin else []
    ranges: list[Span] = []
    length, at = len(pieces), begin
    for first, last in spans:
        if last <= begin or first >= end:
            continue
        first, last = max(first, begin), min(last, end)  # noqa: PLW2901 - cut to what is shown
        plain, found = clean(text[at:first]), clean(text[first:last])
        pieces += [plain, found]
        ranges.append((length + len(plain), length + len(plain) + len(found)))
        length, at = ranges[-1][1], last
    pieces.append(clean(text[at:end]).rstrip())
    return Snippet("".join(pieces) + (_CUT if end < len(text) else ""), tuple(ranges))


def _window(text: str, spans: list[Span], chars: int) -> Span:
    """Where to cut: around the closest spans, at a space if one is near."""
    if len(text) <= chars or not spans:
        return 0, min(len(text), chars)
    best = spans[0][0] if len(spans) == 1 else _closest(spans, chars)
    begin = max(0, min(best - _LEAD_CHARS, len(text) - chars))
    space = _SPACE.search(text, begin, min(begin + _BREAK_CHARS_MAX, best)) if begin else None
    begin = space.end() if space else begin
    end = min(len(text), begin + chars)
    return begin, end


def _closest(spans: list[Span], chars: int) -> int:
    """Where the most spans are within so many characters."""
    best, most = spans[0][0], 0
    for number, (first, _) in enumerate(spans[:100]):
        within = sum(1 for _, last in spans[number : number + 20] if last <= first + chars)
        if within > most:
            best, most = first, within
    return best


def _cleaner_of(text: str) -> Callable[[str], str]:
    """What makes any part of this text safe to show."""
    if not text.isascii():
        return _clean
    return _as_it_is if text.isprintable() and "  " not in text else _clean_ascii


def _as_it_is(text: str) -> str:
    return text


def _clean_ascii(text: str) -> str:
    text = text.translate(_SPACES)
    while "  " in text:
        text = text.replace("  ", " ")
    return text


def _clean(text: str) -> str:
    return neutralise_line(_SPACE.sub(" ", text))
