"""Finding secrets in text, fast: where one could be, which rules apply, whether they are right.

Ordinary text is scanned once, for runs of characters that could be a secret and for a few tell-tale
words. Only the text near such a place is compared with the words of the rules, and only a rule whose
word is there is tried. Every step is linear in the length of the text.
"""

from __future__ import annotations

import binascii
import math
import re
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from holdfast._lazy import lazy_pattern
from holdfast.security.redaction.rules import Rule, RuleSet, has_checksum, standard_rules

MARK_BEGIN = "[secret:"
UNSCANNED = "unscanned"  # the rule name in marks for text that could not be scanned in time
_LONG_WORD = lazy_pattern(r"[a-z]{20}|[A-Z]{20}")
_RUN_MIN = 10
_TOKEN_SIGNS = frozenset(b"_+/=~.-" + bytes(i for i in range(128) if chr(i).isalnum()))
# Every character of a token as "a", all others as a blank: one search then finds the runs.
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
# In a very long window, rules are tried only near their words.
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

# Irregular characters, by which rules that go by names are triggered, in recorded JSON, where a quote without a
# backslash begins or ends a text. A number by itself does not count. The first class is of characters that words seldom
# have: the search goes from one of them to the next.
_IRREGULAR_SIGN = re.compile(
    rb"[0-9!#$%^&*~A-Z](?:"
    rb"(?<![0-9A-Z])"  # a sign
    rb"|(?<=[a-z][A-Z])(?:[A-Z]+[a-z]|())"  # capitals within a word; one, as in names
    rb"|(?<=[0-9])(?:(?<![\s\"0-9.,:][0-9])(?<!\\n[0-9])|(?<=[^0-9][.,:][0-9])"  # no number begins
    rb"|(?![0-9\s\".,:]|\\n)|(?=[.,:](?![0-9\s\"]|\\n))))"  # ends none
)


class SecretSpan(NamedTuple):
    """A secret: its place in the text, and the rule that found it."""

    start: int
    stop: int
    rule: str
    guess: bool = False
    """True if it was found only by its name and appearance."""


class ScanResult(NamedTuple):
    """The result of scanning a text.

    ``unscanned`` is how much of its end there was no time for: the last span covers that, as if it were a secret.
    """

    spans: list[SecretSpan]
    unscanned: int = 0


_Hit = tuple[int, int, bool, str]  # start, stop, whether it is a guess, the rule


class Scanner:
    """Finds secrets by rules, and known values anywhere. Any thread may use it.

    ``values`` are known values, each with the word that its marks have in place of a rule. The
    budget is computing time: on a busy machine nothing is left out.
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
        # Values that the quick check would miss. One that JSON changes cannot be found by it.
        coded = [value.encode("utf-8", "replace") for value, _ in self._values]
        self._glance_values = [value for value in coded if _NUMBER.match(value.decode()) or not _may_hold(value)]
        self._is_seen = not more and all(map(reads_the_same, values or ()))
        self._seconds_per_mib = seconds_per_mib
        self._clock = clock

    @cached_property
    def _rules(self) -> RuleSet:
        """The rules, made when the quick check does not suffice: most recorded data never needs them."""
        return standard_rules() if self._own_rules is None else self._own_rules

    @cached_property
    def _rare(self) -> list[bytes]:
        return [word for word in self._rules.by_word if word.translate(_AS_WORDS) != word]

    def is_clean(self, recorded: bytes) -> bool:
        """Return whether a quick check of JSON shows that no secret can be in it; False if it needs a scan.

        Every rule needs a character that words do not have, or a long run of characters: most of what people
        and models write has neither, and passes without a rule being tried.
        """
        if not self._is_seen or _may_hold(recorded):
            return False
        return not any(value in recorded for value in self._glance_values)

    def knows(self, text: str) -> bool:
        """Return whether a text contains one of the known values."""
        return any(value in text for value, _ in self._values)

    def knows_number(self, text: str) -> bool:
        """Return whether a number is one of the known values."""
        return any(value == text for value, _ in self._values)

    def find(self, text: str, *, end: float | None = None) -> ScanResult:
        """Return all secrets in a text, in order, without overlaps; also in base64, unless it is already inside some.

        The time depends on the length alone, whatever the text is: ``end`` is the deadline. Text that could not be
        scanned in time counts as a secret from its first to its last character.
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
            # Map places of ``unescaped(text)`` to the text itself, including the backslashes before them.
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
        """Scan the windows where secrets can be; return the place up to which there was time for it."""
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
        """Return the rules with a word in the window, each with where to try it."""
        by_word = self._rules.by_word
        if high - low < _WIDE:
            words = self._words(lowered, low, high)
            return [(index, low, high) for index in sorted({index for word in words for index in by_word[word]})]
        blocks: dict[int, set[int]] = {}
        # Most of a long text is repetition.
        window = lowered[low:high]
        said = b" ".join(set(window.translate(_AS_WORDS).split()))
        for word in self._words(said, 0, len(said)) | {word for word in self._rare if word in window}:
            found = set(_blocks_with(word, lowered, low, high))
            for index in by_word[word]:
                blocks.setdefault(index, set()).update(found)
        asked = []
        for index, found in sorted(blocks.items()):
            # The surroundings of these blocks, up to the end of the longest secret.
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
        """Yield hits of the rules without words: only a long run can match them."""
        for index in self._rules.wordless:
            for low, high in runs:
                if high - low >= _TOKEN_MIN:
                    yield from self._by_rule(index, text, low, high)

    def _by_rule(self, index: int, text: str, low: int, high: int) -> Iterator[_Hit]:
        rule = self._rules.rule(index)
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
    """Return whether it contains anything that a rule needs, see :meth:`Scanner.is_clean`."""
    for match in _IRREGULAR_SIGN.finditer(recorded):
        if match.lastindex is None:
            return True
        at, runs = match.start(), recorded.translate(_AS_RUNS)
        if runs.find(b" ", at) - runs.rfind(b" ", 0, at) > _GLANCE_MIXED_MIN:
            return True
    return _LETTERS in recorded.translate(_AS_LETTERS) or _PEM_BYTES in recorded


