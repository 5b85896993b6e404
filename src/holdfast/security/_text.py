"""Text of strangers made harmless to look at.

What a model or a tool said may hold sequences that move the cursor, rename the window, write to the
clipboard, turn the reading direction around or hide words. Nothing of that reaches a screen: each
such character becomes one that can be seen, so that the reader also learns that it was there.
"""

from __future__ import annotations

from functools import cache

TYPE_CHECKING = False  # what most texts do not need is not loaded, and not made, before one does
if TYPE_CHECKING:
    import re

_PICTURES = 0x2400  # ␀ and its neighbours: a picture for each control character, in their order
_UNKNOWN = "\N{REPLACEMENT CHARACTER}"

# Everything invisible that is not a C0 control: what it is, and why it is not shown as it is. These
# are all format characters (Cf) but the signs that stand before a number or a word and have a shape
# (Arabic, Syriac, Kaithi: Prepended_Concatenation_Mark): they hide nothing and turn nothing around.
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
    (0xD800, 0xDFFF),  # halves of surrogate pairs, which no encoding takes
    (0xFE00, 0xFE0D),  # variation selectors but the two that emoji need
    (0xFEFF, 0xFEFF),  # zero-width no-break space
    (0xFFA0, 0xFFA0),  # halfwidth Hangul filler
    (0xFFF0, 0xFFFB),  # interlinear annotations
    (0x13430, 0x1343F),  # joiners of Egyptian hieroglyphs: they move and cover their neighbours
    (0x1BCA0, 0x1BCA3),  # shorthand format controls
    (0x1D173, 0x1D17A),  # musical format controls
    (0xE0000, 0xE0FFF),  # tags and further selectors: whole sentences can be hidden in them
)
# Two that belong to everyday text (emoji, Persian) get a mark that reads better than a question.
_MARKS = {0x200C: "¦", 0x200D: "⁀"}


@cache
def _visible() -> dict[int, str]:
    """The character to show for each one that is not shown as it is."""
    controls = {code: chr(_PICTURES + code) for code in range(0x20) if chr(code) not in "\n\t"}
    invisible = {code: _UNKNOWN for first, last in _INVISIBLE for code in range(first, last + 1)}
    return controls | {0x7F: "\N{SYMBOL FOR DELETE}"} | invisible | _MARKS


@cache
def _visible_in_line() -> dict[int, str]:
    """The character to show for each one, where a line may not end."""
    return _visible() | {code: chr(_PICTURES + code) for code in map(ord, "\n\t")}


@cache
def _is_harmful(char: str) -> bool:
    """Whether one character is harmful, without what a pattern takes to load and to make."""
    return char == "\x7f" or any(first <= ord(char) <= last for first, last in _INVISIBLE)


def neutralise(text: str) -> str:
    """``text`` with every character that a terminal could obey or hide replaced by a visible one.

    Newlines and tabs stay. One character gives one character, nothing else changes, and doing it
    twice changes nothing more.
    """
    return text if _is_harmless(text) else text.translate(_visible())


def neutralise_line(text: str) -> str:
    """``text`` for a place of one line: newlines and tabs become visible too."""
    return text if _is_harmless(text) else text.translate(_visible_in_line())


def _is_harmless(text: str) -> bool:
    """Whether nothing in a line is to be replaced, as in most; found without the tables."""
    return text.isprintable() and (text.isascii() or not any(map(_is_harmful, set(text))))


def escape_json(document: str) -> str:
    r"""A JSON document with the same characters written as ``\uXXXX``, so that its value stays.

    JSON itself escapes C0 controls only, and a document may be looked at on a terminal as well.
    """
    if not any(map(_is_harmful, set(document))):
        return document
    import re

    ranges = "".join(f"{chr(first)}-{chr(last)}" for first, last in _INVISIBLE)
    return re.sub(f"[\x7f{ranges}]", _escape, document)


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
