"""What people read, line by line: words with a style each, and tables, onto whatever shows them.

Here text is neutralised, so nothing that a session holds can leave its cell.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import namedtuple

from holdfast.security import neutralise, neutralise_line

TYPE_CHECKING = False  # the command's quick start loads this, and loading `typing` takes longer
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.apps.render.ink import Ink

__all__ = ["Canvas", "Column", "Piece", "Span"]

_INDENT_SPACES = 2


class Span(namedtuple("_Span", ("text", "style"), defaults=("",))):  # noqa: PYI024 - see above
    """Some text and how it looks where there are colours."""

    __slots__ = ()
    text: str
    style: str


Piece = str | Span


class Column:
    """One column of a table; only a ``flexible`` one is cut when the terminal is too narrow."""

    __slots__ = ("flexible", "least", "name", "optional", "right", "spared")

    def __init__(
        self,
        name: str,
        *,
        right: bool = False,
        flexible: bool = False,
        optional: bool = False,
        spared: bool = False,
        least: int = 18,
    ) -> None:
        self.name = name
        self.right = right
        self.flexible = flexible
        self.optional = optional
        """Left out on a terminal if no row has anything in it."""
        self.spared = spared
        """Left out on a terminal that is too narrow."""
        self.least = least
        """As wide a flexible one should be before another is left out for it."""


class Canvas(ABC):
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
