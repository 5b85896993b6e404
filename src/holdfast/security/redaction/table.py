"""The table of providers' tokens, and the rules that are made of it.

A row states what is known of one kind of secret: its form, that is prefix, alphabets and lengths,
the words around it if it has no mark of its own, and its checksum. See the head of ``tokens.txt``.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterator
from importlib.resources import files
from itertools import product
from string import ascii_lowercase, ascii_uppercase, digits

from holdfast.security.redaction.rules import Rule

_TABLE = "tokens.txt"
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
# Between a name and its value: the end of a quoted name, a sign, the beginning of a quoted value,
# each perhaps escaped once by JSON.
_BEFORE_SIGN, _AFTER_SIGN = r"[\"'\\]{0,3}[ \t]{0,8}", r"[ \t]{0,8}[\"'`\\]{0,4}"
SIGN = rf"{_BEFORE_SIGN}(?:=>|:=|=|:){_AFTER_SIGN}"
ANY_SIGN = rf"{_BEFORE_SIGN}(?:=>|:{{0,3}}=|\?=|\|\||[:,>]){_AFTER_SIGN}"
_REST_OF_NAME = r"[\w .-]{0,20}"
_CHECKSUM_CHARS = 6
_WORD_MIN = 5
# A secret has at least this share of the bits that characters of its form can have. Random ones
# have nearly all of them, samples such as "aaaa…" few.
_ENTROPY_SHARE = 0.6


def table_rules() -> Iterator[Rule]:
    """The rules of all rows."""
    text = files(__package__).joinpath(_TABLE).read_text(encoding="ascii")
    for line in text.splitlines():
        row = line.partition("#")[0].split()
        if row:
            yield _rule(*row)


def _rule(provider: str, kind: str, form: str, *more: str) -> Rule:
    facts = dict(fact.partition("=")[::2] for fact in more)
    form = form.replace("{uuid}", _UUID)
    words = tuple(facts.get("words", "").split(",")) if "words" in facts else ()
    return Rule(
        f"{provider}_{kind}",
        _named(words, form) if words else _alone(form),
        tuple(sorted({*_spellings(words)} or {_mark(one) for one in _choices(form)})),
        entropy=_bits(form),
        careful=bool(words),
        random="random" in facts,
        checksum=facts.get("checksum") == "crc32",
    )


def _spellings(words: tuple[str, ...]) -> Iterator[str]:
    """The words as people write them: in one, with a hyphen or an underscore."""
    for word in words:
        for gap in ("", "-", "_"):
            yield word.replace("_", gap)


def _named(words: tuple[str, ...], form: str) -> str:
    names = "|".join(re.escape(word).replace("_", "[_-]?") for word in words)
    return f"(?i:(?<![a-z])(?:{names})){_REST_OF_NAME}{ANY_SIGN}({_pattern(form)}){_end(form)}"


def _alone(form: str) -> str:
    # What has no greatest length begins where no other may begin, or time would be wasted by text
    # that is nothing but beginnings.
    before = r"[\w-]" if "+}" in form else "[A-Za-z0-9]"
    lead = re.escape(re.split(r"[{(]", form, maxsplit=1)[0])
    if form.startswith("."):
        return _pattern(form) + _end(form)
    # The prefix first and then a look back at it: a search for text is quicker than one for places.
    whole = _pattern(form)
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
    """A token ends where its alphabet does; what only goes on is another thing."""
    random = [name for name, *_ in _RANDOM.findall(form) if name != "pad"]
    signs = _ALPHABETS[random[-1]] if form.endswith("}") else ""
    more = "".join(sign for sign in "_-+/" if sign in signs)
    return rf"(?![A-Za-z0-9{more.replace('-', chr(92) + '-')}])"


def _choices(form: str) -> Iterator[str]:
    """The form with each of its choices taken."""
    parts = _CHOICE.split(form)
    taken = [part.split("|") if number % 2 else [part] for number, part in enumerate(parts)]
    return map("".join, product(*taken))


def _mark(form: str) -> str:
    """The longest text of a form, by which it is looked for; of a long one, what is a word."""
    texts = [text for text in re.split(r"\{[^}]*\}", form.lower()) if text]
    longest = max(texts, key=len)
    word = max(re.split(r"[^a-z0-9_.~-]", longest), key=len)
    return word if len(word) >= _WORD_MIN else longest


def _bits(form: str) -> float:
    """The least entropy of a secret of this form, for each character."""
    parts = [(int(least), _ALPHABETS[name]) for name, least, *_ in _RANDOM.findall(form)]
    signs = len({sign for _, alphabet in parts for sign in alphabet})
    length = sum(least for least, _ in parts)
    return round(_ENTROPY_SHARE * math.log2(min(signs, length)), 2)


def has_checksum(token: str) -> bool:
    """Whether the last six characters are the CRC-32, in base 62, of the random ones before them.

    GitHub and npm make their tokens so; nothing has such an end by chance.
    """
    body = token.rpartition("_")[2]
    number, found = zlib.crc32(body[:-_CHECKSUM_CHARS].encode()), ""
    for _ in range(_CHECKSUM_CHARS):
        number, digit = divmod(number, len(_BASE62))
        found = _BASE62[digit] + found
    return body.endswith(found)
