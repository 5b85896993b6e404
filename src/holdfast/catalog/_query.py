"""A person's query, parsed. Every text is a query; none is wrong.

    auth error              both words, in one event
    "could not connect"     these words in a row
    connect*                words with this prefix
    -debug                  not this
    login OR signin         one of them; OR binds closer than a space
    src/auth/login.py       literally, from the beginning of a word on
    *fast                   also inside words

A ``Query`` has two results: ``index_match``, an expression for the index that misses no matching
event, and ``spans``, which judges a text and is what counts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache

import msgspec

# Folded text for searching: small letters without accents, cut into words the same way everywhere.
# The index and the check of each hit both read folded text, so that they agree about what a word is. Folding handles
# one character at a time. In folded text every character that is not ASCII is part of a word, and SQLite's ``ascii``
# tokenizer cuts it into the same words as ``words_of`` does.
# Scripts without spaces between words, Hangul, emoji and signs such as ``→`` or ``€`` are cut into single characters:
# looking for several of them in a row then finds any part of a sentence.

# By the characters that are not in words: a class that names every other character takes milliseconds to compile.
WORD = "[^\x00-/:-`{-\x7f]"  # a character of a word in folded text, as a regular expression
NO_WORD = "[\x00-/:-`{-\x7f]"  # a character between words

words_of = re.compile(WORD + "+").findall  # returns the words of folded text, in order
_FOREIGN = re.compile("[^\x00-\x7f]+")
# Accents, and the points of Hebrew and Arabic that most people leave out.
_DROPPED = (
    (0x0300, 0x036F),
    (0x0591, 0x05C7),
    (0x0610, 0x061A),
    (0x0640, 0x0640),  # the lengthening of a letter
    (0x064B, 0x065F),
    (0x0670, 0x0670),
    (0x1AB0, 0x1AFF),
    (0x1DC0, 0x1DFF),
    (0x200C, 0x200D),  # joiners: a hint to the shape, not a letter
    (0x20D0, 0x20FF),
    (0xFE00, 0xFE0F),  # the variant of an emoji
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
    (0xAC00, 0xD7A3),  # Hangul: particles are attached to the word
    (0xF900, 0xFAFF),
    (0x1F000, 0x1FAFF),
    (0x20000, 0x3FFFF),
)
# Lines, blocks and dots that programs draw with: there are many and nobody searches for them.
_DRAWN = ((0x2500, 0x259F), (0x2800, 0x28FF))
_SIGNS = frozenset(["So", "Sm", "Sc", "Sk"])
_CACHE_MAX = 50_000


def fold(text: str) -> str:
    """Return the text in its searched form."""
    if text.isascii():
        return text.lower()
    return _FOREIGN.sub(lambda run: run[0].translate(_TABLE), text).lower()


def original_spans(text: str, spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return where spans of the folded text are in the text itself; the spans must be in order."""
    if text.isascii():
        return list(spans)
    # For each character of the folded text, the place of the one it came from.
    places: list[int] = []
    at = 0
    for run in _FOREIGN.finditer(text):
        places += range(at, run.start())
        for place, char in enumerate(run[0], run.start()):
            places += [place] * len(_TABLE[ord(char)])
        at = run.end()
    places += range(at, len(text))
    return [(places[begin], places[end - 1] + 1) for begin, end in spans]


class _Table(dict[int, str]):
    """The folded form of each character that is not ASCII, computed when it first occurs."""

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
    # Accents are removed before the case: some of them have a case of their own.
    return _taken_apart(_taken_apart(char).casefold().lower())


def _taken_apart(text: str) -> str:
    return "".join(map(_keep, unicodedata.normalize("NFKD", text)))


def _keep(part: str) -> str:
    """Return one character of a decomposed letter, folded."""
    if part.isascii():
        return part if part.isalnum() else " "
    if _within(ord(part), _DROPPED):
        return ""
    return part if unicodedata.category(part)[0] in "LMN" else " "


def _within(code: int, ranges: Iterable[tuple[int, int]]) -> bool:
    return any(first <= code <= last for first, last in ranges)


QUERY_CHARS_MAX = 1000
TERMS_MAX = 32
Span = tuple[int, int]

# A longer text is searched with a pattern.
_BY_HAND_CHARS_MAX = 1 << 13
_PIECE = re.compile(r'\s*(?:(-?)"([^"]*)(?:"(\*?)(?=\s|$)|$)|(\S+))')
_SENTENCE_END = ".,;:?!"
_is_word_char = re.compile(WORD).match
_rest_of_word = re.compile(WORD + "+").match
_gap_of_words = re.compile(NO_WORD + "+").match
_gap_of_space = re.compile(r"\s+").match
_SPACED = re.compile(r"[\s']+")


