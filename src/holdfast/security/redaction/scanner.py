"""Finding secrets in text, quickly: where could one be, which rules ask, are they right.

Ordinary text is looked at once, for runs of signs that could be a secret and for a few tell-tale
words. Only what is near such a place is compared with the words of the rules, and only a rule whose
word is there is tried. Every step is linear in the length of the text.
"""

from __future__ import annotations

import base64
import binascii
import html
import json
import math
import re
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from holdfast.security.redaction.rules import Rule, RuleSet, has_checksum, standard_rules

MARK_BEGIN = "[secret:"
UNSCANNED = "unscanned"  # what marks have in the place of a rule where there was no time to ask the rules
_LONG_WORD = re.compile(r"[a-z]{20}|[A-Z]{20}")
_RUN_MIN = 10
_TOKEN_SIGNS = frozenset(b"_+/=~.-" + bytes(i for i in range(128) if chr(i).isalnum()))
# Every sign of a token as "a", all others as a blank: runs are then found without looking twice.
_AS_RUNS = bytes(ord("a") if sign in _TOKEN_SIGNS else ord(" ") for sign in range(256))
_AS_LETTERS = bytes(ord("a") if chr(sign).isalpha() and sign < 128 else ord(" ") for sign in range(256))
_AS_DIGITS = bytes(ord("1") if chr(sign) in "0123456789" else ord(" ") for sign in range(256))
_AS_WORDS = bytes(sign if sign in b"abcdefghijklmnopqrstuvwxyz0123456789_.~-" else ord(" ") for sign in range(256))
_RUN = re.compile(b"a" * _RUN_MIN + b"a*+")
_MIXED_MIN = 14
_GLANCE_MIXED_MIN = 12
_WORD_MIN = 20
_LETTERS = b"a" * _WORD_MIN
_BASE64_MIN = 24
_BEFORE = 72
_AFTER = 8
_RUN_MAX = 16_384
_EDGE = 1_024
_ANCHORS = tuple(
    b":// passw passphrase passcode pwd cookie secret _key contribsys sshpass openssl mysql curl wget docker".split()
)
_ANCHOR_BEFORE = 48
_ANCHOR_AFTER = 240
# In a window that has no end, rules are tried in the neighbourhood of their words only.
_WIDE = 1 << 17
_BLOCK_BITS = 13
_BLOCK_BEFORE = 4_096
_PEM = "-----BEGIN"
_PEM_END = "-----END"
_PEM_BYTES = _PEM.encode()
_PEM_MAX = 65_536
_MIB = 1 << 20
_BUDGET_S = 0.25
_TOKEN_MIN = 36
_QUOTES = "\"'`"

# What a rule that goes by names calls irregular, in recorded JSON, where a quote that has no
# backslash begins or ends a text. A number that stands by itself is nothing. The first class is of
# signs that words seldom have: the search goes from one of them to the next.
_IRREGULAR_SIGN = re.compile(
    rb"[0-9!#$%^&*~A-Z](?:"
    rb"(?<![0-9A-Z])"  # a sign
    rb"|(?<=[a-z][A-Z])(?:[A-Z]+[a-z]|())"  # capitals within a word; one, as in names
    rb"|(?<=[0-9])(?:(?<![\s\"0-9.,:][0-9])(?<!\\n[0-9])|(?<=[^0-9][.,:][0-9])"  # no number begins
    rb"|(?![0-9\s\".,:]|\\n)|(?=[.,:](?![0-9\s\"]|\\n))))"  # ends none
)


class SecretSpan(NamedTuple):
    """A secret: from where to where in the text, and the rule that found it."""

    start: int
    stop: int
    rule: str
    guess: bool = False
    """Whether only its name and looks speak for it."""


class ScanResult(NamedTuple):
    """What a look at a text gave.

    ``unscanned`` is how much of its end there was no time for: the last span covers that, as if it were a secret.
    """

    spans: list[SecretSpan]
    unscanned: int = 0


_Hit = tuple[int, int, bool, str]  # from where to where, whether it is a guess, the rule


