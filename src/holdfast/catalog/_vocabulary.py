"""Words that tell what a session is about: each known word with the topics that it speaks for."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.catalog._topic_words import TOPIC_WORDS
from holdfast.catalog._topic_words_cjk import CJK_WORDS

__all__ = ["CJK", "KNOWN", "TOPICS"]

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
    for words in (TOPIC_WORDS, CJK_WORDS):
        for topic, entries in words.items():
            for entry in entries.split():
                for form, weight in _forms(entry):
                    topics = found.setdefault(form, {})
                    topics[topic] = max(weight, topics.get(topic, 0.0))
    return found


KNOWN: dict[str, dict[str, float]] = _known()
"""By word: the topics that it speaks for, and how strongly."""

CJK: frozenset[str] = frozenset(
    entry.rstrip("!") for entries in CJK_WORDS.values() for entry in entries.split()
)
"""The words that are looked for inside a text."""

TOPICS: frozenset[str] = frozenset(TOPIC_WORDS)
"""Every topic that a session can get."""
