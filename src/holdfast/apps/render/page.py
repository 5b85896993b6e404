"""Text output line by line: styled words and tables, for any target.

Here text is neutralised, so nothing that a session holds can leave its cell.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import namedtuple
from functools import cached_property

from holdfast.security import neutralise, neutralise_line

TYPE_CHECKING = False  # the command's quick start loads this, and loading `typing` takes longer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TextIO

    from rich.console import Console

_INDENT_SPACES = 2
CHANGE_STYLES = {"-": "bad", "+": "good"}
"""The style of a line of a change, by its sign."""


class Span(namedtuple("_Span", ("text", "style"), defaults=("",))):  # noqa: PYI024 - see above
    """Some text and how it looks where there are colours."""

    __slots__ = ()
    text: str
    style: str


Piece = str | Span


class Column:
    """One column of a table; only a ``flexible`` one is cut when the terminal is too narrow."""

    __slots__ = ("flexible", "least", "middle", "name", "optional", "right", "spared")

    def __init__(
        self,
        name: str,
        *,
        right: bool = False,
        flexible: bool = False,
        optional: bool = False,
        spared: bool = False,
        middle: bool = False,
        least: int = 18,
    ) -> None:
        self.name = name
        self.right = right
        self.flexible = flexible
        self.optional = optional  # left out on a terminal if no row has anything in it
        self.spared = spared  # left out on a terminal that is too narrow
        self.middle = middle  # cut in the middle, down to ``least``, before anything else is cut or left out
        self.least = least  # as wide a flexible one should be before another is left out for it


class Canvas(ABC):
    """Something to write on."""

    @property
    @abstractmethod
    def columns(self) -> int:
        """Return how many characters fit on a line."""

    @abstractmethod
    def _ready(self) -> Ink:
        """Return the layout engine, ready to write."""

    def line(self, *pieces: Piece, hang: int = 0) -> None:
        """Print one line; a terminal breaks it if necessary, with ``hang`` columns of indentation."""
        self._ready().line([_clean(piece) for piece in pieces], hang)

    def text(self, text: str, *, indent: int = 1, style: str = "") -> None:
        """Print indented paragraphs with their own newlines."""
        self._ready().text(Span(neutralise(text), style), indent * _INDENT_SPACES)

    def markdown(self, text: str, *, indent: int = 1) -> None:
        """Print Markdown, rendered if there are colours, otherwise as written."""
        self._ready().markdown(text, indent * _INDENT_SPACES)

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[Piece]]) -> None:
        """Print rows under a heading."""
        clean = [[_clean(cell) for cell in row] for row in rows]
        self._ready().table(list(columns), clean)


def _clean(piece: Piece) -> Span:
    """Return the sink for single lines: whatever a session holds, it cannot leave its cell."""
    if isinstance(piece, Span):
        return Span(neutralise_line(piece.text), piece.style)
    return Span(neutralise_line(piece))


# The layout of clean text: for the width of a terminal, as plain lines anywhere else. Text was neutralised above. Rich
# wraps paragraphs and long lines on a terminal, and is loaded only for them, since it takes longer to load than most
# commands to run.
_GAP = 2  # spaces between columns
_FLEXIBLE_MIN = 18
_FLEXIBLE_FLOOR = 6
_USUAL_WIDTH = 80

# A style's name says what it is for; only here does it become a look.
STYLES = {
    "": "",
    "faint": "dim",
    "strong": "bold",
    "name": "cyan",
    "good": "green",
    "warning": "yellow",
    "bad": "bold red",
    "user": "bold green",
    "assistant": "bold blue",
    "tool": "magenta",
    "thinking": "italic dim",
    "found": "bold reverse",
}

# The same for where rich is not loaded; a test compares the two.
_CODES = {"bold": "1", "dim": "2", "italic": "3", "reverse": "7", "red": "31", "green": "32", "yellow": "33"}
_CODES |= {"blue": "34", "magenta": "35", "cyan": "36"}
SGR = {name: ";".join(sorted(_CODES[word] for word in look.split())) for name, look in STYLES.items() if look}


class Ink(ABC):
    """Writes clean text onto a stream."""

    def __init__(self, stream: TextIO, *, colour: bool = False) -> None:
        self._stream = stream
        self._colour = colour

    @abstractmethod
    def line(self, spans: list[Span], hang: int) -> None:
        """Print a line, broken if necessary, with ``hang`` columns of indentation after the first."""

    @abstractmethod
    def text(self, span: Span, indent: int) -> None:
        """Print indented lines."""

    def markdown(self, text: str, indent: int) -> None:
        """Print Markdown as written."""
        self.text(Span(neutralise(text)), indent)

    @abstractmethod
    def table(self, columns: list[Column], rows: list[list[Span]]) -> None:
        """Print a heading and rows, aligned."""


class Plain(Ink):
    """For pipes and files: nothing cut, every column in every row, colours only if asked for."""

    def line(self, spans: list[Span], hang: int) -> None:
        """Print the text on one line of any length."""
        self._stream.write(_painted_line(spans, colour=self._colour))

    def text(self, span: Span, indent: int) -> None:
        """Print indented lines without breaking them."""
        for line in span.text.split("\n"):
            shown = _painted(span._replace(text=line.rstrip()), colour=self._colour)
            self._stream.write((" " * indent + shown if shown else "") + "\n")

    def table(self, columns: list[Column], rows: list[list[Span]]) -> None:
        """Print columns as wide as their widest cell; an empty cell is a dash."""
        table = [[_heading(column) for column in columns]]
        table += [[span if span.text else span._replace(text="-") for span in r] for r in rows]
        widths = [max(cells(s.text) for s in column) for column in zip(*table, strict=True)]
        for row in table:
            parts = []
            for column, width, span in zip(columns, widths, row, strict=True):
                space = " " * (width - cells(span.text))
                painted = _painted(span, colour=self._colour)
                parts.append(space + painted if column.right else painted + space)
            self._stream.write((" " * _GAP).join(parts).rstrip() + "\n")


def _painted(span: Span, *, colour: bool) -> str:
    if not colour or not span.style or not span.text:
        return span.text
    return f"\x1b[{SGR[span.style]}m{span.text}\x1b[0m"


def _painted_line(spans: list[Span], *, colour: bool) -> str:
    """Return the spans as a line, without the spaces that it ends with."""
    kept = list(spans)
    while kept and not (text := kept[-1].text.rstrip()):
        kept.pop()
    if kept:
        kept[-1] = kept[-1]._replace(text=text)
    return "".join(_painted(span, colour=colour) for span in kept) + "\n"


class Colour(Ink):
    """For a terminal: colours, wrapped at its width, tables that fit."""

    @cached_property
    def _console(self) -> Console:
        from rich.console import Console

        return Console(
            file=self._stream,
            force_terminal=True,
            # The sixteen colours that every terminal has, in the shades that its user chose.
            color_system="standard" if self._colour else None,
            no_color=not self._colour,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )

    @property
    def _width(self) -> int:
        """The width by rich's rules: what the user says, else any standard stream's terminal."""
        # Then rich has rules of its own, and is asked.
        if os.environ.get("TERM", "").lower() == "unknown":
            return self._console.width
        if (columns := os.environ.get("COLUMNS", "")).isdigit():
            return int(columns)
        for descriptor in range(3):
            try:
                return os.get_terminal_size(descriptor).columns or _USUAL_WIDTH
            except OSError:
                continue
        return _USUAL_WIDTH

    def line(self, spans: list[Span], hang: int) -> None:
        """Print a line, broken between words."""
        width = max(self._width - hang, _FLEXIBLE_MIN)
        if sum(cells(span.text) for span in spans) <= width:
            self._write(spans)
            return
        from rich.text import Text

        text = Text()
        for span in spans:
            text.append(span.text, STYLES[span.style])
        lines = text.wrap(self._console, width, overflow="fold")
        for number, line in enumerate(lines):
            line.rstrip()
            self._console.print(Text(" " * hang if number else "").append_text(line), soft_wrap=True)

    def text(self, span: Span, indent: int) -> None:
        """Print indented text; broken lines are indented too."""
        from rich.padding import Padding
        from rich.text import Text

        text = Text(span.text, STYLES[span.style], overflow="fold")
        self._console.print(Padding(text, (0, 0, 0, indent)))

    def markdown(self, text: str, indent: int) -> None:
        """Print Markdown, rendered if there are colours."""
        if not self._colour:
            super().markdown(text, indent)
            return
        from rich.segment import Segment, Segments

        from holdfast.apps.render.markdown import harmless_lines, markdown, paragraphs

        for line in harmless_lines(markdown(paragraphs(text)), self._width - indent):
            shown = list(line)
            # Trailing blanks would wrap on a terminal that was made narrower.
            while shown and not shown[-1].text.strip():
                shown.pop()
            margin = [Segment(" " * indent)] if shown else []
            self._console.print(Segments([*margin, *shown, Segment.line()]))

    def table(self, columns: list[Column], rows: list[list[Span]]) -> None:
        """Print a table no wider than the terminal, as far as columns can be cut."""
        kept, widths = fit(columns, rows, self._width)
        for row in ([_heading(column) for column in columns], *rows):
            line: list[Span] = []
            for index, width in zip(kept, widths, strict=True):
                cell = row[index]._replace(text=_cut(row[index].text, width, middle=columns[index].middle))
                space = Span(" " * (width - cells(cell.text)))
                gap = [Span(" " * _GAP)] if any(before.text for before in line) else []
                line += [*gap, space, cell] if columns[index].right else [*gap, cell, space]
            self._write(line)

    def _write(self, spans: list[Span]) -> None:
        # Lines of ours and of rich take turns, so none may wait in a buffer.
        self._stream.write(_painted_line(spans, colour=self._colour))
        self._stream.flush()


def _cut(text: str, width: int, *, middle: bool = False) -> str:
    """Return a text that takes no more columns, with an ellipsis for what is missing."""
    if cells(text) <= width:
        return text
    if middle and is_narrow(text):
        return f"{text[: (width - 1) // 2]}…{text[-(width // 2) :]}"
    if is_narrow(text):
        return text[: width - 1] + "…"
    from rich.cells import set_cell_size

    return set_cell_size(text, width - 1) + "…"


def fit(columns: list[Column], rows: list[list[Span]], width: int) -> tuple[list[int], list[int]]:
    """Return the columns to show, by number, and their widths: in all at most ``width`` if that can be.

    Optional columns go if they are empty, those that can be spared go where there is no room for
    a readable flexible one, the last first; what is missing then is taken from the flexible ones.
    """
    natural = [max([len(c.name), *(cells(r[i].text) for r in rows)]) for i, c in enumerate(columns)]
    kept = [
        index for index, column in enumerate(columns) if not column.optional or any(row[index].text for row in rows)
    ]
    if sum(natural[index] + _GAP for index in kept) - _GAP > width:
        natural = [min(n, c.least) if c.middle else n for n, c in zip(natural, columns, strict=True)]
    # One by one from the right: what stands there is what can best be done without.
    while (lack := _lack(columns, natural, kept, width)) > 0:
        spared = [index for index in kept if columns[index].spared]
        if not spared:
            break
        kept.remove(spared[-1])
    widths = natural.copy()
    # The space that short columns do not need goes to the long ones, so the shortest is served first.
    waiting = sorted((i for i in kept if columns[i].flexible), key=lambda index: natural[index])
    spare = sum(min(natural[index], columns[index].least) for index in waiting) - lack
    for position, index in enumerate(waiting):
        share = spare // (len(waiting) - position)
        widths[index] = min(natural[index], max(share, _FLEXIBLE_FLOOR))
        spare -= widths[index]
    return kept, [widths[index] for index in kept]


def _lack(columns: list[Column], natural: list[int], kept: list[int], width: int) -> int:
    """Return how much is missing to give every column the width it needs to be readable."""
    needed = (
        min(natural[index], columns[index].least) if columns[index].flexible else natural[index] for index in kept
    )
    return sum(needed) + _GAP * (len(kept) - 1) - width


def _heading(column: Column) -> Span:
    return Span(neutralise_line(column.name), "faint")


def cells(text: str) -> int:
    """Return how many columns of a terminal a text takes, without invisible characters."""
    if text.isascii() or is_narrow(text):
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def is_narrow(text: str) -> bool:
    """Return whether each character takes one column, as far as that is known without a table of widths.

    Those below the first that adds itself to another one do, and dashes, quotes, the ellipsis, arrows, ≤ and ≥, and
    what lines and bars are drawn with.
    """
    narrow = ("\u2010", "\u2027"), ("←", "↓"), ("≤", "≥"), ("\u2500", "\u259f")
    return all(char < "\u0300" or any(low <= char <= high for low, high in narrow) for char in set(text))