class Fts5:
    """The syntax of expressions for the full-text tables of SQLite."""

    def phrase(self, words: Iterable[str], *, ends_open: bool) -> str:
        """Return the expression for these words in a row, the last of which may be a prefix."""
        return f'"{" ".join(words)}"{"*" if ends_open else ""}'

    def any_of(self, expressions: Iterable[str]) -> str:
        """Return the expression for one of these; one that matches nothing if there are none."""
        found = list(expressions)
        if not found:
            return '""'
        return found[0] if len(found) == 1 else f"({' OR '.join(found)})"

    def all_of(self, expressions: Iterable[str]) -> str:
        return " AND ".join(expressions)

    def but_not(self, wanted: str, unwanted: str) -> str:
        return f"({wanted}) NOT {unwanted}"


FTS5 = Fts5()


class Term(msgspec.Struct, frozen=True):
    """One search term.

    ``literal`` must occur in the text, punctuation included; None asks only for the words
    in a row, whatever is between them.
    """

    words: tuple[str, ...]
    literal: str | None = None
    inside: bool = False  # whether it may begin inside a word
    prefix: bool = False  # whether the last word may go on

    def widened(self) -> Term:
        """Return the term, also inside words if that could find more."""
        first = (self.literal or self.words[0])[0]
        # A character that is a word by itself is found inside anything already.
        if self.inside or not _is_word_char(first) or fold(first).startswith(" "):
            return self
        return msgspec.structs.replace(self, inside=True, prefix=True)

    def spans(self, text: str) -> list[Span]:
        """Return where the term is in a folded text, from left to right, without overlaps."""
        if len(text) > _BY_HAND_CHARS_MAX:
            return [match.span() for match in _compiled(self).finditer(text)]
        # Without a pattern, which takes long to compile.
        first, *rest = self._parts()
        spans: list[Span] = []
        at = text.find(first)
        if at < 0:
            return spans
        bounded = self._is_bounded()
        while at >= 0:
            end: int | None = at + len(first)
            if bounded and at and _is_word_char(text, at - 1):
                end = None
            elif rest:
                end = _end_of_rest(text, at + len(first), rest, are_words=self.literal is None)
            if end is not None and _is_word_char(text, end - 1):
                end = self._end_of_word(text, end)
            if end is not None:
                spans.append((at, end))
            at = text.find(first, at + 1 if end is None else end)
        return spans

    def pattern(self) -> str:
        """Return a regular expression that finds the term in folded text."""
        parts = self._parts()
        first, *rest = map(re.escape, parts)
        if self._is_bounded():
            # Behind the first part, not before it: a pattern that begins with plain characters is found ten times as
            # fast.
            first += f"(?<!{WORD}{first})"
        between = f"{NO_WORD}+" if self.literal is None else r"\s+"
        body = between.join([first, *rest])
        if not _is_word_char(parts[-1][-1]):
            return body
        return body + (f"{WORD}*" if self.prefix else f"(?!{WORD})")

    def _parts(self) -> tuple[str, ...]:
        return self.words if self.literal is None else tuple(self.literal.split())

    def _is_bounded(self) -> bool:
        return not self.inside and self._begins_with_word()

    def _end_of_word(self, text: str, at: int) -> int | None:
        """Return where the word read up to here ends, if it may go on; else its end only if it is complete."""
        if not _is_word_char(text, at):
            return at
        rest = _rest_of_word(text, at) if self.prefix else None
        return None if rest is None else rest.end()

    def index_match(self, expand: Callable[[str, bool], list[str]], syntax: Fts5 = FTS5) -> str | None:
        """Return an expression for the index; None if it cannot help. ``expand`` knows longer words."""
        if not self.words:
            return None
        ends_open = self.prefix and bool(_is_word_char((self.literal or self.words[-1])[-1]))
        if not (self.inside and self._begins_with_word()):
            return syntax.phrase(self.words, ends_open=ends_open)
        first, *rest = self.words
        # Words that may go on are enumerated from the index; only the last one stays a prefix.
        found = expand(first, ends_open and not rest)
        return syntax.any_of(syntax.phrase([word, *rest], ends_open=ends_open and bool(rest)) for word in found)

    def _begins_with_word(self) -> bool:
        return self.literal is None or bool(_is_word_char(self.literal))


_compiled = lru_cache(maxsize=64)(lambda term: re.compile(term.pattern()))


