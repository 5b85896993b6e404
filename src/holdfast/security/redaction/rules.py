"""The rules by which secrets are found: those of two tables, and the user's."""

from __future__ import annotations

import math
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise, product
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any, NamedTuple

import msgspec

from holdfast.errors import UsageError

_ID = re.compile(r"[a-z0-9][a-z0-9_]{0,39}\Z")
_USER_RULES_MAX = 200
_USER_REGEX_CHARS_MAX = 2_000


class Rule(msgspec.Struct, frozen=True):
    """One kind of secret: its form, and the words that are always near it."""

    id: str
    regex: str
    keywords: tuple[str, ...]  # lower case; without one of them in the window the regex is not tried
    entropy: float = 0.0  # the entropy that the secret must have at least, in bits for each character
    group: int | None = None  # the group that is the secret; None for the first that took part, else everything
    careful: bool = False  # whether placeholders, names and code are skipped
    guess: bool = False  # whether it uses only names and appearance: such a rule yields to a specific one
    random: bool = False  # whether the secret must look random: digits, small and capital letters in no order
    checksum: bool = False  # whether a secret of this kind can be recognised by its checksum, whatever it looks like


class RuleSet:
    """Rules with indexes for finding them quickly."""

    def __init__(self, rules: Sequence[Rule | Row]) -> None:
        self._given = tuple(rules)
        by_word: dict[str, list[int]] = {}
        for index, rule in enumerate(rules):
            for word in rule.keywords:
                by_word.setdefault(word, []).append(index)
        self.wordless = tuple(index for index, rule in enumerate(rules) if not rule.keywords)
        # A word that begins with another one counts for both.
        self.by_word = {
            word.encode(): tuple(index for end in range(1, len(word) + 1) for index in by_word.get(word[:end], ()))
            for word in by_word
        }
        self.keywords = re.compile(as_trie(by_word).encode("ascii"))

    @property
    def rules(self) -> tuple[Rule, ...]:
        """All rules."""
        return tuple(map(self.rule, range(len(self._given))))

    @cache  # noqa: B019 - one for the process, or for a store that has rules of its own
    def rule(self, index: int) -> Rule:
        """Return a rule; most are never needed."""
        given = self._given[index]
        return given if isinstance(given, Rule) else given.rule()

    @cache  # noqa: B019 - as above
    def compiled(self, index: int) -> re.Pattern[str]:
        """Return the pattern of a rule."""
        return re.compile(self.rule(index).regex, re.ASCII)


@cache
def standard_rules() -> RuleSet:
    """Return the rules of the table and of surroundings, made when first needed."""
    return RuleSet((*table_rows(), *surrounding_rules()))


def read_user_rules(given: Iterable[Mapping[str, Any]]) -> list[Rule]:
    """Return the rules in the settings. Raises UsageError, naming the rule and its mistake."""
    found = [_user_rule(table) for table in given]
    if len(found) > _USER_RULES_MAX:
        raise UsageError(f"at most {_USER_RULES_MAX} rules of one's own are allowed")
    return found


def _user_rule(table: Mapping[str, Any]) -> Rule:
    unknown = set(table) - {"id", "regex", "keywords", "group", "entropy"}
    if unknown:
        raise UsageError(f"a rule of redaction has no member {min(unknown)!r}")
    name, regex, words = table.get("id"), table.get("regex"), table.get("keywords", [])
    if not isinstance(name, str) or not _ID.match(name):
        raise UsageError("a rule of redaction has an id of a-z, 0-9 and _, at most 40 of them")
    if not isinstance(regex, str) or not 0 < len(regex) <= _USER_REGEX_CHARS_MAX:
        raise UsageError(f"rule {name}: regex is a text of at most {_USER_REGEX_CHARS_MAX:,}")
    if not isinstance(words, list) or not all(isinstance(word, str) and word for word in words):
        raise UsageError(f"rule {name}: keywords is a list of texts")
    group, entropy = table.get("group"), table.get("entropy", 0.0)
    if not isinstance(entropy, (int, float)) or not isinstance(group, (int, type(None))):
        raise UsageError(f"rule {name}: group and entropy are numbers")
    try:
        groups = re.compile(regex, re.ASCII).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"rule {name}: the regex cannot be read: {error}") from error
    if group is not None and not 0 <= group <= groups:
        raise UsageError(f"rule {name}: the regex has no group {group}")
    return Rule(name, regex, tuple(word.lower() for word in words), float(entropy), group)


def as_trie(words: Iterable[str]) -> str:
    """Return one pattern that matches the longest of these words, with each beginning written once."""
    tree: dict[str, Any] = {}
    for word in words:
        node = tree
        for sign in word:
            node = node.setdefault(sign, {})
        node[""] = {}
    return _branch(tree) if tree else r"\b\B"


