"""Automatic tags: the subject of a session, by its words, its tools and its files.

The method is the same for everyone and deterministic; docs/explanation/automatic-tags.md
describes it completely, and every tag comes with its reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import chain, filterfalse
from math import log2
from typing import TYPE_CHECKING

import msgspec

from holdfast._lazy import lazy_pattern
from holdfast.catalog._data import data_lines, read_topics

if TYPE_CHECKING:
    from holdfast.catalog._tally import Tally

TAGS_MAX = 3
_ASKED_WEIGHT = 1.5  # the user's words count for more than the answers
_TOOL_WEIGHT, _FILE_WEIGHT = 2.0, 1.0
_SCORE_MIN = 2.0
_SHARE_MIN = 0.4  # of the first tag's score: what is far behind is a side issue
_TERM_COUNT_MIN = 3
_WHY_PARTS_MAX = 4
# Tools that every agent has and uses for everything.
_GENERIC_TOOLS = frozenset({"bash", "shell", "terminal", "grep", "glob", "find", "read", "write"})


class Topic(msgspec.Struct, frozen=True):
    """A tag, its reason, and its strength."""

    tag: str
    why: str
    score: float


def auto_tags(tally: Tally) -> tuple[str, ...]:
    """Return the automatic tags of a session, the strongest first."""
    return tuple(topic.tag for topic in topics(tally))


def topics(tally: Tally, n: int = TAGS_MAX) -> list[Topic]:
    """Return the topics of a session, the strongest first; if none is known, the user's most frequent words."""
    reasons: dict[str, list[tuple[float, str]]] = {}
    for topic, weight, words in _reasons(tally):
        reasons.setdefault(topic, []).append((-weight, words))
    scored = sorted((sum(weight for weight, _ in found), tag) for tag, found in reasons.items())
    if not scored or -scored[0][0] < _SCORE_MIN:
        often = sorted((-count, term) for term, count in tally.terms.items())[:n]
        return [Topic(term, f"{-count}x {term}", float(-count)) for count, term in often if -count >= _TERM_COUNT_MIN]
    enough = max(_SCORE_MIN, -scored[0][0] * _SHARE_MIN)
    return [
        Topic(tag, ", ".join(words for _, words in sorted(reasons[tag])[:_WHY_PARTS_MAX]), round(-score, 2))
        for score, tag in scored[:n]
        if -score >= enough
    ]


def _reasons(tally: Tally) -> Iterator[tuple[str, float, str]]:
    """Yield the evidence for topics: the topic, its weight, and the words to report."""
    known = vocabulary().known
    for word in {**tally.asked, **tally.told}:
        asked, told = tally.asked.get(word, 0), tally.told.get(word, 0)
        times = _ASKED_WEIGHT * log2(1 + asked) + log2(1 + told)
        for topic, weight in known.get(word, {}).items():
            yield topic, weight * times, f"{asked + told}x {word}"
    for name, use in tally.tools().items():
        times = _TOOL_WEIGHT * log2(1 + use.calls)
        for word in sorted({*words_of(name)} - _GENERIC_TOOLS):
            for topic, weight in known.get(word, {}).items():
                yield topic, weight * times, f"{use.calls}x the tool {name}"
    marks = Counter(mark for path in tally.files for mark in marks_of(path))
    for (topic, pattern, weight), count in marks.items():
        yield topic, _FILE_WEIGHT * weight * log2(1 + count), f"{count} {'file' if count == 1 else 'files'} {pattern}"


# What the name of a file says about the work: its kind, its place, its language.
Mark = tuple[str, str, float]  # a topic, the pattern of names that indicates it, and its weight


@cache
def _paths() -> list[tuple[str, list[str], Mark]]:
    # Expressions are compiled when a hint matches: a command about one session meets few.
    return [
        (expression, hints.split(), (topic, shown, float(weight)))
        for line in data_lines("paths.txt")
        for topic, weight, shown, hints, expression in [line.split("\t")]
    ]


@cache
def _kinds() -> dict[str, list[tuple[str, float]]]:
    """Return by ending of a file's name: topics, and their weights."""
    return {
        ending: list(zip(said[::2], map(float, said[1::2]), strict=True))
        for ending, *said in map(str.split, data_lines("endings.txt"))
    }


@lru_cache(maxsize=1024)
def marks_of(path: str) -> tuple[Mark, ...]:
    """Return the topics that the path of a file indicates."""
    path = path.replace("\\", "/")
    low = path.lower()
    found = [
        mark
        for expression, hints, mark in _paths()
        if any(hint in low for hint in hints) and re.search(expression, path, re.IGNORECASE)
    ]
    kind = low.rpartition(".")[2]
    found += [(topic, f"*.{kind}", weight) for topic, weight in _kinds().get(kind, ())]
    return tuple(found)


