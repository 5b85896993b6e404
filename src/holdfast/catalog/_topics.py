"""Automatic tags: what a session is about, by its words, its tools and its files.

The method is the same for everyone and has no chance in it; docs/explanation/automatic-tags.md
tells it in full, and every tag can say why it was given.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import log2
from typing import NamedTuple

import msgspec

from holdfast.catalog._tally import Tally
from holdfast.catalog._terms import KNOWN, words_of

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


# What the name of a file says about the work: its kind, its place, its language.


Mark = tuple[str, str, float]
"""A topic, the pattern of names that speaks for it, and how strongly."""

_PLACES: tuple[tuple[re.Pattern[str], Mark], ...] = tuple(
    (re.compile(expression, re.IGNORECASE), (topic, pattern, weight))
    for expression, topic, pattern, weight in (
        (r"(^|/)test_[^/]*\.py$|_test\.(py|go)$", "testing", "test_*", 4.0),
        (r"\.(spec|test)\.[jt]sx?$", "testing", "*.spec.*", 4.0),
        (r"(Test|Spec|Tests)\.(java|kt|cs|scala|swift)$", "testing", "*Test.*", 4.0),
        (r"(^|/)(tests?|e2e|__tests__|spec)/", "testing", "tests/*", 2.0),
        (r"(^|/)conftest\.py$", "testing", "conftest.py", 3.0),
        (r"(^|/)(readme|changelog|contributing)[^/]*$", "docs", "README and its kin", 4.0),
        (r"(^|/)docs?/", "docs", "docs/*", 3.0),
        (r"(^|/)(dockerfile|docker-compose|compose\.ya?ml|chart\.yaml)", "devops", "Docker", 4.0),
        (r"(^|/)(\.github/workflows|helm|k8s|ansible|terraform)/", "devops", "deployment/*", 4.0),
        (r"(^|/)\.gitlab-ci\.yml$|(^|/)jenkinsfile$", "devops", "CI", 4.0),
        (r"(^|/)migrat(e|ions?)/", "database", "migrations/*", 4.0),
        (r"(^|/)(components?|pages|templates)/", "frontend", "components/*", 2.0),
        (r"(^|/)openapi[^/]*$|(^|/)api/", "api", "api/*", 2.5),
        (r"(^|/)podfile$|(^|/)(ios|android)/", "mobile", "ios/*, android/*", 4.0),
    )
)
_KINDS: dict[str, tuple[tuple[str, float], ...]] = {
    "tsx": (("frontend", 3.0), ("typescript", 1.2)),
    "jsx": (("frontend", 3.0), ("javascript", 1.2)),
    "vue": (("frontend", 3.0),),
    "svelte": (("frontend", 3.0),),
    "css": (("frontend", 3.0),),
    "scss": (("frontend", 3.0),),
    "html": (("frontend", 2.0),),
    "sql": (("database", 3.0),),
    "md": (("docs", 1.5),),
    "rst": (("docs", 2.0),),
    "tf": (("devops", 4.0),),
    "csv": (("data-analysis", 3.0),),
    "parquet": (("data-analysis", 3.0),),
    "xlsx": (("data-analysis", 3.0),),
    "ipynb": (("data-analysis", 3.0), ("python", 1.2)),
    "gd": (("game-development", 4.0),),
    "tscn": (("game-development", 4.0),),
    "dart": (("mobile", 3.0),),
    "swift": (("mobile", 2.0), ("swift", 1.2)),
    "kt": (("mobile", 1.5), ("kotlin", 1.2)),
    "ino": (("embedded", 4.0),),
    "svg": (("design", 2.5),),
    "tex": (("writing", 2.5),),
    "sh": (("shell", 2.0),),
    "py": (("python", 1.2),),
    "rs": (("rust", 1.2),),
    "go": (("go", 1.2),),
    "java": (("java", 1.2),),
    "js": (("javascript", 1.2),),
    "ts": (("typescript", 1.2),),
    "c": (("c", 1.2),),
    "cpp": (("c++", 1.2),),
    "cs": (("c#", 1.2),),
    "rb": (("ruby", 1.2),),
    "php": (("php", 1.2),),
}


# Texts of which a path has one wherever the expression of that number finds something: looking for
# them is ten times as fast.
_HINTS: tuple[tuple[str, int], ...] = tuple(
    (hint, number)
    for number, hints in enumerate(
        (
            ("test_", "_test."),
            (".spec.", ".test."),
            ("test.", "spec.", "tests."),
            ("test/", "tests/", "e2e/", "__tests__/", "spec/"),
            ("conftest.py",),
            ("readme", "changelog", "contributing"),
            ("doc/", "docs/"),
            ("dockerfile", "docker-compose", "compose.y", "chart.yaml"),
            ("workflows/", "helm/", "k8s/", "ansible/", "terraform/"),
            (".gitlab-ci.yml", "jenkinsfile"),
            ("migrate/", "migration/", "migrations/"),
            ("component/", "components/", "pages/", "templates/"),
            ("openapi", "api/"),
            ("podfile", "ios/", "android/"),
        )
    )
    for hint in hints
)


@lru_cache(maxsize=1024)
def marks_of(path: str) -> tuple[Mark, ...]:
    """What the path of a file speaks for."""
    path = path.replace("\\", "/")
    low = path.lower()
    likely = sorted({number for hint, number in _HINTS if hint in low})
    found = [_PLACES[number][1] for number in likely if _PLACES[number][0].search(path)]
    kind = low.rpartition(".")[2]
    found += [(topic, f"*.{kind}", weight) for topic, weight in _KINDS.get(kind, ())]
    return tuple(found)