def has_mark(text: bytes) -> bool:
    """Return whether something was redacted in recorded text, by a quick check."""
    return MARK_BEGIN.encode() in text


def _blocks_with(word: bytes, lowered: bytes, low: int, high: int) -> Iterator[int]:
    """Return the numbers of the blocks in which a word begins."""
    at = lowered.find(word, low, high)
    while at >= 0:
        block = at >> _BLOCK_BITS
        yield block
        at = lowered.find(word, (block + 1) << _BLOCK_BITS, high)


def _places(text: str, lowered: bytes) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the windows in which a secret could be, merged and in order; and the long runs."""
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
        if size > _RUN_MAX:  # a payload: nothing begins in its middle
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
    """Return whether a long run of characters without a digit may be more than a name."""
    if run != run.lower() and run != run.upper():
        return True
    return len(run) >= _WORD_MIN and _LONG_WORD.search(run) is not None


def _pem_windows(text: str) -> Iterator[tuple[int, int]]:
    at, end = text.find(_PEM), -2
    while at >= 0:
        if end != -1 and end < at:
            end = text.find(_PEM_END, at)  # searched once, however many begin before it
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
    """Return where the secret itself is: in the rule's group, or in the first that took part.

    Quotes around it do not belong to it: without them JSON and code would break.
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
    """Return overlapping hits as one, named by the most specific rule; marks are left alone."""
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


# Whether a rule's match is a secret: entropy, allowlists, and look-alikes.

# Stand-ins for tokens in documentation: no random text contains them.
_SAMPLE = lazy_pattern(r"(?i)example|your[_-]?|([^A])\1{5}|abcdefgh|12345678(?:9|$)|x{4}|\[secret:|<[a-z_ -]+>")
_PLACEHOLDER = lazy_pattern(
    r"(?i)example|placeholder|your[_-]?|change_?me|x{4,}|\*{3}|\.\.\.|dummy|redacted|secret:|\$\{|\{\{"
    r"|^\$|^%|^<|>$|^(?:none|null|undefined|true|false|password|secret|token|string|optional)\b"
    r"|^(?:os|self|this|process|env|config|settings|args|params|request|ctx|req)[.\[(]|://|\\u"
)
_NUMBER = re.compile(r"[\d.,:eExX+_/ %-]+\Z")
_FILE = lazy_pattern(
    r"[\w./-]+\.(?:py|pyi|js|ts|tsx|jsonl?|md|txt|toml|ya?ml|pem|crt|html?|css|sh|go|rs|java|c|h|cpp"
    r"|log|lock|xml|png|svg|sqlite|db|cfg|ini|env|zip|gz|zst)\Z"
)
_PART = lazy_pattern(r"[_\-./:@+=|]+")
_PLAIN_PART = lazy_pattern(
    r"(?:[a-z]{1,15}|[A-Z]{1,15}|(?:[A-Z][a-z]{1,14}){1,4}|[a-z]{1,12}(?:[A-Z][a-z]{1,14}){1,4})?"
    r"\d{0,4}\Z|\d{1,8}\Z|v\d+\Z"
)
# A small letter after a capital is not a change: names are full of them.
_CHANGE = lazy_pattern(r"[a-z](?=[A-Z0-9])|[A-Z](?=[0-9])|[0-9](?=[A-Za-z])")
_CHANGES_MIN = 0.25  # about 0.45 of random characters are followed by one of another kind
_IRREGULAR = lazy_pattern(r"\d|[!#$%^&*~]|[a-z][A-Z]{2,}[a-z]")


