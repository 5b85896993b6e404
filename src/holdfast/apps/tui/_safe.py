"""The one sink of the app: whatever a session holds leaves here without power over a terminal.

Textual and Rich pass escape sequences, C1 controls and bidi marks on as they are: what is laid out here
goes through `harmless_lines`.
"""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text
from textual.content import Content
from textual.strip import Strip

from holdfast.apps.render.markdown import harmless_lines, paragraphs
from holdfast.security import neutralise_line


def one_line(text: str) -> str:
    """Return text for a place of one line."""
    return neutralise_line(text)


def content(text: str) -> Content:
    """Return text for a widget of Textual, which it does not read as markup."""
    return Content(paragraphs(text))


def styled(*pieces: tuple[str, str]) -> Text:
    """Return a line of pieces, each with its style."""
    line = Text(no_wrap=True, end="")
    for text, style in pieces:
        line.append(one_line(text), style)
    return line


def cut(text: str, width: int) -> str:
    """Return one line of at most that many columns; an ellipsis marks a cut."""
    line = Text(one_line(text), no_wrap=True, end="")
    line.truncate(max(width, 0), overflow="ellipsis")
    return line.plain


def lay_out(renderable: RenderableType, width: int) -> list[Strip]:
    """Render with Rich, in lines of at most ``width`` columns."""
    strips = (Strip(line) for line in harmless_lines(renderable, width))
    # A character that became visible may be wider than the one that was laid out.
    return [strip.crop(0, width) if strip.cell_length > width else strip for strip in strips]
