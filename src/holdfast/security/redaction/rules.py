"""The rules by which secrets are found: those of the table, those of surroundings, and yours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from holdfast.errors import UsageError

_ID = re.compile(r"[a-z0-9][a-z0-9_]{0,39}\Z")
_USER_RULES_MAX = 200
_USER_REGEX_CHARS_MAX = 2_000


class Rule(msgspec.Struct, frozen=True):
    """One kind of secret: how it looks, and which words are near whenever one is."""

    id: str
    regex: str
    keywords: tuple[str, ...]
    """Lower case; without one of them in the window the regex is not tried."""
    entropy: float = 0.0
    """Bits for each character that the secret must have at least."""
    group: int | None = None
    """The group that is the secret; None for the first that took part, else everything."""
    careful: bool = False
    """Whether what looks like a placeholder, a name or code is passed over."""
    guess: bool = False
    """Whether it goes by names and looks only: such a rule gives way to one that knows."""
    random: bool = False
    """Whether it must look made by chance: digits, small and capital letters in no order."""
    checksum: bool = False
    """Whether a secret of this kind can be known by its checksum, whatever it looks like."""


class RuleSet:
    """Rules with what finds them quickly."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        by_word: dict[str, list[int]] = {}
        for index, rule in enumerate(self.rules):
            for word in rule.keywords:
                by_word.setdefault(word, []).append(index)
        self.wordless = tuple(index for index, rule in enumerate(rules) if not rule.keywords)
        # A word that begins with another one stands for both.
        self.by_word = {
            word.encode(): tuple(
                index
                for other, indexes in by_word.items()
                if word.startswith(other)
                for index in indexes
            )
            for word in by_word
        }
        self.keywords = re.compile(as_trie(by_word).encode("ascii"))

    @cache  # noqa: B019 - one for the process, or for a store that has rules of its own
    def compiled(self, index: int) -> re.Pattern[str]:
        """The pattern of a rule; most are never needed."""
        return re.compile(self.rules[index].regex, re.ASCII)


@cache
def standard_rules() -> RuleSet:
    """The rules of the table and of surroundings, made when first needed."""
    from holdfast.security.redaction.surroundings import SURROUNDINGS
    from holdfast.security.redaction.table import table_rules

    return RuleSet((*table_rules(), *SURROUNDINGS))


def read_user_rules(given: Iterable[Mapping[str, Any]]) -> list[Rule]:
    """Rules from the settings. Raises UsageError, naming the rule and what is wrong with it."""
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
    """One pattern that matches the longest of these words, with each beginning written once."""
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
