"""Words of a text, counted quickly: those that the vocabulary knows, and those that stand out.

Only the beginning of a text is read, so that the cost of an event is bounded.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import filterfalse

from holdfast.catalog._data import data_lines, read_topics

# Words that tell what a session is about: each known word with the topics that it speaks for.


_DECISIVE, _STRONG, _USUAL, _WEAK = 6.0, 3.0, 1.5, 0.5
_ENDINGS = ("", "s", "es", "d", "ed", "ing", "er", "ers")
_DROPPED_E = ("ing", "ed", "er", "ers", "ation", "able")


def _forms(entry: str) -> Iterator[tuple[str, float]]:
    """The words that an entry of the vocabulary stands for, and how much each says."""
    word = entry.rstrip("!?")
    weight = {"": _USUAL, "?": _WEAK, "!": _STRONG, "!!": _DECISIVE}[entry[len(word) :]]
    stem = word.removesuffix("*")
    if stem == word:
        yield word, weight
        return
    for ending in _ENDINGS:
        yield stem + ending, weight
    if stem.endswith("e"):
        for ending in _DROPPED_E:
            yield stem[:-1] + ending, weight
    else:
        yield from ((stem + ending, weight) for ending in ("ion", "ions", "en", "e", "y", "ies"))
        yield from ((stem + stem[-1] + ending, weight) for ending in ("ing", "ed", "er"))


def _known() -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for words in (_TOPIC_WORDS, _CJK_WORDS):
        for topic, entries in words.items():
            for entry in entries:
                for form, weight in _forms(entry):
                    topics = found.setdefault(form, {})
                    topics[topic] = max(weight, topics.get(topic, 0.0))
    return found


_TOPIC_WORDS, _CJK_WORDS = read_topics("topics.txt"), read_topics("topics-cjk.txt")
KNOWN: dict[str, dict[str, float]] = _known()
"""By word: the topics that it speaks for, and how strongly."""

CJK: frozenset[str] = frozenset(
    entry.rstrip("!") for entries in _CJK_WORDS.values() for entry in entries
)
"""The words that are looked for inside a text."""

TOPICS: frozenset[str] = frozenset(_TOPIC_WORDS)
"""Every topic that a session can get."""


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
_is_known = KNOWN.__contains__
_STOPWORDS = frozenset(" ".join(data_lines("stopwords.txt")).split())
_is_skipped = (_STOPWORDS | KNOWN.keys()).__contains__
_CHARS_TOGETHER = 1 << 16
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


class Hearing:
    """Texts whose known words are counted together, which is quicker than one by one."""

    def __init__(self, counts: dict[str, int]) -> None:
        self._counts = counts
        self._plain: list[str] = []
        self._words: list[str] = []
        self._chars = 0

    def text(self, text: str) -> None:
        """Hear a text."""
        if not text.isascii():
            self._words += words_of(text)
            return
        self._plain.append(text)
        self._chars += len(text)
        if self._chars > _CHARS_TOGETHER:
            self.count()

    def words(self, words: list[str]) -> None:
        """Hear a text that was taken apart already."""
        self._words += words

    def count(self) -> None:
        """Count what was heard since the last time."""
        words = "\n".join(self._plain).translate(_TABLE).split()
        counts = self._counts
        for heard in (words, self._words):
            for word, times in Counter(filter(_is_known, heard)).items():
                counts[word] = counts.get(word, 0) + times
        self._plain, self._words, self._chars = [], [], 0


def count_terms(counts: dict[str, int], words: Iterable[str]) -> None:
    """Count the words that the vocabulary does not know and that may say what this is about."""
    for word in filterfalse(_is_skipped, words):
        if (
            TERM_CHARS_MIN <= len(word) <= TERM_CHARS_MAX
            and word.isalpha()
            # Without spaces a run of letters is half a sentence, and no word.
            and (word.isascii() or len(word) <= _CJK_TERM_CHARS_MAX or not _is_cjk(word))
        ):
            counts[word] = counts.get(word, 0) + 1


def keep_heaviest(counts: dict[str, int], most: int) -> dict[str, int]:
    """The counts, cut to half of ``most`` if there are more: the heaviest, of equals the first."""
    if len(counts) <= most:
        return counts
    heaviest = sorted(counts.items(), key=lambda item: -item[1])[: most // 2]
    return dict(heaviest)
