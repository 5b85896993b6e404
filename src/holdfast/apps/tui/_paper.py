"""Pages that the command prints, taken as something the app can show."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group

from holdfast.apps.cli._app import App
from holdfast.apps.cli._ink import Colour
from holdfast.apps.cli._screen import Screen
from holdfast.apps.tui._safe import lay_out

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.strip import Strip

    from holdfast.library import Holdfast

__all__ = ["printed"]


def printed(library: Holdfast, width: int, page: Callable[[App], None]) -> list[Strip]:
    """The lines that ``page`` prints onto a screen of that width."""
    paper = _Paper(library, width)
    page(paper)
    return lay_out(Group(*paper.pieces), width)


class _Paper(App):
    """What a verb gets, with a sheet in the place of the terminal."""

    def __init__(self, library: Holdfast, width: int) -> None:
        super().__init__()
        self._library = library
        ink = _Ink(width)
        self.pieces = ink.pieces
        self.out = self.err = _Sheet(ink, width)


class _Sheet(Screen):
    def __init__(self, ink: Colour, width: int) -> None:
        super().__init__(io.StringIO())
        self.is_terminal = True
        self._chosen = ink
        self._width = width

    @property
    def columns(self) -> int:
        return self._width


class _Collector(Console):
    """A console that keeps what it is asked to print."""

    def __init__(self, width: int) -> None:
        super().__init__(file=io.StringIO(), force_terminal=True, width=width)
        self.pieces: list[Any] = []

    def print(self, *objects: Any, **_: Any) -> None:
        """Keep it."""
        self.pieces += objects


class _Ink(Colour):
    def __init__(self, width: int) -> None:
        self._console = console = _Collector(width)
        self.pieces = console.pieces
