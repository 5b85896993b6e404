"""Pages that the command prints too, taken as something the app can show."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.text import Text

from holdfast.apps.shown.ink import STYLES, Colour
from holdfast.apps.shown.page import Page, Span
from holdfast.apps.tui._safe import lay_out

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.strip import Strip

__all__ = ["printed"]


def printed(width: int, write: Callable[[Page], None]) -> list[Strip]:
    """The lines that ``write`` puts onto a page of that width."""
    paper = _Paper(width)
    write(paper)
    return lay_out(Group(*paper.ink.pieces), width)


class _Paper(Page):
    """A sheet in the place of the terminal."""

    def __init__(self, width: int) -> None:
        self._width = width
        self.ink = _Ink(width)

    @property
    def columns(self) -> int:
        return self._width

    def _ready(self) -> Colour:
        return self.ink


class _Collector(Console):
    """A console that keeps what it is asked to print."""

    def __init__(self, width: int) -> None:
        super().__init__(file=io.StringIO(), force_terminal=True, width=width)
        self.pieces: list[Any] = []

    def print(self, *objects: Any, **_: Any) -> None:
        """Keep it."""
        self.pieces += objects


class _Ink(Colour):
    """Keeps what is laid out, for a width of its own, in the place of writing it."""

    def __init__(self, width: int) -> None:
        super().__init__(io.StringIO())
        self._console = console = _Collector(width)
        self.pieces = console.pieces

    @property
    def _width(self) -> int:
        return self._console.width

    def _write(self, spans: list[Span]) -> None:
        line = Text()
        for span in spans:
            line.append(span.text, STYLES[span.style])
        line.rstrip()
        self.pieces.append(line)