def is_secret(rule: Rule, secret: str) -> bool:
    """Return whether a match of the rule is a secret."""
    if rule.checksum and has_checksum(secret):
        return True
    if (rule.entropy and entropy(secret) < rule.entropy) or _SAMPLE.search(secret):
        return False
    # Whether small letters, capitals and digits are mixed as they are by chance.
    if rule.random and len(_CHANGE.findall(secret)) < _CHANGES_MIN * len(secret):
        return False
    if not rule.careful:
        return True
    if _PLACEHOLDER.search(secret) or _NUMBER.match(secret) or _FILE.match(secret) or not _IRREGULAR.search(secret):
        return False
    return not all(_PLAIN_PART.match(part) for part in _PART.split(secret))


def entropy(text: str) -> float:
    """Return Shannon's entropy, in bits for each character."""
    size = len(text)
    return -sum(n / size * math.log2(n / size) for n in Counter(text).values()) if size else 0.0


# Text without the escapes that JSON put into it, however often, and the map back to its places.
# A secret is often in JSON that is a text in JSON that is a text in JSON: rules must see a name in quotes, and where a
# line begins, not the backslashes before them. Characters that an address or a page has encoded (``%5F``, ``&#95;``),
# however often, are decoded.

# A whole run of backslashes. The text after the first of them prevents a long run from being scanned from each of its
# characters.
_BACKSLASHES = r"\\(?<!\\\\)\\*+"
_BREAK = lazy_pattern(_BACKSLASHES + r"[nrt]")
_CODED = lazy_pattern(_BACKSLASHES + r"u00(2[267bfBF]|3[cdeCDE])")
_ESCAPED = lazy_pattern(_BACKSLASHES + r"(?=[\"'/&+<=>])|\ufdd0+")
_PERCENT = lazy_pattern(r"%(?:25)*([2-7][0-9A-Fa-f])")
_ENTITY = lazy_pattern(r"&(?:amp;)*(#[0-9]{2,4};|#[xX][0-9A-Fa-f]{2,4};|[a-z]{2,7};)")
_FILL = "\ufdd0"  # in no text: fills the place where an encoded character was longer than the character
_CHANGED_BY_JSON = re.compile(r'[^ -~]|["\\]')
_LEVELS = 3


def without_breaks(text: str) -> str:
    """Return a text of the same length, with blanks in place of breaks that JSON has escaped.

    Characters that JSON has encoded by number are decoded, behind backslashes, which :func:`unescaped`
    removes with those before quotes.
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
    """Return the character of an entity, if it is one that secrets have."""
    from html import unescape  # its table of names takes longer to load than a short text to scan

    sign = unescape(f"&{match.group(1)}")
    return sign.rjust(len(match.group()), _FILL) if len(sign) == 1 and sign.isascii() else match.group()


def unescaped(text: str) -> str:
    """Return the text without backslashes before quotes and other escaped characters."""
    return _ESCAPED.sub("", text) if "\\" in text or _FILL in text else text


def reads_the_same(value: str) -> bool:
    """Return whether a value is the same in JSON."""
    return _CHANGED_BY_JSON.search(value) is None


def forms_of(value: str) -> list[str]:
    """Return how a value reads in an unescaped text, by itself and within JSON of a few levels."""
    if reads_the_same(value):
        return [unescaped(without_breaks(value))]
    import json

    forms, given = [], {value}
    for _ in range(_LEVELS):
        forms += [unescaped(without_breaks(form)) for form in given]
        given = {json.dumps(form, ensure_ascii=pure)[1:-1] for form in given for pure in (True, False)}
    return sorted(set(forms))


# Texts that are wrapped in base64: found, unwrapped, and returned with their places.
_PIECE = lazy_pattern(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_BLOCK = lazy_pattern(r"(?:[A-Za-z0-9+/]{60,}(?:\r?\n|\\r\\n|\\n)[ \t]{0,32})+[A-Za-z0-9+/]{1,}={0,2}")
_LINE_BREAK = lazy_pattern(r"\\[rn]|\s")
_LINE_MIN = 60
_PROBE_CHARS = 32
_TEXT_MAX = 4 << 20
_PRINTABLE = frozenset(b"\t\n\r" + bytes(range(0x20, 0x7F)))


def wrapped_texts(text: str, runs: list[tuple[int, int]]) -> Iterator[tuple[int, int, str]]:
    """Yield (start, stop, inner text) of every run that is base64 of ASCII text, broken lines too."""
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
    """Return the text, or nothing if it is none."""
    if coded == coded.lower():
        return ""  # two dozen letters of a text always contain a capital
    coded = coded.rstrip("=").replace("-", "+").replace("_", "/")[:_TEXT_MAX]
    if not _is_text(_from_base64(coded[:_PROBE_CHARS])):
        return ""
    inner = _from_base64(coded)
    return inner.decode("ascii") if _is_text(inner) else ""


def _from_base64(coded: str) -> bytes:
    whole = len(coded) - (len(coded) % 4 == 1)
    try:
        return binascii.a2b_base64(coded[:whole] + "=" * (-whole % 4))
    except (binascii.Error, ValueError):
        return b""


def _is_text(data: bytes) -> bool:
    return bool(data) and _PRINTABLE.issuperset(data)
