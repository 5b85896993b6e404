"""The one sink of the app: whatever a session holds leaves here without power over a terminal.

Textual and Rich pass escape sequences, C1 controls and bidi marks on as they are. Text is made
harmless before it is laid out, as widths change with it, and again after it, since Markdown turns
``&#27;`` into the character that it names.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from functools import cache

from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from rich.theme import Theme
from textual.content import Content
from textual.strip import Strip

from holdfast.security import neutralise, neutralise_line

_TAB = 4


def one_line(text: str) -> str:
    """Text for a place of one line."""
    return neutralise_line(text)


def paragraphs(text: str) -> str:
    """Text with its newlines; tabs become spaces."""
    return neutralise(text.replace("\r\n", "\n")).expandtabs(_TAB)


def content(text: str) -> Content:
    """Text for a widget of Textual, which it does not read as markup."""
    return Content(paragraphs(text))


def styled(*pieces: tuple[str, str]) -> Text:
    """A line of pieces, each with its style."""
    line = Text(no_wrap=True, end="")
    for text, style in pieces:
        line.append(one_line(text), style)
    return line


def cut(text: str, width: int) -> str:
    """One line of at most so many columns; what is missing is told by an ellipsis."""
    line = Text(one_line(text), no_wrap=True, end="")
    line.truncate(max(width, 0), overflow="ellipsis")
    return line.plain


def first_line(text: Text, width: int) -> list[Strip]:
    """A line that is cut where it ends, as one line of that width."""
    text.truncate(width, overflow="ellipsis")
    return lay_out(text, width)[:1] or [Strip.blank(0)]


def lay_out(renderable: RenderableType, width: int) -> list[Strip]:
    """What Rich makes of something, in lines of at most ``width`` columns."""
    options = _console().options.update(width=max(width, 1), height=None)
    return [_harmless(line, width) for line in _console().render_lines(renderable, options, pad=False)]


def _harmless(segments: Iterable[Segment], width: int) -> Strip:
    shown = (segment for segment in segments if not segment.control and segment.text)
    strip = Strip([Segment(one_line(segment.text), _unlinked(segment.style)) for segment in shown])
    # A character that became visible may be wider than the one that was laid out.
    return strip.crop(0, width) if strip.cell_length > width else strip


def _unlinked(style: Style | None) -> Style | None:
    """The look without a link or anything else that acts."""
    if style is None or not (style.link or style.meta):
        return style
    return style.clear_meta_and_links()


# Headings and lists are told by weight and lines: no colour fits a dark and a light ground.
_MARKDOWN = Theme(
    {
        **{f"markdown.h{level}": "bold underline" for level in (1, 2)},
        **{f"markdown.h{level}": "bold" for level in (3, 4, 5, 6)},
        **{f"markdown.{part}": "bold" for part in ("code", "item.bullet", "item.number")},
        **{f"markdown.{part}": "underline" for part in ("link", "link_url")},
        **{f"markdown.table.{part}": "bold" for part in ("header", "border")},
        "markdown.block_quote": "italic",
        "markdown.hr": "",
    }
)


@cache
def _console() -> Console:
    return Console(
        theme=_MARKDOWN,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
        width=80,
    )
