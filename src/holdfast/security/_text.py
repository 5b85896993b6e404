"""Making untrusted text harmless to display.

The text of a model or a tool may contain sequences that move the cursor, rename the window, write to the
clipboard, reverse the reading direction or hide words. None of them reaches a screen: each such character
is replaced by a visible one, so that the reader also learns that it was there. The two joiners stay where they
are part of the writing: in emoji, and by the rules for domain names (RFC 5892, CONTEXTJ).
"""

from __future__ import annotations

from functools import cache

TYPE_CHECKING = False  # what most texts do not need is loaded and made on demand
if TYPE_CHECKING:
    import re

_PICTURES = 0x2400  # ␀ and its neighbours: a picture for each control character, in their order
_UNKNOWN = "\N{REPLACEMENT CHARACTER}"

# Everything invisible that is not a C0 control, with the reason for replacing it. These are all format characters (Cf)
# except the signs that precede a number or a word and have a shape (Arabic, Syriac, Kaithi:
# Prepended_Concatenation_Mark): they hide nothing and reverse nothing.
_INVISIBLE = (
    (0x0080, 0x009F),  # C1 controls: some terminals obey them like ESC sequences
    (0x00AD, 0x00AD),  # soft hyphen
    (0x034F, 0x034F),  # combining grapheme joiner
    (0x061C, 0x061C),  # Arabic letter mark (direction)
    (0x115F, 0x1160),  # Hangul fillers: letters without a shape
    (0x17B4, 0x17B5),  # Khmer vowels without a shape
    (0x180B, 0x180F),  # Mongolian selectors and separator
    (0x200B, 0x200F),  # zero-width space and joiners, direction marks
    (0x2028, 0x202E),  # line and paragraph separator, embeddings and overrides of direction
    (0x2060, 0x206F),  # word joiner, invisible operators, isolates of direction
    (0x3164, 0x3164),  # Hangul filler
    (0xD800, 0xDFFF),  # halves of surrogate pairs, which no encoding accepts
    (0xFE00, 0xFE0D),  # variation selectors except the two that emoji need
    (0xFEFF, 0xFEFF),  # zero-width no-break space
    (0xFFA0, 0xFFA0),  # halfwidth Hangul filler
    (0xFFF0, 0xFFFB),  # interlinear annotations
    (0x13430, 0x1343F),  # joiners of Egyptian hieroglyphs: they move and cover their neighbours
    (0x1BCA0, 0x1BCA3),  # shorthand format controls
    (0x1D173, 0x1D17A),  # musical format controls
    (0xE0000, 0xE0FFF),  # tags and further selectors: whole sentences can be hidden in them
)
# Two that belong to everyday text (emoji, Persian) get a mark that reads better than a question mark.
_MARKS = {0x200C: "¦", 0x200D: "⁀"}
_APART, _TOGETHER = "\u200c", "\u200d"
_REACH = 16  # the most signs on a letter: no text makes the search for it long
_VIRAMA = 9  # the combining class of signs that remove the vowel of an Indian letter

# Pictures that can be joined into one; Unicode calls them Extended_Pictographic.
_PICTURES_JOINED = (
    "\xa9\xae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23fa\u24c2\u25aa-\u25fe\u2600-\u27bf\u2934\u2935"
    "\u2b05-\u2b55\u3030\u303d\u3297\u3299\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff"
)
_SKINS = "\U0001f3fb-\U0001f3ff"
# Vowel signs and the like, above or below a letter, which do not break a joining (Joining_Type T).
_SIGNS = (
    "\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a"
    "\u07eb-\u07f3\u08d3-\u08e1\u08e3-\u08ff"
)
# Letters that join to the next one (Joining_Type D), and those that only join to the one before (R): Arabic, Syriac,
# N'Ko, Mongolian and Adlam. Between others a joiner changes no shape, and only hides.
_TIED_ON = (
    "\u0620\u0626\u0628\u062a-\u062e\u0633-\u063f\u0641-\u0647\u0649\u064a\u066e\u066f\u0678-\u0687\u069a-\u06bf"
    "\u06c1\u06c2\u06cc\u06ce\u06d0\u06d1\u06fa-\u06fc\u06ff\u0712-\u0714\u071a-\u071d\u071f-\u0727\u0729\u072b"
    "\u072d\u072e\u074e-\u0758\u075c-\u076a\u076d-\u0770\u0772\u0775-\u0777\u077a-\u077f\u07ca-\u07ea\u0886"
    "\u0889-\u088d\u088f\u08a0-\u08a9\u08af\u08b0\u08b3-\u08b8\u08ba-\u08c8\u1807\u1820-\u1878\u1887-\u18a8\u18aa"
    "\U0001e900-\U0001e943"
)
_TIED_BACK = (
    "\u0622-\u0625\u0627\u0629\u062f-\u0632\u0648\u0671-\u0673\u0675-\u0677\u0688-\u0699\u06c0\u06c3-\u06cb\u06cd"
    "\u06cf\u06d2\u06d3\u06d5\u06ee\u06ef\u0710\u0715-\u0719\u071e\u0728\u072a\u072c\u072f\u074d\u0759-\u075b"
    "\u076b\u076c\u0771\u0773\u0774\u0778\u0779\u0870-\u0882\u088e\u08aa-\u08ac\u08ae\u08b1\u08b2\u08b9"
)


