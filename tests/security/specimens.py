"""One made-up secret for each rule: what its own pattern describes, put together at random.

Nothing here is real, and nothing is written down: every text is made from a pattern by a seeded
generator when a test asks for it.
"""

from __future__ import annotations

import random
import re
from re import _constants as signs
from re import _parser as parser
from typing import Any

from holdfast.security.redaction.rules import Rule
from holdfast.security.redaction.scanner import _secret_of, is_secret

__all__ = ["specimen"]

_WORD = [sign for sign in map(chr, range(0x21, 0x7F)) if sign.isalnum() or sign == "_"]
_MORE_MAX = 24
_TRIES = 400


def specimen(rule: Rule, seed: int = 0) -> tuple[str, str]:
    """(text that the rule is about, the secret in it), always the same for the same seed."""
    pattern = re.compile(rule.regex, re.ASCII)
    tree = parser.parse(rule.regex, re.ASCII)
    rng = random.Random(f"{rule.id}{rule.regex}{seed}")
    for _ in range(_TRIES):
        text = _sequence(tree, rng, {})
        match = pattern.search(text)
        if match is None:
            continue
        start, stop = _secret_of(rule, match)
        secret = text[start:stop]
        if secret and is_secret(rule, secret):
            named = not rule.keywords or any(word in text.lower() for word in rule.keywords)
            return (text if named else f"{rule.keywords[0]}: {text}"), secret
    raise AssertionError(f"no specimen for {rule.id}")


def _sequence(tree: Any, rng: random.Random, groups: dict[int, str]) -> str:
    return "".join(_one(op, given, rng, groups) for op, given in tree)


def _one(op: Any, given: Any, rng: random.Random, groups: dict[int, str]) -> str:  # noqa: PLR0911 - one for each kind
    if op is signs.LITERAL:
        return chr(given)
    if op is signs.NOT_LITERAL:
        return rng.choice([sign for sign in _WORD if ord(sign) != given])
    if op is signs.ANY:
        return rng.choice(_WORD)
    if op is signs.IN:
        return rng.choice(_members(given)).replace("\n", " ")
    if op in (signs.MAX_REPEAT, signs.MIN_REPEAT, signs.POSSESSIVE_REPEAT):
        least, most, inner = given
        # Blanks and quotes between a name and its value are mostly one; names have no tail.
        most = least if most - least < 60 and least == 0 else min(most, least + _MORE_MAX)
        return "".join(_sequence(inner, rng, groups) for _ in range(rng.randint(least, most)))
    if op is signs.SUBPATTERN:
        number, _, _, inner = given
        text = _sequence(inner, rng, groups)
        groups[number] = text
        return text
    if op is signs.BRANCH:
        return _sequence(rng.choice(given[1]), rng, groups)
    if op is signs.GROUPREF:
        return groups[given]
    if op is signs.CATEGORY:
        return rng.choice(_members([(op, given)]))
    return ""  # what only looks around


def _members(given: Any) -> list[str]:
    found: set[str] = set()
    negated = False
    for op, value in given:
        if op is signs.NEGATE:
            negated = True
        elif op is signs.LITERAL:
            found.add(chr(value))
        elif op is signs.RANGE:
            found.update(map(chr, range(value[0], value[1] + 1)))
        elif value is signs.CATEGORY_WORD:
            found.update(_WORD)
        elif value is signs.CATEGORY_DIGIT:
            found.update("0123456789")
        elif value is signs.CATEGORY_SPACE:
            found.update(" \n")
        elif value is signs.CATEGORY_NOT_SPACE:
            found.update(_WORD)
    if negated:
        return sorted({*_WORD, " "} - found) or [" "]
    plain = found & set(_WORD)
    return sorted(plain) if len(plain) > 9 else sorted(found)
