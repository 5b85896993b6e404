"""Automatic tags: what a session is about, by its words, its tools and its files.

The method is the same for everyone and has no chance in it; docs/explanation/automatic-tags.md
tells it in full, and every tag can say why it was given.
"""

from __future__ import annotations

from math import log2
from typing import NamedTuple

import msgspec

from holdfast.catalog._marks import marks_of
from holdfast.catalog._tally import Tally
from holdfast.catalog._terms import words_of
from holdfast.catalog._vocabulary import KNOWN

__all__ = ["Topic", "auto_tags", "topics"]

TAGS_MAX = 3
_ASKED_WEIGHT = 1.5  # what the user says counts for more than what is answered
_TOOL_WEIGHT, _FILE_WEIGHT = 2.0, 1.0
_SCORE_MIN = 2.0
_SHARE_MIN = 0.4  # of the first tag's score: what is far behind is a side matter
_TERM_COUNT_MIN = 3
_WHY_PARTS_MAX = 4
# Tools that every agent has and uses for everything.
_GENERIC_TOOLS = frozenset({"bash", "shell", "terminal", "grep", "glob", "find", "read", "write"})


class Topic(msgspec.Struct, frozen=True):
    """A tag, what it was given for, and how strongly."""

    tag: str
    why: str
    score: float


class _Reason(NamedTuple):
    """One thing that speaks for a topic."""

    weight: float
    words: str


def auto_tags(tally: Tally) -> tuple[str, ...]:
    """The automatic tags of a session, the strongest first."""
    return tuple(topic.tag for topic in topics(tally))


def topics(tally: Tally, n: int = TAGS_MAX) -> list[Topic]:
    """What a session is about, the strongest first; of equals the first by name.

    If nothing in it is known, the words that the user said most.
    """
    reasons: dict[str, list[_Reason]] = {}
    _add_words(reasons, tally)
    _add_tools(reasons, tally)
    _add_files(reasons, tally)
    scored = sorted(
        (-sum(reason.weight for reason in found), tag) for tag, found in reasons.items()
    )
    if not scored or -scored[0][0] < _SCORE_MIN:
        return _frequent_terms(tally, n)
    enough = max(_SCORE_MIN, -scored[0][0] * _SHARE_MIN)
    return [
        Topic(tag, _why(reasons[tag]), round(-score, 2))
        for score, tag in scored[:n]
        if -score >= enough
    ]


def _add_words(reasons: dict[str, list[_Reason]], tally: Tally) -> None:
    for word in {**tally.asked, **tally.told}:
        asked, told = tally.asked.get(word, 0), tally.told.get(word, 0)
        times = _ASKED_WEIGHT * log2(1 + asked) + log2(1 + told)
        for topic, weight in KNOWN.get(word, {}).items():
            reason = _Reason(weight * times, f"{asked + told}x {word}")
            reasons.setdefault(topic, []).append(reason)


def _add_tools(reasons: dict[str, list[_Reason]], tally: Tally) -> None:
    for name, use in tally.tools().items():
        for word in sorted({*words_of(name)} - _GENERIC_TOOLS):
            for topic, weight in KNOWN.get(word, {}).items():
                times = _TOOL_WEIGHT * log2(1 + use.calls)
                reason = _Reason(weight * times, f"{use.calls}x the tool {name}")
                reasons.setdefault(topic, []).append(reason)


def _add_files(reasons: dict[str, list[_Reason]], tally: Tally) -> None:
    found: dict[tuple[str, str, float], int] = {}
    for path in tally.files:
        for mark in marks_of(path):
            found[mark] = found.get(mark, 0) + 1
    for (topic, pattern, weight), count in found.items():
        files = "file" if count == 1 else "files"
        reason = _Reason(_FILE_WEIGHT * weight * log2(1 + count), f"{count} {files} {pattern}")
        reasons.setdefault(topic, []).append(reason)


def _why(reasons: list[_Reason]) -> str:
    heaviest = sorted(reasons, key=lambda reason: (-reason.weight, reason.words))
    return ", ".join(reason.words for reason in heaviest[:_WHY_PARTS_MAX])


def _frequent_terms(tally: Tally, n: int) -> list[Topic]:
    often = sorted((-count, term) for term, count in tally.terms.items())
    return [
        Topic(term, f"{-count}x {term}", float(-count))
        for count, term in often[:n]
        if -count >= _TERM_COUNT_MIN
    ]