class Scanner:
    """Finds secrets by rules, and known values wherever they stand. Any thread may use it.

    ``values`` are such values, each with the word that its marks have in the place of a rule. The
    budget is of computing time: on a machine that is busy with other things nothing is left out.
    """

    def __init__(
        self,
        *,
        rules: RuleSet | None = None,
        more: Sequence[Rule] = (),
        values: Mapping[str, str] | None = None,
        seconds_per_mib: float = 1.0,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._own_rules = rules
        self._more = [(rule, re.compile(rule.regex, re.ASCII)) for rule in more]
        forms = {form: rule for value, rule in (values or {}).items() for form in forms_of(value)}
        self._values = sorted(forms.items(), key=lambda one: -len(one[0]))
        # Values that a glance would pass over. One that JSON changes cannot be seen at a glance.
        coded = [value.encode("utf-8", "replace") for value, _ in self._values]
        self._glance_values = [value for value in coded if _NUMBER.match(value.decode()) or not _may_hold(value)]
        self._is_seen = not more and all(map(reads_the_same, values or ()))
        self._seconds_per_mib = seconds_per_mib
        self._clock = clock

    @cached_property
    def _rules(self) -> RuleSet:
        """Made when a glance does not tell: most of what is recorded never asks for them."""
        return standard_rules() if self._own_rules is None else self._own_rules

    @cached_property
    def _rare(self) -> list[bytes]:
        return [word for word in self._rules.by_word if word.translate(_AS_WORDS) != word]

    def is_clean(self, recorded: bytes) -> bool:
        """Whether a glance at JSON tells that no secret can be in it; False if it needs a look.

        Every rule needs a sign that words do not have, or a long run of signs: most of what people
        and models write has neither, and is passed without a rule being asked.
        """
        if not self._is_seen or _may_hold(recorded):
            return False
        return not any(value in recorded for value in self._glance_values)

    def knows(self, text: str) -> bool:
        """Whether one of the known values stands in a text."""
        return any(value in text for value, _ in self._values)

    def knows_number(self, text: str) -> bool:
        """Whether a number is one of the known values."""
        return any(value == text for value, _ in self._values)

    def find(self, text: str, *, end: float | None = None) -> ScanResult:
        """All secrets in a text, in order, none overlapping; also in base64, unless it is the inside of some.

        The time depends on the length alone, whatever the text is: ``end`` is when it is up. What there was no time
        for counts as a secret from its first to its last character.
        """
        deep = end is None
        end = self._clock() + _BUDGET_S + self._seconds_per_mib * len(text) / _MIB if end is None else end
        escaped = without_breaks(text)
        text = unescaped(escaped)
        hits: list[_Hit] = []
        hits += self._known_values(text)
        hits += self._by_more(text)
        # One byte for each character, so that places are the same in both.
        lowered = text.encode("latin-1", "replace").lower()
        windows, long = _places(text, lowered)
        seen = self._in_windows(text, lowered, windows, hits, end)
        if long and seen == len(text):
            hits += self._by_look(text, long)
            if deep:
                seen = self._in_base64(text, long, hits, end)
        if seen < len(text):
            hits.append((seen, len(text), True, UNSCANNED))
        spans = _settled(hits, text)
        unscanned = len(text) - seen
        if spans and len(text) < len(escaped):
            # Where these places of ``unescaped(text)`` are in the text itself, with the backslashes before them.
            where, totals, total = [], [0], 0
            for match in _ESCAPED.finditer(escaped):
                start, stop = match.span()
                where.append(start - total)
                total += stop - start
                totals.append(total)
            moved = [
                (start + totals[bisect_left(where, start)], stop + totals[bisect_right(where, stop - 1)])
                for start, stop, *_ in spans
            ]
            spans = [SecretSpan(*at, *span[2:]) for at, span in zip(moved, spans, strict=True)]
        return ScanResult(spans, unscanned)

    def _in_windows(
        self, text: str, lowered: bytes, windows: list[tuple[int, int]], hits: list[_Hit], end: float
    ) -> int:
        """Look where secrets can be; up to where there was time for it."""
        for low, high in windows:
            for index, start, stop in self._asked(lowered, low, high):
                if self._clock() > end:
                    return low
                hits += self._by_rule(index, text, start, stop)
        return len(text)

    def _known_values(self, text: str) -> Iterator[_Hit]:
        for value, rule in self._values:
            at = text.find(value)
            while at >= 0:
                yield at, at + len(value), False, rule
                at = text.find(value, at + len(value))

    def _by_more(self, text: str) -> Iterator[_Hit]:
        lowered = text.lower() if any(rule.keywords for rule, _ in self._more) else ""
        for rule, pattern in self._more:
            if rule.keywords and not any(word in lowered for word in rule.keywords):
                continue
            for match in pattern.finditer(text):
                start, stop = _secret_of(rule, match)
                if stop > start and is_secret(rule, text[start:stop]):
                    yield start, stop, False, rule.id

    def _asked(self, lowered: bytes, low: int, high: int) -> list[tuple[int, int, int]]:
        """The rules of which a word stands in the window, each with where it is to be tried."""
        by_word = self._rules.by_word
        if high - low < _WIDE:
            words = self._words(lowered, low, high)
            return [(index, low, high) for index in sorted({index for word in words for index in by_word[word]})]
        blocks: dict[int, set[int]] = {}
        # Most of what is said in long text is said again and again.
        window = lowered[low:high]
        said = b" ".join(set(window.translate(_AS_WORDS).split()))
        for word in self._words(said, 0, len(said)) | {word for word in self._rare if word in window}:
            found = set(_blocks_with(word, lowered, low, high))
            for index in by_word[word]:
                blocks.setdefault(index, set()).update(found)
        asked = []
        for index, found in sorted(blocks.items()):
            # What lies around these blocks, up to the end of the longest secret.
            around = [((at << _BLOCK_BITS) - _BLOCK_BEFORE, ((at + 1) << _BLOCK_BITS) + _PEM_MAX) for at in found]
            places = _merged(around, len(lowered))
            asked += [(index, max(start, low), min(stop, high)) for start, stop in places]
        return asked

    def _words(self, lowered: bytes, low: int, high: int) -> set[bytes]:
        words: set[bytes] = set()
        search = self._rules.keywords.search
        match = search(lowered, low, high)
        while match is not None:
            words.add(match.group())
            match = search(lowered, match.start() + 1, high)  # words may overlap
        return words

    def _by_look(self, text: str, runs: list[tuple[int, int]]) -> Iterator[_Hit]:
        """By the rules without words: only a long run can be what they mean."""
        for index in self._rules.wordless:
            for low, high in runs:
                if high - low >= _TOKEN_MIN:
                    yield from self._by_rule(index, text, low, high)

    def _by_rule(self, index: int, text: str, low: int, high: int) -> Iterator[_Hit]:
        rule = self._rules.rules[index]
        for match in self._rules.compiled(index).finditer(text, low, high):
            start, stop = _secret_of(rule, match)
            if is_secret(rule, text[start:stop]):
                yield start, stop, rule.guess, rule.id

    def _in_base64(self, text: str, runs: list[tuple[int, int]], hits: list[_Hit], end: float) -> int:
        for start, stop, inner in wrapped_texts(text, runs):
            if self._clock() > end:
                return start
            found = self.find(inner, end=end)
            if found.spans:
                hits.append((start, stop, False, found.spans[0].rule))
        return len(text)


def _may_hold(recorded: bytes) -> bool:
    """Whether there is anything in it that a rule needs, as :meth:`Scanner.is_clean` says."""
    for match in _IRREGULAR_SIGN.finditer(recorded):
        if match.lastindex is None:
            return True
        at, runs = match.start(), recorded.translate(_AS_RUNS)
        if runs.find(b" ", at) - runs.rfind(b" ", 0, at) > _GLANCE_MIXED_MIN:
            return True
    return _LETTERS in recorded.translate(_AS_LETTERS) or _PEM_BYTES in recorded


def has_mark(text: bytes) -> bool:
    """Whether something was redacted in recorded text, as far as a glance tells."""
    return MARK_BEGIN.encode() in text


def _blocks_with(word: bytes, lowered: bytes, low: int, high: int) -> Iterator[int]:
    """The numbers of the blocks in which a word begins."""
    at = lowered.find(word, low, high)
    while at >= 0:
        block = at >> _BLOCK_BITS
        yield block
        at = lowered.find(word, (block + 1) << _BLOCK_BITS, high)


def _places(text: str, lowered: bytes) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The windows in which a secret could be, merged and in order; and the long runs."""
    found: list[tuple[int, int]] = []
    long: list[tuple[int, int]] = []
    low = high = -_BEFORE
    find_digit = lowered.translate(_AS_DIGITS).find
    for match in _RUN.finditer(lowered.translate(_AS_RUNS)):
        start, stop = match.span()
        size = stop - start
        if find_digit(b"1", start, stop) < 0 and (size < _MIXED_MIN or not _is_odd(text[start:stop])):
            continue
        if size >= _BASE64_MIN:
            long.append((start, stop))
        if size > _RUN_MAX:  # a payload: what is in its middle has no beginning
            found.append((start - _BEFORE, start + _EDGE))
            start = stop - _EDGE
        if start - _BEFORE > high:
            found.append((low, high))
            low = start - _BEFORE
        high = stop + _AFTER
    found.append((low, high))
    for anchor in _ANCHORS:
        at = lowered.find(anchor)
        while at >= 0:
            found.append((at - _ANCHOR_BEFORE, at + _ANCHOR_AFTER))
            at = lowered.find(anchor, at + len(anchor))
    found.extend(_pem_windows(text))
    return _merged(found, len(text)), long


def _is_odd(run: str) -> bool:
    """Whether a run of many signs without a digit may be more than a name."""
    if run != run.lower() and run != run.upper():
        return True
    return len(run) >= _WORD_MIN and _LONG_WORD.search(run) is not None


def _pem_windows(text: str) -> Iterator[tuple[int, int]]:
    at, end = text.find(_PEM), -2
    while at >= 0:
        if end != -1 and end < at:
            end = text.find(_PEM_END, at)  # looked for once, however many begin before it
        is_near = at <= end < at + _PEM_MAX
        yield at, (end + 160 if is_near else at + _PEM_MAX)
        at = text.find(_PEM, end if is_near else at + len(_PEM))


def _merged(windows: list[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    windows.sort()
    found: list[tuple[int, int]] = []
    for low, high in windows:
        if high <= 0:
            continue
        if found and low <= found[-1][1]:
            if high > found[-1][1]:
                found[-1] = (found[-1][0], min(high, size))
        else:
            found.append((max(low, 0), min(high, size)))
    return found


def _secret_of(rule: Rule, match: re.Match[str]) -> tuple[int, int]:
    """Where the secret itself lies: a rule names its group, or the first that took part is it.

    Quotes around it are not of it: without them JSON and code would not be what they were.
    """
    group = rule.group
    if group is None:
        groups = range(1, (match.re.groups or 0) + 1)
        group = next((number for number in groups if match.start(number) >= 0), 0)
    start, stop = match.span(group)
    if stop - start > len('""') and match.string[start] in _QUOTES:
        whole = match.string[start] == match.string[stop - 1]
        return (start + 1, stop - 1) if whole else (start, stop)
    return start, stop


def _settled(hits: list[_Hit], text: str) -> list[SecretSpan]:
    """Overlapping hits as one, named by the rule that knows best; marks are left alone."""
    marks = _marks(text) if hits else []
    hits.sort(key=lambda hit: (hit[0], hit[2], hit[0] - hit[1]))
    found: list[_Hit] = []
    for start, stop, guess, rule in hits:
        if start >= stop or _inside(marks, start, stop):
            continue
        if found and start < found[-1][1]:
            low, high, was_guess, name = found[-1]
            better = was_guess and not guess
            found[-1] = (low, max(high, stop), was_guess and guess, rule if better else name)
        else:
            found.append((start, stop, guess, rule))
    return [SecretSpan(start, stop, rule, guess) for start, stop, guess, rule in found]


def _marks(text: str) -> list[tuple[int, int]]:
    found = []
    at = text.find(MARK_BEGIN)
    while at >= 0:
        stop = text.find("]", at) + 1 or len(text)
        found.append((at, stop))
        at = text.find(MARK_BEGIN, stop)
    return found


def _inside(marks: list[tuple[int, int]], start: int, stop: int) -> bool:
    at = bisect_right(marks, (stop, 0)) - 1
    return at >= 0 and marks[at][1] > start


# Whether what a rule matched is a secret: entropy, allowlists, and what only looks like one.

# What stands in documentation for a token: no random text has it.
_SAMPLE = re.compile(r"(?i)example|your[_-]?|([^A])\1{5}|abcdefgh|12345678(?:9|$)|x{4}|\[secret:|<[a-z_ -]+>")
_PLACEHOLDER = re.compile(
    r"(?i)example|placeholder|your[_-]?|change_?me|x{4,}|\*{3}|\.\.\.|dummy|redacted|secret:|\$\{|\{\{"
    r"|^\$|^%|^<|>$|^(?:none|null|undefined|true|false|password|secret|token|string|optional)\b"
    r"|^(?:os|self|this|process|env|config|settings|args|params|request|ctx|req)[.\[(]|://|\\u"
)
_NUMBER = re.compile(r"[\d.,:eExX+_/ %-]+\Z")
_FILE = re.compile(
    r"[\w./-]+\.(?:py|pyi|js|ts|tsx|jsonl?|md|txt|toml|ya?ml|pem|crt|html?|css|sh|go|rs|java|c|h|cpp"
    r"|log|lock|xml|png|svg|sqlite|db|cfg|ini|env|zip|gz|zst)\Z"
)
_PART = re.compile(r"[_\-./:@+=|]+")
_PLAIN_PART = re.compile(
    r"(?:[a-z]{1,15}|[A-Z]{1,15}|(?:[A-Z][a-z]{1,14}){1,4}|[a-z]{1,12}(?:[A-Z][a-z]{1,14}){1,4})?"
    r"\d{0,4}\Z|\d{1,8}\Z|v\d+\Z"
)
# A small letter after a capital is no change: names are full of them.
_CHANGE = re.compile(r"[a-z](?=[A-Z0-9])|[A-Z](?=[0-9])|[0-9](?=[A-Za-z])")
_CHANGES_MIN = 0.25  # of random characters about 0.45 are followed by one of another kind
_IRREGULAR = re.compile(r"\d|[!#$%^&*~]|[a-z][A-Z]{2,}[a-z]")


def is_secret(rule: Rule, secret: str) -> bool:
    """Whether the rule means this."""
    if rule.checksum and has_checksum(secret):
        return True
    if (rule.entropy and entropy(secret) < rule.entropy) or _SAMPLE.search(secret):
        return False
    # Whether small letters, capitals and digits follow each other as they do by chance.
    if rule.random and len(_CHANGE.findall(secret)) < _CHANGES_MIN * len(secret):
        return False
    if not rule.careful:
        return True
    if _PLACEHOLDER.search(secret) or _NUMBER.match(secret) or _FILE.match(secret) or not _IRREGULAR.search(secret):
        return False
    return not all(_PLAIN_PART.match(part) for part in _PART.split(secret))


def entropy(text: str) -> float:
    """Shannon's, in bits for each character."""
    size = len(text)
    return -sum(n / size * math.log2(n / size) for n in Counter(text).values()) if size else 0.0


# Text without the escapes that JSON put into it, however often, and the way back to its places.
#
# A secret is often in JSON that is a text in JSON that is a text in JSON: rules must see a name in
# quotes, and where a line begins, not the backslashes before them. Signs that an address or a page
# has coded (``%5F``, ``&#95;``), however often, stand for themselves.

# A whole run of backslashes. What stands behind the first of them keeps a long run from being
# looked at from each of its signs.
_BACKSLASHES = r"\\(?<!\\\\)\\*+"
_BREAK = re.compile(_BACKSLASHES + r"[nrt]")
_CODED = re.compile(_BACKSLASHES + r"u00(2[267bfBF]|3[cdeCDE])")
_ESCAPED = re.compile(_BACKSLASHES + r"(?=[\"'/&+<=>])|\ufdd0+")
_PERCENT = re.compile(r"%(?:25)*([2-7][0-9A-Fa-f])")
_ENTITY = re.compile(r"&(?:amp;)*(#[0-9]{2,4};|#[xX][0-9A-Fa-f]{2,4};|[a-z]{2,7};)")
_FILL = "\ufdd0"  # no character of any text: stands where a coded sign was longer than the sign
_CHANGED_BY_JSON = re.compile(r'[^ -~]|["\\]')
_LEVELS = 3


def without_breaks(text: str) -> str:
    """A text of the same length, in which breaks that JSON has escaped are blanks.

    Signs that JSON has coded by their number stand for themselves, behind backslashes, which
    :func:`unescaped` leaves out with those before quotes.
    """
    if "%" in text:
        text = _PERCENT.sub(lambda match: chr(int(match.group(1), 16)).rjust(len(match.group()), _FILL), text)
    if "&" in text:
        text = _ENTITY.sub(_meant, text)
    if "\\" not in text:
        return text
    if "\\u00" in text:
        text = _CODED.sub(lambda match: chr(int(match[1], 16)).rjust(len(match[0]), "\\"), text)
    if "\\\\" in text:
        return _BREAK.sub(lambda match: " ".rjust(len(match[0]), _FILL), text)
    for sign in "nrt":
        text = text.replace(f"\\{sign}", "  ")
    return text


def _meant(match: re.Match[str]) -> str:
    """The sign that an entity stands for, if it is one that secrets have."""
    sign = html.unescape(f"&{match.group(1)}")
    return sign.rjust(len(match.group()), _FILL) if len(sign) == 1 and sign.isascii() else match.group()


def unescaped(text: str) -> str:
    """The text without backslashes before quotes and other signs that are escaped."""
    return _ESCAPED.sub("", text) if "\\" in text or _FILL in text else text


def reads_the_same(value: str) -> bool:
    """Whether a value stands in JSON as it is."""
    return _CHANGED_BY_JSON.search(value) is None


def forms_of(value: str) -> list[str]:
    """How a value reads in an unescaped text, by itself and within JSON of a few levels."""
    if reads_the_same(value):
        return [unescaped(without_breaks(value))]
    forms, given = [], {value}
    for _ in range(_LEVELS):
        forms += [unescaped(without_breaks(form)) for form in given]
        given = {json.dumps(form, ensure_ascii=pure)[1:-1] for form in given for pure in (True, False)}
    return sorted(set(forms))


# Texts that are wrapped in base64: found, unwrapped, and given back with where they were.
_PIECE = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_BLOCK = re.compile(r"(?:[A-Za-z0-9+/]{60,}(?:\r?\n|\\r\\n|\\n)[ \t]{0,32})+[A-Za-z0-9+/]{1,}={0,2}")
_LINE_BREAK = re.compile(r"\\[rn]|\s")
_LINE_MIN = 60
_PROBE_CHARS = 32
_TEXT_MAX = 4 << 20
_PRINTABLE = frozenset(b"\t\n\r" + bytes(range(0x20, 0x7F)))


def wrapped_texts(text: str, runs: list[tuple[int, int]]) -> Iterator[tuple[int, int, str]]:
    """(start, stop, inner text) of every run that is base64 of ASCII text, broken lines too."""
    done = 0
    for low, high in runs:
        if low < done:
            continue
        block = _BLOCK.match(text, low) if high - low >= _LINE_MIN else None
        if block is not None:
            done = block.end()
            inner = _unwrapped(_LINE_BREAK.sub("", block.group()))
            if inner:
                yield low, done, inner
                continue
        for piece in _PIECE.finditer(text, low, high):
            inner = _unwrapped(piece.group())
            if inner:
                yield *piece.span(), inner


def _unwrapped(coded: str) -> str:
    """The text, or nothing if it is none."""
    if coded == coded.lower():
        return ""  # two dozen letters of a text always give a capital
    coded = coded.rstrip("=").replace("-", "+").replace("_", "/")[:_TEXT_MAX]
    if not _is_text(_from_base64(coded[:_PROBE_CHARS])):
        return ""
    inner = _from_base64(coded)
    return inner.decode("ascii") if _is_text(inner) else ""


def _from_base64(coded: str) -> bytes:
    whole = len(coded) - (len(coded) % 4 == 1)
    try:
        return base64.b64decode(coded[:whole] + "=" * (-whole % 4))
    except (binascii.Error, ValueError):
        return b""


def _is_text(data: bytes) -> bool:
    return bool(data) and _PRINTABLE.issuperset(data)