def _branch(node: dict[str, Any]) -> str:
    ends = "" in node
    ways = [re.escape(sign) + _branch(below) for sign, below in sorted(node.items()) if sign]
    if not ways:
        return ""
    joined = ways[0] if len(ways) == 1 and not ends else f"(?:{'|'.join(ways)})"
    return f"{joined}?" if ends else joined


# The table of providers' tokens, and its rules. A row describes one kind of secret: its form, that is prefix, alphabets
# and lengths, the words around it if it has no mark of its own, and its checksum. See the head of ``tokens.txt``.
_TABLE = "tokens.txt"
_SURROUNDINGS = "surroundings.txt"
_BASE62 = digits + ascii_uppercase + ascii_lowercase
_ALPHABETS = {
    "digit": digits,
    "hex": digits + "abcdefABCDEF",
    "lower": ascii_lowercase + digits,
    "upper": ascii_uppercase + digits,
    "alnum": _BASE62,
    "base32": ascii_uppercase + "234567",
    "bech32": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "base64": _BASE62 + "+/",
    "word": _BASE62 + "_",
    "url": _BASE62 + "_-",
    "dashed": _BASE62 + "-",
    "dotted": _BASE62 + "_.-",
    "padded": _BASE62 + "_=-",
    "azure": _BASE62 + "_~.-",
    "percent": _BASE62 + "%",
    "loose": _BASE62 + "_=.+/~-",
    "path": _BASE62 + "_@/-",
    "pad": "=",
}
_UUID = "{hex:8}-{hex:4}-{hex:4}-{hex:4}-{hex:12}"
_RANDOM = re.compile(r"\{(\w+):(\d+)(?:-(\d+)|(\+))?\}")
_CHOICE = re.compile(r"\(([^)]*)\)")
# Between a name and its value: the end of a quoted name, a sign, the beginning of a quoted value, each perhaps escaped
# once by JSON.
_BEFORE_SIGN, _AFTER_SIGN = r"[\"'\\]{0,3}[ \t]{0,8}", r"[ \t]{0,8}[\"'`\\]{0,4}"
SIGN = rf"{_BEFORE_SIGN}(?:=>|:=|=|:){_AFTER_SIGN}"
ANY_SIGN = rf"{_BEFORE_SIGN}(?:=>|:{{0,3}}=|\?=|\|\||[:,>]){_AFTER_SIGN}"
_REST_OF_NAME = r"[\w .-]{0,20}"
_CHECKSUM_CHARS = 6
_WORD_MIN = 5
# A secret has at least this share of the bits that characters of its form can have. Random ones have nearly all of
# them, samples such as "aaaa…" few.
_ENTROPY_SHARE = 0.6


class Row(NamedTuple):
    """A row of the table, of which a rule is made when it is first tried."""

    id: str
    form: str
    words: tuple[str, ...]
    keywords: tuple[str, ...]
    facts: dict[str, str]

    def rule(self) -> Rule:
        """Return the rule that it describes."""
        return Rule(
            self.id,
            _named(self.words, self.form) if self.words else _alone(self.form),
            self.keywords,
            entropy=_bits(self.form),
            careful=bool(self.words),
            random="random" in self.facts,
            checksum=self.facts.get("checksum") == "crc32",
        )


def table_rows() -> Iterator[Row]:
    """Return all rows of the table."""
    for line in _lines_of(_TABLE):
        row = line.partition("#")[0].split()
        if row:
            yield _row(*row)


def _row(provider: str, kind: str, form: str, *more: str) -> Row:
    facts = dict(fact.partition("=")[::2] for fact in more)
    form = form.replace("{uuid}", _UUID)
    words = tuple(facts["words"].split(",")) if "words" in facts else ()
    # The words as people write them: as one, with a hyphen or an underscore.
    spelt = {word.replace("_", gap) for word in words for gap in ("", "-", "_")}
    keywords = tuple(sorted(spelt or set(map(_mark, _choices(form)))))
    return Row(f"{provider}_{kind}", form, words, keywords, facts)


def _named(words: tuple[str, ...], form: str) -> str:
    names = "|".join(re.escape(word).replace("_", "[_-]?") for word in words)
    return f"(?i:(?<![a-z])(?:{names})){_REST_OF_NAME}{ANY_SIGN}({_pattern(form)}){_end(form)}"