@cache
def _visible() -> dict[int, str]:
    """Return the character to show for each one that is not shown as it is."""
    controls = {code: chr(_PICTURES + code) for code in range(0x20) if chr(code) not in "\n\t"}
    invisible = {code: _UNKNOWN for first, last in _INVISIBLE for code in range(first, last + 1)}
    return controls | {0x7F: "\N{SYMBOL FOR DELETE}"} | invisible | _MARKS


@cache
def _visible_in_line() -> dict[int, str]:
    """Return the character to show for each one, where a line may not end."""
    return _visible() | {code: chr(_PICTURES + code) for code in map(ord, "\n\t")}


@cache
def _is_harmful(char: str) -> bool:
    """Return whether one character is harmful, without loading and compiling a pattern."""
    return char == "\x7f" or any(first <= ord(char) <= last for first, last in _INVISIBLE)


def neutralise(text: str) -> str:
    """Return ``text`` with every character that a terminal could execute or hide replaced by a visible one.

    Newlines and tabs stay. The length stays the same, nothing else changes, and a second call
    changes nothing more.
    """
    # Without what may stay: most texts have several lines.
    if _is_harmless(text.replace("\n", "").replace("\t", "")):
        return text
    return _joined(text, text.translate(_visible()))


def neutralise_line(text: str) -> str:
    """Return ``text`` for a place of one line: newlines and tabs become visible too."""
    return text if _is_harmless(text) else _joined(text, text.translate(_visible_in_line()))


def _is_harmless(text: str) -> bool:
    """Return whether nothing in a line has to be replaced, as usual; without the tables."""
    return text.isprintable() and (text.isascii() or not any(map(_is_harmful, set(text))))


def _joined(text: str, clean: str) -> str:
    """Restore the joiners that join something; the two texts correspond character by character."""
    if _APART not in text and _TOGETHER not in text:
        return clean
    shown = list(clean)
    for at, char in enumerate(text):
        if char in (_APART, _TOGETHER) and _joins(text, at):
            shown[at] = char
    return "".join(shown)


def _joins(text: str, at: int) -> bool:
    """Return whether that joiner is part of the writing."""
    import unicodedata

    if at and unicodedata.combining(text[at - 1]) == _VIRAMA:
        return True
    before, after = _neighbours(text[at])
    return bool(before.search(text, max(at - _REACH, 0), at) and after.match(text, at + 1))


@cache
def _neighbours(joiner: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns before and after a joiner: a picture each, or letters that join."""
    import re

    if joiner == _TOGETHER:
        return re.compile(f"[{_PICTURES_JOINED}][{_SKINS}]?\ufe0f?\\Z"), re.compile(f"[{_PICTURES_JOINED}]")
    signs = f"[{_SIGNS}]{{0,{_REACH}}}"
    return re.compile(f"[{_TIED_ON}]{signs}\\Z"), re.compile(f"{signs}[{_TIED_ON}{_TIED_BACK}]")


def escape_json(document: str) -> str:
    r"""Return a JSON document with the same characters written as ``\uXXXX``, so that its value stays.

    JSON itself escapes C0 controls only, and a document may be displayed on a terminal as well.
    """
    if not any(map(_is_harmful, set(document))):
        return document
    import re

    ranges = "".join(f"{chr(first)}-{chr(last)}" for first, last in _INVISIBLE)
    return re.sub(f"[\x7f{ranges}]", _escape, document)


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
