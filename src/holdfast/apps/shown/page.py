"""What people read, line by line: words with a style each, and tables, onto whatever shows them.

Here text is neutralised, so nothing that a session holds can leave its cell.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from holdfast.security import neutralise, neutralise_line

if TYPE_CHECKING:
    from holdfast.apps.shown.ink import Ink

__all__ = ["Column", "Page", "Piece", "Span"]

_INDENT_SPACES = 2


class Span(NamedTuple):
    """Some text and how it looks where there are colours."""

    text: str
    style: str = ""


Piece = str | Span


class Column(NamedTuple):
    """One column of a table; only a ``flexible`` one is cut when the terminal is too narrow."""

    name: str
    right: bool = False
    flexible: bool = False
    optional: bool = False
    """Left out on a terminal if no row has anything in it."""
    spared: bool = False
    """Left out on a terminal that is too narrow."""
    least: int = 18
    """As wide a flexible one should be before another is left out for it."""


class Page(ABC):
    """Something to write on."""

    @property
    @abstractmethod
    def columns(self) -> int:
        """How many characters fit on a line."""

    @abstractmethod
    def _ready(self) -> Ink:
        """What lays the text out, ready to write."""

    def line(self, *pieces: Piece, hang: int = 0) -> None:
        """One line; what a terminal has no room for goes on below, ``hang`` columns indented."""
        self._ready().line([_clean(piece) for piece in pieces], hang)

    def text(self, text: str, *, indent: int = 1, style: str = "") -> None:
        """Some paragraphs, indented, with their own newlines."""
        self._ready().text(Span(neutralise(text), style), indent * _INDENT_SPACES)

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[Piece]]) -> None:
        """Rows under a heading."""
        clean = [[_clean(cell) for cell in row] for row in rows]
        self._ready().table(list(columns), clean)


def _clean(piece: Piece) -> Span:
    """The sink for single lines: whatever a session holds, it cannot leave its cell."""
    if isinstance(piece, Span):
        return Span(neutralise_line(piece.text), piece.style)
    return Span(neutralise_line(piece))