class Query:
    """A query: one term of each group is required, and none of ``excluded``."""

    def __init__(self, groups: Iterable[tuple[Term, ...]] = (), excluded: Iterable[Term] = ()) -> None:
        self.groups = tuple(groups)
        self.excluded = tuple(excluded)

    def __bool__(self) -> bool:
        return bool(self.groups)

    def widened(self) -> Query | None:
        """Return this query, also inside words; None if that makes no difference."""
        groups = tuple(tuple(term.widened() for term in group) for group in self.groups)
        return None if groups == self.groups else Query(groups, self.excluded)

    def index_match(self, expand: Callable[[str, bool], list[str]], syntax: Fts5 = FTS5) -> str | None:
        """Return an expression for the index that every matching event fulfils; None if all must be read."""
        wanted = []
        for group in self.groups:
            found = [term.index_match(expand, syntax) for term in group]
            if None not in found:
                wanted.append(syntax.any_of(part for part in found if part is not None))
        if not wanted:
            return None
        expression = syntax.all_of(wanted)
        # For other terms the index alone cannot tell that a text matches.
        exact = [term for term in self.excluded if term.literal is None and not term.inside]
        unwanted = [match for term in exact if (match := term.index_match(expand, syntax)) is not None]
        return syntax.but_not(expression, syntax.any_of(unwanted)) if unwanted else expression

    @cached_property
    def raw_hint(self) -> bytes | None:
        """Return bytes that are in the line of every matching event, unless its JSON escapes them."""
        for group in self.groups:
            literal = group[0].literal if len(group) == 1 else None
            if literal is not None and _is_plain_sign(literal):
                return literal.encode()
        return None

    def spans(self, text: str) -> list[Span] | None:
        """Return where the terms are in a folded text, in order; None if the text does not match."""
        if any(term.spans(text) for term in self.excluded):
            return None
        spans: list[Span] = []
        for group in self.groups:
            found = [span for term in group for span in term.spans(text)]
            if not found:
                return None
            spans += found
        # The spans in order, merged where they touch or overlap; empty ones left out.
        if len(spans) == 1:
            return spans
        merged: list[Span] = []
        for begin, end in sorted(spans):
            if merged and begin <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((begin, end))
        return merged


# Signs that have no case, and that JSON writes as they are or as \uXXXX.
_is_plain_sign = re.compile(r"[!#$%&()*+,\-.:;<=>?@\[\]^_`{|}~]+\Z").match


@lru_cache(maxsize=64)
def read_query(typed: str) -> Query:
    """Return the query that a person typed. Never raises about its content."""
    groups: list[tuple[Term, ...]] = []
    excluded: list[Term] = []
    pieces = list(_pieces(typed[:QUERY_CHARS_MAX]))[: 2 * TERMS_MAX]
    joins = False
    for number, (minus, term, is_or) in enumerate(pieces):
        if is_or and groups and not joins and any(one[1] and not one[0] for one in pieces[number + 1 : number + 2]):
            joins = True
        elif term is None or len(groups) + len(excluded) >= TERMS_MAX:
            continue
        elif minus:
            excluded.append(term)
        elif joins:
            groups[-1] += (term,)
            joins = False
        else:
            groups.append((term,))
    return Query(groups, excluded)


def _pieces(typed: str) -> Iterator[tuple[bool, Term | None, bool]]:
    """Yield (whether it is excluded, the term, whether it is the word OR) for each piece."""
    for minus, quoted, star, plain in _PIECE.findall(typed):
        if not plain:
            yield bool(minus), _term(fold(quoted), words_open=bool(star), literal_open=bool(star)), False
        elif plain.startswith("-") and _is_word_char(fold(plain[1:2]).strip() or " "):
            yield True, _plain_term(plain[1:]), False
        else:
            yield False, _plain_term(plain), plain == "OR"


def _plain_term(typed: str) -> Term | None:
    """Return a term between spaces."""
    inside = len(typed) > 1 and typed.startswith("*") and bool(words_of(fold(typed)))
    body = typed.lstrip("*") if inside else typed
    prefix = body.endswith("*") and bool(words_of(fold(body)))
    folded = fold(body.rstrip("*") if prefix else body)
    if words_of(folded):
        folded = folded.rstrip(_SENTENCE_END)
    return _term(folded, words_open=prefix or inside, literal_open=True, inside=inside)


def _term(folded: str, *, words_open: bool, literal_open: bool, inside: bool = False) -> Term | None:
    """Return the term of a piece of a query, as words or literally, and whether its last word may go on."""
    words = tuple(words_of(folded))
    # Anything more than words, spaces and apostrophes is searched literally.
    if words and all(map(_is_word_char, _SPACED.sub("", folded))):
        return Term(words, inside=inside, prefix=words_open)
    literal = folded.strip()
    return Term(words, literal, inside=inside, prefix=literal_open) if literal else None


def _end_of_rest(text: str, at: int, rest: list[str], *, are_words: bool) -> int | None:
    """Return where the last of these parts ends, if each follows the one before it; else None."""
    gap = _gap_of_words if are_words else _gap_of_space
    for part in rest:
        between = gap(text, at)
        if between is None or not text.startswith(part, between.end()):
            return None
        at = between.end() + len(part)
    return at
