"""The one place where the command writes: everything shown passes through here.

Verbs hand over text and a style by name; here text is neutralised, laid out for the width of a
terminal, or written plainly into a pipe. Nothing else in the command prints.
"""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeVar

import msgspec

from holdfast.security import escape_json, neutralise, neutralise_line

if TYPE_CHECKING:
    from holdfast.apps.cli._flow import Flow
    from holdfast.apps.cli._ink import Ink

__all__ = ["Column", "Piece", "Screen", "Span"]

T = TypeVar("T")
_INDENT_SPACES = 2
_PAGE_COLUMNS = 120


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


class Screen:
    """A stream that people look at, or that a program reads."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.is_terminal = _is_terminal(stream)
        self._chosen: Ink | None = None
        self._flow: Flow | None = None
        self._mid_line = False

    @property
    def columns(self) -> int:
        """How many characters fit on a line: those of the terminal, or what a page can hold."""
        return _columns(self._stream) if self.is_terminal else _PAGE_COLUMNS

    def line(self, *pieces: Piece, hang: int = 0) -> None:
        """One line; what a terminal has no room for goes on below, ``hang`` columns indented."""
        self._ink.line([_clean(piece) for piece in pieces], hang)

    def text(self, text: str, *, indent: int = 1, style: str = "") -> None:
        """Some paragraphs, indented, with their own newlines."""
        self._ink.text(Span(neutralise(text), style), indent * _INDENT_SPACES)

    def stream(self, text: str) -> None:
        """A piece of a text as it comes; a terminal shows it as soon as a word is whole."""
        clean = neutralise(text)
        if self.is_terminal:
            from holdfast.apps.cli._flow import Flow

            self._flow = self._flow or Flow(_columns(self._stream))
            clean = self._flow.feed(clean)
        else:
            self._mid_line = not clean.endswith("\n") if clean else self._mid_line
        self._stream.write(clean)
        self._stream.flush()

    def end_stream(self) -> None:
        """Show the rest of what was streamed, and begin a new line if one is open."""
        rest = self._flow.rest() if self._flow else "\n" * self._mid_line
        self._flow, self._mid_line = None, False
        self._stream.write(rest)
        self._stream.flush()

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[Piece]]) -> None:
        """Rows under a heading."""
        clean = [[_clean(cell) for cell in row] for row in rows]
        self._ink.table(list(columns), clean)

    def json(self, value: Any) -> None:
        """A JSON document, indented; control characters in it are escaped."""
        self._write_json(msgspec.json.format(msgspec.json.encode(value), indent=2))

    def json_line(self, value: Any) -> None:
        """The same on a line of its own."""
        self._write_json(msgspec.json.encode(value))

    def sink(self, *, is_json: bool) -> Sink:
        """A file of bytes for a document: as it is into a pipe, without harm on a terminal."""
        self._stream.flush()
        return Sink(self._stream, is_json=is_json, is_terminal=self.is_terminal)

    def track(self, items: Sequence[T], what: str, done: int, total: int) -> Iterator[T]:
        """The items one by one, under a bar that is gone when they are."""
        return self._ink.track(items, what, done, total)

    def meter(self, what: str) -> AbstractContextManager[Callable[[int, int], None]]:
        """For work that says itself how far it is: a function to call with (done, total)."""
        return self._ink.meter(what)

    def flush(self) -> None:
        """Write what is waiting, so that a full disk is noticed while it can be told."""
        self._stream.flush()

    def _write_json(self, document: bytes) -> None:
        text = escape_json(document.decode())
        if not _is_unicode(self._stream):
            text = _in_ascii(text)
        self._stream.write(text + "\n")

    @property
    def _ink(self) -> Ink:
        if self._chosen is None:
            from holdfast.apps.cli._ink import Colour, Plain

            self._chosen = (Colour if self.is_terminal else Plain)(self._stream)
        return self._chosen


class Sink:
    """Where the bytes of a document go. A terminal gets no character that it could obey."""

    def __init__(self, stream: TextIO, *, is_json: bool, is_terminal: bool) -> None:
        self._stream = stream
        self._bytes = None if is_terminal else getattr(stream, "buffer", None)
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._harmless = escape_json if is_json else neutralise

    def write(self, data: bytes) -> None:
        """The next bytes."""
        if self._bytes is not None:
            self._bytes.write(data)
        else:
            self._stream.write(self._harmless(self._decode(data)))


def _clean(piece: Piece) -> Span:
    """The sink for single lines: whatever a session holds, it cannot leave its cell."""
    if isinstance(piece, Span):
        return Span(neutralise_line(piece.text), piece.style)
    return Span(neutralise_line(piece))


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:  # a stream that is closed already
        return False


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns - 1
    except (OSError, ValueError):
        return 79


def _is_unicode(stream: TextIO) -> bool:
    encoding = (getattr(stream, "encoding", None) or "utf-8").lower().replace("_", "-")
    return encoding in ("utf-8", "utf8")


def _in_ascii(document: str) -> str:
    import json

    return json.dumps(json.loads(document), ensure_ascii=True)


def standard_output() -> Screen:
    """The screen for results."""
    return Screen(_forgiving(sys.stdout))


def standard_error() -> Screen:
    """The screen for progress and complaints."""
    return Screen(_forgiving(sys.stderr))


def _forgiving(stream: TextIO) -> TextIO:
    """The stream; a character that its encoding lacks is written as an escape."""
    if not _is_unicode(stream) and hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
    return stream
