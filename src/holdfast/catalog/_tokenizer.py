"""Text as it is searched: small letters without accents, cut into words the same way everywhere.

The index and the check of each hit both read folded text, so that they agree about what a word is.
Folding looks at one character at a time. In folded text every character that is not ASCII is part
of a word, and SQLite's ``ascii`` tokenizer cuts it into the same words as ``words_of`` does.

Scripts without spaces between words, Hangul, emoji and signs such as ``→`` or ``€`` are cut
into single characters: looking for several of them in a row then finds any part of a sentence.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

# By what is no word: a class that names every other character takes milliseconds to compile.
WORD = "[^\x00-/:-`{-\x7f]"
"""A character of a word in folded text, as a regular expression."""
NO_WORD = "[\x00-/:-`{-\x7f]"
"""A character between words."""

_find_words = re.compile(WORD + "+").findall
_FOREIGN = re.compile("[^\x00-\x7f]+")
# Accents, and the points of Hebrew and Arabic that most people leave out.
_DROPPED = (
    (0x0300, 0x036F),
    (0x0591, 0x05C7),
    (0x0610, 0x061A),
    (0x0640, 0x0640),  # a letter's stretched line
    (0x064B, 0x065F),
    (0x0670, 0x0670),
    (0x1AB0, 0x1AFF),
    (0x1DC0, 0x1DFF),
    (0x200C, 0x200D),  # joiners: a hint to the shape, not a letter
    (0x20D0, 0x20FF),
    (0xFE00, 0xFE0F),  # which shape of an emoji
    (0xFE20, 0xFE2F),
)
_ALONE = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x0F00, 0x0FFF),  # Tibetan
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x2FDF),  # radicals
    (0x3005, 0x3007),
    (0x3021, 0x30FF),  # Hiragana, Katakana
    (0x3100, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),  # Hangul: particles are written onto the word
    (0xF900, 0xFAFF),
    (0x1F000, 0x1FAFF),
    (0x20000, 0x3FFFF),
)
# Lines, blocks and dots that programs draw with: there are many and nobody looks for them.
_DRAWN = ((0x2500, 0x259F), (0x2800, 0x28FF))
_SIGNS = frozenset(["So", "Sm", "Sc", "Sk"])
_CACHE_MAX = 50_000


def fold(text: str) -> str:
    """The text as it is searched."""
    if text.isascii():
        return text.lower()
    return _FOREIGN.sub(_fold_run, text).lower()


def words_of(folded: str) -> list[str]:
    """The words of folded text, in order."""
    return _find_words(folded)


def original_spans(text: str, spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Where spans of the folded text are in the text itself; the spans must be in order."""
    if text.isascii():
        return list(spans)
    starts = _starts(text)
    return [(starts[begin], starts[end - 1] + 1) for begin, end in spans]


def _starts(text: str) -> list[int]:
    """For each character of the folded text, the place of the one it came from."""
    places: list[int] = []
    at = 0
    for run in _FOREIGN.finditer(text):
        places += range(at, run.start())
        for place, char in enumerate(run[0], run.start()):
            places += [place] * len(_TABLE[ord(char)])
        at = run.end()
    places += range(at, len(text))
    return places


def _fold_run(run: re.Match[str]) -> str:
    return run[0].translate(_TABLE)


class _Table(dict[int, str]):
    """What each character that is not ASCII becomes, found when it is first met."""

    def __missing__(self, code: int) -> str:
        found = _fold_char(chr(code))
        if len(self) < _CACHE_MAX:
            self[code] = found
        return found


_TABLE = _Table()


def _fold_char(char: str) -> str:
    code = ord(char)
    if _within(code, _DROPPED):
        return ""
    if _within(code, _DRAWN):
        return " "
    category = unicodedata.category(char)
    if category in _SIGNS or (_within(code, _ALONE) and category[0] in "LMNS"):
        return f" {char.lower()} "
    if category[0] not in "LMN":
        return " "
    # Accents go before the case does: some of them have one of their own.
    bare = _kept(unicodedata.normalize("NFKD", char)).casefold().lower()
    return _kept(unicodedata.normalize("NFKD", bare))


def _kept(parts: str) -> str:
    return "".join(map(_keep, parts))


def _keep(part: str) -> str:
    """One character of a letter that was taken apart."""
    if part.isascii():
        return part if part.isalnum() else " "
    if _within(ord(part), _DROPPED):
        return ""
    return part if unicodedata.category(part)[0] in "LMN" else " "


def _within(code: int, ranges: Iterable[tuple[int, int]]) -> bool:
    return any(first <= code <= last for first, last in ranges)
