"""Words of a text, counted quickly: those that the vocabulary knows, and those that stand out.

Only the beginning of a text is read, so that the cost of an event is bounded.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable

from holdfast.catalog._vocabulary import CJK, KNOWN, STOPWORDS

__all__ = ["count_known", "count_terms", "keep_heaviest", "words_of"]

TERM_CHARS_MIN, TERM_CHARS_MAX = 4, 24
_CJK_TERM_CHARS_MAX = 6

# One pass over an ASCII text: small letters, and a space for whatever is neither letter nor digit.
_FOLD = {
    code: " " if not chr(code).isalnum() else chr(code).lower()
    for code in map(ord, string.printable)
    if not chr(code).isalnum() or chr(code).isupper()
} | dict.fromkeys(range(32), " ")
_KEPT = {"+": "+", "#": "#"}  # c++, c#
_TABLE = {**_FOLD, **{ord(sign): kept for sign, kept in _KEPT.items()}}
_WORD = re.compile(r"[^\W_]+")
_find_cjk = re.compile("|".join(sorted(map(re.escape, CJK), key=len, reverse=True))).findall
_is_cjk = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]").search


def words_of(text: str) -> list[str]:
    """The words of a text in small letters."""
    if text.isascii():
        return text.translate(_TABLE).split()
    text = text.lower()
    words = _WORD.findall(text)
    if _is_cjk(text):
        words += _find_cjk(text)
    return words


def count_known(counts: dict[str, int], words: Iterable[str]) -> None:
    """Count the words that the vocabulary knows."""
    for word in filter(KNOWN.__contains__, words):
        counts[word] = counts.get(word, 0) + 1


def count_terms(counts: dict[str, int], words: Iterable[str]) -> None:
    """Count the words that the vocabulary does not know and that may say what this is about."""
    for word in words:
        if (
            TERM_CHARS_MIN <= len(word) <= TERM_CHARS_MAX
            and word not in KNOWN
            and word not in STOPWORDS
            and word.isalpha()
            and not (len(word) > _CJK_TERM_CHARS_MAX and _is_cjk(word))
        ):
            counts[word] = counts.get(word, 0) + 1


def keep_heaviest(counts: dict[str, int], most: int) -> dict[str, int]:
    """The counts, cut to half of ``most`` if there are more: the heaviest, of equals the first."""
    if len(counts) <= most:
        return counts
    heaviest = sorted(counts.items(), key=lambda item: -item[1])[: most // 2]
    return dict(heaviest)
