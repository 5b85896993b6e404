"""Words as PostgreSQL keeps and finds them: our own words, none of its own making. Pure.

PostgreSQL never cuts a text into words here, since every server does that a little differently.
It gets the words of the folded text with their places, so that it finds what SQLite finds.

What it cannot keep is marked by words in capitals, which no folded text has:

    LONG    the places of the words are not kept: there are too many
    GIANT   a word is longer than can be kept; its beginning is
    HUGE    there are too many words altogether: none is kept

Such an event is offered more often than needed, and left out again when its log is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from holdfast.catalog._folding import fold, words_of
from holdfast.catalog._query import Fts5, Query

__all__ = ["GIANT", "Vector", "indexable", "match_of", "vector_of"]

_WORD_CHARS_MAX = 500
"""So much of a word is kept: at most 2,000 bytes, of 2,046 that PostgreSQL takes."""
GIANT = "GIANT"

_PLACES_MAX = 16_383
_PLACES_OF_ONE_MAX = 255
_BYTES_MAX = 900_000
_CHARS_SURELY_FEW = 60_000
_NOTHING = "'NOTHING'"


class Tsquery(Fts5):
    """How an expression is written for PostgreSQL. Words hold nothing that would end a quote."""

    def phrase(self, words: Iterable[str], *, ends_open: bool) -> str:
        """In a row; where the places are not known, all of them somewhere."""
        parts = [f"'{word[:_WORD_CHARS_MAX]}'" for word in words]
        if ends_open:
            parts[-1] += ":*"
        if len(parts) == 1:
            return parts[0]
        return f"({' <-> '.join(parts)} | 'LONG' & {' & '.join(parts)})"

    def any_of(self, expressions: Iterable[str]) -> str:
        """Joined by ``|``."""
        found = list(expressions)
        return f"({' | '.join(found)})" if found else _NOTHING

    def all_of(self, expressions: Iterable[str]) -> str:
        """Joined by ``&``."""
        return " & ".join(expressions)

    def but_not(self, wanted: str, unwanted: str) -> str:
        """Joined by ``& !``."""
        return f"({wanted}) & !{unwanted}"


def match_of(query: Query, expand: Callable[[str, bool], list[str]]) -> str | None:
    """The query for PostgreSQL; None if every event has to be read."""
    # Of what is not wanted only what is known for certain may count.
    certain = [term for term in query.excluded if indexable(term.words)]
    match = Query(query.groups, certain).index_match(expand, Tsquery())
    return None if match is None else f"({match}) | 'HUGE'"


def indexable(words: tuple[str, ...]) -> bool:
    """Whether the index alone knows where these words are."""
    return len(words) == 1 and len(words[0]) < _WORD_CHARS_MAX


class Vector(msgspec.Struct, frozen=True):
    """The words of a text as PostgreSQL reads them."""

    text: str
    words: frozenset[str]
    """Those that can be found by a part of them; others are by their marks."""


def vector_of(text: str) -> Vector:
    """The words of a text that is to be found."""
    words = words_of(fold(text))
    places: dict[str, list[int]] = {}
    for number, word in enumerate(words, 1):
        places.setdefault(word[:_WORD_CHARS_MAX], []).append(number)
    has_giant = any(len(word) >= _WORD_CHARS_MAX for word in places)
    is_long = (
        has_giant
        or len(words) > _PLACES_MAX
        or max(map(len, places.values()), default=0) > _PLACES_OF_ONE_MAX
    )
    if len(text) > _CHARS_SURELY_FEW:
        size = sum(len(word.encode()) + 4 for word in places)
        if size > _BYTES_MAX:
            return Vector("'HUGE'", frozenset())
        is_long = is_long or size + 2 * len(words) > _BYTES_MAX
    if is_long:
        marks = " 'LONG' 'GIANT'" if has_giant else " 'LONG'"
        kept = " ".join(f"'{word}'" for word in places) + marks
    else:
        kept = " ".join(f"'{word}':{','.join(map(str, at))}" for word, at in places.items())
    whole = frozenset(places)
    return Vector(kept, frozenset(filter(_is_whole, whole)) if has_giant else whole)


def _is_whole(word: str) -> bool:
    return len(word) < _WORD_CHARS_MAX
