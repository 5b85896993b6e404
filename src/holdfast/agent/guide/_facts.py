"""Facts and questions in messages, by plain patterns. Pure, and never raises."""

from __future__ import annotations

import re
from typing import NamedTuple

from holdfast._lazy import lazy_pattern

# A value ends with its sentence; 9.30 and 3,5 do not end one, and neither does Dr.
_STOP = r"(?<!\bDr)(?<!\bMr)(?<!\bMs)(?<!\bSt)(?<!\bMrs)[.,;!?](?=\s|$)|[。，！\n]"
_END = rf"(?=\s+(?:and|but|because|und|et|y|e)\s|\s*(?:{_STOP})|\s*$)"
_VALUE = rf"\s*(?P<value>(?!not\b|什么|何)(?:(?!{_STOP}).){{1,80}}?){_END}"
_NAME = (
    r"my (?:name|nam|nmae|naem) is|my name's|my name si|"
    r"call me|i am called|i'm called|mein name ist|ich hei(?:ß|ss)e|je m'appelle|me llamo|"
    r"mi nombre es|meu nome é|me chamo|mi chiamo|ik heet|меня зовут|我叫|私の名前は"
)
_HOME = r"i live in|ich wohne in|j'habite à|vivo en|moro em|abito a|ik woon in"
_ORIGIN = r"i am from|i'm from|i come from|ich komme aus"
_GOAL = r"i(?: want|'d like| would like) to (?:go|travel|fly|move) to"
_TOLD = (
    ("name", lazy_pattern(rf"\b(?:{_NAME}){_VALUE}", re.IGNORECASE)),
    # Only the capital distinguishes Bob from tired.
    (
        "name",
        lazy_pattern(
            r"^\s*(?:[Hh]i|[Hh]ello|[Hh]ey)?[,!. ]*I(?:'m| am) (?P<value>[A-Z][\w'’-]+(?: [A-Z][\w'’-]+)?)\s*[.!]?\s*$"
        ),
    ),
    ("home", lazy_pattern(rf"\b(?:{_HOME}){_VALUE}", re.IGNORECASE)),
    ("origin", lazy_pattern(rf"\b(?:{_ORIGIN}){_VALUE}", re.IGNORECASE)),
    ("goal", lazy_pattern(rf"\b(?:{_GOAL}){_VALUE}", re.IGNORECASE)),
    ("goal", lazy_pattern(r"\bI(?:'m| am) going to (?P<value>[A-Z][\w'’-]+(?: [A-Z][\w'’-]+)?)")),
    ("place", lazy_pattern(r"\bI(?:'m| am) in (?P<value>[A-Z][\w'’-]+(?: [A-Z][\w'’-]+)?)")),
)
_KEY = r"(?P<key>[a-z][a-z '’-]{1,30}?)"
_OWN = lazy_pattern(rf"\bmy {_KEY} (?:is|are|was)(?! (?:called|named)\b){_VALUE}", re.IGNORECASE)
_CALLED = lazy_pattern(rf"\b(?:I have an?|my) {_KEY} (?:is )?(?:called|named){_VALUE}", re.IGNORECASE)
_KNOWN = lazy_pattern(rf"\b(?:remember|note|keep in mind)(?: that)?:? the {_KEY} (?:is|are){_VALUE}", re.IGNORECASE)
_SPELLED = {"favorite": "favourite", "color": "colour"}
_NOTE = lazy_pattern(
    r"^\s*(?:please )?(?:remember|note|keep in mind)(?: that)?[: ]+(?!to\b)(?P<value>.{2,200})$", re.IGNORECASE
)
_TASK = lazy_pattern(
    r"^\s*(?:please )?(?:remind me to|remember to|todo:?|to do:|task:|add (?:a )?(?:task|todo):?(?: to)?|"
    r"i (?:need|have) to|i must|don't let me forget to)\s+(?P<value>.{2,200}?)[.!]?\s*$",
    re.IGNORECASE,
)
_ASKED_NAME = (
    r"(?:wh?[ah]*t(?:'?s| is| was)|know|tell me|say|remember|forgot(?:ten)?) my name\b|what my name is|who am i\b|"
    r"wie hei(?:ß|ss)e ich|comment (?:est-ce que )?je m'appelle|cómo me llamo|(?:qual é (?:o )?meu|como me cham)|"
    r"come mi chiamo|hoe heet ik|как меня зовут|我叫什么|私の名前は何"
)
_ASKED = (
    ("name", _ASKED_NAME),
    ("home", r"where do i live|wo wohne ich|où j'habite|dónde vivo"),
    ("origin", r"where (?:am i|do i come) from"),
    ("goal", r"where (?:do i want to|am i going)"),
    ("place", r"where am i\b"),
)
_ASKED_OWN = lazy_pattern(
    rf"wh?[ah]*t(?:'?s| is| are| was|) my {_KEY}(?: again| is)?(?P<called> called| named)?\s*\??\s*$", re.IGNORECASE
)
_ASKED_CALLED = lazy_pattern(rf"wh?[ah]*t(?:'?s| is| was) the name of my {_KEY}\s*\??\s*$", re.IGNORECASE)
_ASKED_THE = lazy_pattern(
    r"wh?[ah]*t(?:'?s| is| are| was) the (?P<key>[a-z'’-]+(?: [a-z'’-]+)?)(?: again)?\s*\??\s*$", re.IGNORECASE
)
_QUESTION = lazy_pattern(
    r"[?？]\s*$|^\s*(?:what|when|where|who|which|whose|why|how|did|do|does|is|are|was|can|tell me)\b", re.IGNORECASE
)
_WORD = lazy_pattern(r"[^\W_][\w'’-]*")
_COMMON_WORDS = """
    about again also and any are ask asked can could did does doing for from had has have her here him his how
    into its know like may mean me mine more much must my need not now off our out please said say says she should
    some tell than that the their them then there these they thing think this time told too want was were what when
    where which who whose why will with would you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())
_STEM_CHARS = 5


class Fact(NamedTuple):
    """One fact, under a name."""

    key: str
    value: str


def facts_in(text: str) -> list[Fact]:
    """Return the facts that a text tells about its writer, in the order of the patterns; a question tells none."""
    if text.rstrip().endswith(("?", "？")):
        return []
    found: dict[str, str] = {}
    for key, pattern in _TOLD:
        if (match := pattern.search(text)) and match["value"].strip():
            found.setdefault(key, match["value"].strip())
    for match in _CALLED.finditer(text):
        found.setdefault(f"{_key(match)}'s name", match["value"].strip())
    for match in (*_OWN.finditer(text), *_KNOWN.finditer(text)):
        key = _key(match)
        if key not in ("name", "nam", "nmae", "naem") and match["value"].strip():
            found.setdefault(key, match["value"].strip())
    if not found and (match := _NOTE.search(text)):
        found["note"] = match["value"].strip()
    return [Fact(key, value) for key, value in found.items()]


def task_in(text: str) -> str | None:
    """Return the task that a text asks to keep; None if it asks for none."""
    match = None if text.rstrip().endswith("?") else _TASK.search(text)
    return match["value"].strip() if match else None


def asked_fact(text: str) -> str | None:
    """Return the name of the fact that a text asks for; None if it asks for none."""
    for key, pattern in _ASKED:
        if re.search(pattern, text, re.IGNORECASE):
            return key
    if match := _ASKED_CALLED.search(text):
        return f"{_key(match)}'s name"
    match = _ASKED_OWN.search(text) or _ASKED_THE.search(text)
    if match is None:
        return None
    return f"{_key(match)}'s name" if match.groupdict().get("called") else _key(match)


def _key(match: re.Match[str]) -> str:
    return " ".join(_SPELLED.get(word, word) for word in match["key"].lower().split())


def is_question(text: str) -> bool:
    """Return True if the text asks a question."""
    return _QUESTION.search(text) is not None


def words_in(text: str) -> frozenset[str]:
    """Return the stems of the words that say what a text is about."""
    words = (word.lower() for word in _WORD.findall(text))
    return frozenset(word[:_STEM_CHARS] for word in words if len(word) > 2 and word not in _COMMON)