def _alone(form: str) -> str:
    # A form without maximum length begins only where no other may begin, or text that is nothing but beginnings would
    # waste time.
    before = r"[\w-]" if "+}" in form else "[A-Za-z0-9]"
    lead = re.escape(re.split(r"[{(]", form, maxsplit=1)[0])
    whole = _pattern(form)
    if form.startswith("."):
        return whole + _end(form)
    # The prefix first and then a look back at it: a search for text is faster than one for places.
    return f"{lead}(?<!{before}{lead}){whole[len(lead) :]}{_end(form)}"


def _pattern(form: str) -> str:
    made, at = [], 0
    for match in re.finditer(f"{_RANDOM.pattern}|{_CHOICE.pattern}", form):
        made.append(re.escape(form[at : match.start()]))
        name, least, most, is_open, choice = match.groups()
        if choice is None:
            made.append(f"[{_ALPHABETS[name].replace('-', chr(92) + '-')}]")
            made.append(f"{{{least},}}" if is_open else f"{{{least},{most or least}}}")
        else:
            made.append(f"(?:{choice})")
        at = match.end()
    return "".join([*made, re.escape(form[at:])])


def _end(form: str) -> str:
    """Return the end of a token: after it comes a character outside its alphabet."""
    random = [name for name, *_ in _RANDOM.findall(form) if name != "pad"]
    signs = _ALPHABETS[random[-1]] if form.endswith("}") else ""
    more = "".join(sign for sign in "_-+/" if sign in signs)
    return rf"(?![A-Za-z0-9{more.replace('-', chr(92) + '-')}])"


def _choices(form: str) -> Iterator[str]:
    """Yield the form with each of its choices taken."""
    parts = _CHOICE.split(form)
    taken = [part.split("|") if number % 2 else [part] for number, part in enumerate(parts)]
    return map("".join, product(*taken))


def _mark(form: str) -> str:
    """Return the longest literal of a form, by which it is searched; of a long one, the part that is a word."""
    texts = [text for text in re.split(r"\{[^}]*\}", form.lower()) if text]
    longest = max(texts, key=len)
    word = max(re.split(r"[^a-z0-9_.~-]", longest), key=len)
    return word if len(word) >= _WORD_MIN else longest


def _bits(form: str) -> float:
    """Return the least entropy of a secret of this form, for each character."""
    parts = [(int(least), _ALPHABETS[name]) for name, least, *_ in _RANDOM.findall(form)]
    signs = len({sign for _, alphabet in parts for sign in alphabet})
    length = sum(least for least, _ in parts)
    return round(_ENTROPY_SHARE * math.log2(min(signs, length)), 2)


def has_checksum(token: str) -> bool:
    """Return whether it ends in the base-62 CRC-32 of its body, as only tokens of GitHub and npm do."""
    body = token.rpartition("_")[2]
    number, found = zlib.crc32(body[:-_CHECKSUM_CHARS].encode()), ""
    for _ in range(_CHECKSUM_CHARS):
        number, digit = divmod(number, len(_BASE62))
        found = _BASE62[digit] + found
    return body.endswith(found)


# Secrets that only their surroundings reveal: ``surroundings.txt`` with these parts inserted.
_PARTS = {
    "{sign}": SIGN,
    "{any_sign}": ANY_SIGN,
    "{quoted}": r"(?:\\?[\"'`])",
    "{names}": (
        r"(?:secret|token|credential|(?:api|access|private|signing|encryption|auth|admin|master"
        r"|account|license|service|session|hmac|shared[_-]?access)[_-]?key)"
    ),
    "{value}": r"[^\s\"'`\\,;<>(){}\[\]]",
}


def surrounding_rules() -> Iterator[Rule]:
    """Return the rules of all surroundings."""
    lines = [line for line in _lines_of(_SURROUNDINGS) if line.strip()]
    heads = [number for number, line in enumerate(lines) if not line[0].isspace()]
    for start, end in pairwise([*heads, len(lines)]):
        name, *given = lines[start].split()
        facts = dict(fact.partition("=")[::2] for fact in given)
        regex = "".join(line.strip() for line in lines[start + 1 : end])
        for part, pattern in _PARTS.items():
            regex = regex.replace(part, pattern)
        yield Rule(
            name,
            regex,
            tuple(facts["words"].split(",")) if "words" in facts else (),
            entropy=float(facts.get("entropy", 0)),
            group=int(facts["group"]) if "group" in facts else None,
            careful="careful" in facts,
            guess="guess" in facts,
            random="random" in facts,
        )


def _lines_of(table: str) -> list[str]:
    """Return the lines of a table that are not comments."""
    # By the loader of this module, which also reads from a zip file: importlib.resources takes longer to load than
    # making the rules.
    loader: Any = __spec__.loader
    text = loader.get_data(os.path.join(os.path.dirname(__file__), table)).decode("ascii")
    return [line for line in text.splitlines() if not line.startswith("#")]
