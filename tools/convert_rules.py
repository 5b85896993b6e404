r"""Make the rules of redaction out of a gitleaks configuration: run once for each new version.

    python tools/convert_rules.py gitleaks.toml <commit> > src/holdfast/security/_redact_rules.json

What is changed, and why:
  - flags in the middle of a pattern, ``\z`` and POSIX classes: Python writes them otherwise
  - the optional words before a name are left out: they match nothing that counts, and cost time
  - between a name and its value a backslash may stand: the text may be JSON inside JSON
  - the character that must follow a value becomes one that must not: values end at ``,`` and ``&``
  - rules that are about the path of a file, or are not linear, are left out and named
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
import warnings
from pathlib import Path
from typing import Any

_PREFIX = r"[\w.-]{0,50}?"
_BEFORE_SIGN = r"[\s'" + '"]{0,3}'
_AFTER_SIGN = r"[\x60'" + r'"\s=]{0,5}'
_TERMINATOR = r"(?:[\x60'" + r'"\s;]|\\[nr]|$)'
_LEFT_OUT = {
    "pkcs12-file": "is about the name of a file",
    "curl-auth-header": "is not linear; rules of our own find it",
    "curl-auth-user": "is not linear; rules of our own find it",
    "kubernetes-secret-yaml": "is not linear; rules of our own find it",
}


def convert(pattern: str) -> str:
    """A pattern of Go as one of Python."""
    pattern = pattern.replace(r"\z", r"\Z").replace("[[:alnum:]]", "[A-Za-z0-9]")
    pattern = pattern.replace(_TERMINATOR, r"(?![\w+/-])")
    pattern = pattern.replace(_BEFORE_SIGN, r"[\s'\"\\]{0,4}")
    pattern = pattern.replace(_AFTER_SIGN, r"[\x60'\"\s=\\]{0,6}")
    pattern = pattern.replace(_PREFIX, "", 1)
    pattern = re.sub(r"\(\?P<\w+>", "(?:", pattern)
    return _scope_flags(pattern)


def _scope_flags(pattern: str) -> str:
    """``a(?i)b`` as ``a(?i:b)``: a flag that is not at the start counts to the end of its group."""
    while (at := pattern.find("(?i)", 1)) > 0:
        end = _end_of_group(pattern, at + 4)
        pattern = f"{pattern[:at]}(?i:{pattern[at + 4 : end]}){pattern[end:]}"
    return pattern


def _end_of_group(pattern: str, at: int) -> int:
    depth, in_class = 0, False
    while at < len(pattern):
        sign = pattern[at]
        if sign == "\\":
            at += 1
        elif in_class:
            in_class = sign != "]"
        elif sign == "[":
            in_class = True
        elif sign == "(":
            depth += 1
        elif sign == ")":
            if depth == 0:
                return at
            depth -= 1
        at += 1
    return at


def _rule(rule: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": rule["id"].replace("-", "_"),
        "regex": convert(rule["regex"]),
        "keywords": sorted({word.lower() for word in rule["keywords"]}),
    }
    if "entropy" in rule:
        found["entropy"] = rule["entropy"]
    if "secretGroup" in rule:
        found["group"] = rule["secretGroup"]
    allow, allow_match, stopwords = [], [], []
    for one in rule.get("allowlists", []):
        if "paths" in one or one.get("regexTarget") == "line":
            continue
        kept = allow_match if one.get("regexTarget") == "match" else allow
        kept += [convert(regex) for regex in one.get("regexes", [])]
        stopwords += one.get("stopwords", [])
    found |= {"allow": allow} if allow else {}
    found |= {"allow_match": allow_match} if allow_match else {}
    found |= {"stopwords": sorted(stopwords)} if stopwords else {}
    return found


def main() -> None:
    """Read the configuration, check that everything compiles, print the rules."""
    source, commit = sys.argv[1:]
    document = tomllib.loads(Path(source).read_text())
    rules = [_rule(rule) for rule in document["rules"] if rule["id"] not in _LEFT_OUT]
    everywhere = document["allowlist"]
    allow = [convert(regex) for regex in everywhere["regexes"]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rule in rules:
            for regex in [rule["regex"], *rule.get("allow", []), *rule.get("allow_match", [])]:
                re.compile(regex, re.ASCII)
        for regex in allow:
            re.compile(regex, re.ASCII)
    found = {
        "source": "gitleaks, config/gitleaks.toml",
        "commit": commit,
        "licence": "MIT; see _redact_rules.LICENSE",
        "left_out": _LEFT_OUT,
        "allow": allow,
        "stopwords": everywhere["stopwords"],
        "rules": rules,
    }
    print(json.dumps(found, indent=1, ensure_ascii=True))


if __name__ == "__main__":
    main()
