"""Whether what a rule matched is a secret: entropy, allowlists, and what only looks like one."""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import cache

from holdfast.security._redact_rules import Rule, RuleSet, as_trie

__all__ = ["entropy", "is_secret"]

_SHORT_WORD = 5
_LONG_SECRET = 24
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
_IRREGULAR = re.compile(r"\d|[!#$%^&*~]|[a-z][A-Z]{2,}[a-z]")


def is_secret(rules: RuleSet, rule: Rule, match: re.Match[str], secret: str) -> bool:
    """Whether the rule means this."""
    if rule.entropy and entropy(secret) < rule.entropy:
        return False
    if rules.allow.search(secret) or any(word in secret.lower() for word in rules.stopwords):
        return False
    if rule.allow and _any(rule.allow).search(secret):
        return False
    if rule.allow_match and _any(rule.allow_match).search(match.group()):
        return False
    if rule.stopwords and _has_stopword(rule, secret):
        return False
    return not rule.careful or _is_plausible(secret)


def entropy(text: str) -> float:
    """Shannon's, in bits for each character."""
    size = len(text)
    return -sum(n / size * math.log2(n / size) for n in Counter(text).values()) if size else 0.0


def _is_plausible(secret: str) -> bool:
    if _PLACEHOLDER.search(secret) or _NUMBER.match(secret) or _FILE.match(secret):
        return False
    if not _IRREGULAR.search(secret):
        return False
    return not all(_PLAIN_PART.match(part) for part in _PART.split(secret))


def _has_stopword(rule: Rule, secret: str) -> bool:
    # In a long random text a short word comes up by chance.
    return (
        _stopwords(rule.stopwords, len(secret) >= _LONG_SECRET).search(secret.lower()) is not None
    )


@cache
def _stopwords(words: tuple[str, ...], only_long: bool) -> re.Pattern[str]:  # noqa: FBT001 - a cache asks by place
    return re.compile(as_trie(word for word in words if len(word) >= _SHORT_WORD or not only_long))


@cache
def _any(patterns: tuple[str, ...]) -> re.Pattern[str]:
    free = [f"(?i:{one[4:]})" if one.startswith("(?i)") else f"(?:{one})" for one in patterns]
    return re.compile("|".join(free), re.ASCII)