# Words of a text, counted quickly: those of the vocabulary, and those that stand out.
# Only the beginning of a text is read, so that the cost of an event is bounded.
# Words that indicate the subject of a session: each known word with its topics.
_WEIGHTS = {"!!": 6.0, "!": 3.0, "": 1.5, "?": 0.5}  # by the mark at the end of an entry
_ENDINGS = ("", "s", "es", "d", "ed", "ing", "er", "ers")
_DROPPED_E = ("ing", "ed", "er", "ers", "ation", "able")
_NOUN_ENDINGS = ("ion", "ions", "en", "e", "y", "ies")


def _forms(word: str) -> list[str]:
    """Return the forms of a word of the vocabulary: one that ends with ``*`` is inflected."""
    stem = word.removesuffix("*")
    if stem == word:
        return [word]
    forms = [stem + ending for ending in _ENDINGS]
    if stem.endswith("e"):
        return forms + [stem[:-1] + ending for ending in _DROPPED_E]
    last = stem[-1]
    return forms + [stem + ending for ending in (*_NOUN_ENDINGS, last + "ing", last + "ed", last + "er")]


class Vocabulary(msgspec.Struct, frozen=True):
    """The words that indicate the subject of a session."""

    known: dict[str, dict[str, float]]
    """By word: its topics, and their weights."""
    skipped: frozenset[str]
    """The known words and the stop words: none of them is counted as a term."""
    cjk: re.Pattern[str]
    """The words that are searched inside a text."""


@cache  # built when first needed: a command that counts no words has no use for it
def vocabulary() -> Vocabulary:
    """Return the vocabulary in ``data/``."""
    plain, cjk = read_topics("topics.txt"), read_topics("topics-cjk.txt")
    known: dict[str, dict[str, float]] = {}
    for topic, entries in (*plain.items(), *cjk.items()):
        for entry in entries:
            word = entry.rstrip("!?")
            weight = _WEIGHTS[entry[len(word) :]]
            for form in _forms(word):
                if (weights := known.get(form)) is None:
                    known[form] = {topic: weight}
                elif weights.get(topic, 0.0) < weight:
                    weights[topic] = weight
    skipped = known.keys() | " ".join(data_lines("stopwords.txt")).split()
    inside = {re.escape(entry.rstrip("!")) for entry in chain.from_iterable(cjk.values())}
    return Vocabulary(known, frozenset(skipped), lazy_pattern("|".join(sorted(inside, key=len, reverse=True))))


TERM_CHARS_MIN, TERM_CHARS_MAX = 4, 24
_CJK_TERM_CHARS_MAX = 6

# One pass over an ASCII text: small letters, and a space for anything that is neither letter nor digit.
_FOLD = {
    code: " " if not chr(code).isalnum() else chr(code).lower()
    for code in range(127)
    if not chr(code).isalnum() or chr(code).isupper()
}
_KEPT = {"+": "+", "#": "#"}  # c++, c#
_TABLE = {**_FOLD, **{ord(sign): kept for sign, kept in _KEPT.items()}}
_CHARS_TOGETHER = 1 << 16
_WORD = re.compile(r"[^\W_]+")
_CJK = lazy_pattern("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")  # so large a class takes long to compile


def words_of(text: str) -> list[str]:
    if text.isascii():
        return text.translate(_TABLE).split()
    text = text.lower()
    words = _WORD.findall(text)
    if _CJK.search(text):
        words += vocabulary().cjk.findall(text)
    return words


class Hearing:
    """Texts whose known words are counted together, which is faster than one by one."""

    def __init__(self, counts: dict[str, int]) -> None:
        self._counts = counts
        self._plain: list[str] = []
        self._words: list[str] = []
        self._chars = 0

    def text(self, text: str) -> None:
        if not text.isascii():
            self._words += words_of(text)
            return
        self._plain.append(text)
        self._chars += len(text)
        if self._chars > _CHARS_TOGETHER:
            self.count()

    def words(self, words: list[str]) -> None:
        self._words += words

    def count(self) -> None:
        words = "\n".join(self._plain).translate(_TABLE).split()
        for heard in filter(None, (words, self._words)):
            for word, times in Counter(filter(vocabulary().known.__contains__, heard)).items():
                self._counts[word] = self._counts.get(word, 0) + times
        self._plain, self._words, self._chars = [], [], 0


def count_terms(counts: dict[str, int], words: Iterable[str]) -> None:
    """Count the words that are not in the vocabulary and may indicate the subject."""
    for word in filterfalse(vocabulary().skipped.__contains__, words):
        if (
            TERM_CHARS_MIN <= len(word) <= TERM_CHARS_MAX
            and word.isalpha()
            # Without spaces a run of letters is half a sentence, and not a word.
            and (word.isascii() or len(word) <= _CJK_TERM_CHARS_MAX or not _CJK.search(word))
        ):
            counts[word] = counts.get(word, 0) + 1


def keep_heaviest(counts: dict[str, int], most: int) -> dict[str, int]:
    """Return the counts, cut to half of ``most`` if there are more: the largest, of equals the first."""
    if len(counts) <= most:
        return counts
    return dict(sorted(counts.items(), key=lambda item: -item[1])[: most // 2])
