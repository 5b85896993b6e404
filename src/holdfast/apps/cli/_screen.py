"""The one place where the command writes: everything shown passes through here.

Verbs hand over text and a style by name; here text is neutralised, laid out for the width of a
terminal, or written plainly into a pipe. Nothing else in the command prints.
"""

from __future__ import annotations

import codecs
import os
import sys
from contextlib import contextmanager

from holdfast.apps.render.page import Canvas
from holdfast.security import escape_json, neutralise

# Neither `typing` nor `msgspec`: they take longer to load than a short list to show.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, ClassVar, TextIO

    from holdfast.apps.cli._flow import Flow
    from holdfast.apps.cli._pager import Held
    from holdfast.apps.cli._progress import Meter
    from holdfast.apps.render.page import Ink

_PAGE_COLUMNS = 120
COLOURS = ("auto", "always", "never")
_FORCING = ("FORCE_COLOR", "CLICOLOR_FORCE")


def wants_colour(choice: str | None, *, is_terminal: bool, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether to use colours: by ``--color``, else by NO_COLOR, FORCE_COLOR and CLICOLOR.

    A variable that is empty says nothing, and `0` takes back what FORCE_COLOR asks for. Without
    any of them only a terminal has colours.
    """
    if choice in ("always", "never"):
        return choice == "always"
    if environment.get("NO_COLOR"):
        return False
    if any(environment.get(name, "0") not in ("", "0") for name in _FORCING):
        return True
    return is_terminal and environment.get("CLICOLOR") != "0"


class Screen(Canvas):
    """A stream that people look at, or that a program reads."""

    # Progress lines: other output to the same terminal removes them first.
    _meters: ClassVar[list[Meter]] = []

    def __init__(self, stream: TextIO, colour: str | None = None) -> None:
        self._stream = stream
        self.beside = stream  # where a line that comes and goes is drawn, beside what stays
        self.is_terminal = _is_terminal(stream)
        self.is_unicode = _is_unicode(stream)
        self.colour = colour  # always, never or auto, as the user asked for; None if nothing was said
        self._chosen: Ink | None = None
        self._flow: Flow | None = None
        self._mid_line = False

    @property
    def columns(self) -> int:
        """Return how many characters fit on a line of the terminal, or of a page."""
        return _columns(self._stream) if self.is_terminal else _PAGE_COLUMNS

    def stream(self, text: str) -> None:
        """Print a piece of streamed text; a terminal shows it when a word is complete."""
        # A model may say what a terminal obeys: nothing reaches a screen as it came.
        clean = neutralise(text)
        if self.is_terminal:
            from holdfast.apps.cli._flow import Flow

            self._flow = self._flow or Flow(_columns(self._stream))
            clean = self._flow.feed(clean)
        else:
            # A pipe gets the pieces as they come; only whether a line is open has to be known.
            self._mid_line = not clean.endswith("\n") if clean else self._mid_line
        self._stream.write(clean)
        self._stream.flush()

    def end_stream(self) -> None:
        """Show the rest of what was streamed, and begin a new line if one is open."""
        rest = self._flow.rest() if self._flow else "\n" * self._mid_line
        self._flow, self._mid_line = None, False
        self._stream.write(rest)
        self._stream.flush()

    def json(self, value: Any) -> None:
        """Print a JSON document, indented, with control characters escaped."""
        import msgspec

        from holdfast.library.answers import encoded

        self.json_document(msgspec.json.format(encoded(value), indent=2).decode())

    def json_line(self, value: Any) -> None:
        """Print a JSON document on one line."""
        from holdfast.library.answers import encoded

        self.json_document(encoded(value).decode())

    def json_document(self, document: str) -> None:
        """Print an encoded JSON document, with control characters escaped."""
        # Escapes are JSON all the same: programs read what was recorded, terminals obey nothing.
        text = escape_json(document)
        if not self.is_unicode:
            import json

            text = json.dumps(json.loads(text), ensure_ascii=True)
        self._clear_meters()
        self._stream.write(text + "\n")

    def sink(self, *, is_json: bool) -> ByteSink:
        """Return a file of bytes for a document: as it is into a pipe, without harm on a terminal."""
        self._clear_meters()
        # Bytes go past the text layer, so what waits there has to be written first.
        self._stream.flush()
        return ByteSink(self._stream, is_json=is_json, is_terminal=self.is_terminal)

    @contextmanager
    def meter(self, what: str, *, in_bytes: bool = False) -> Iterator[Callable[[int, int], None]]:
        """Yield a function to call with (done, total), for work that reports its own progress."""
        from holdfast.apps.cli._progress import Meter

        meter = Meter(self, what, in_bytes=in_bytes)
        with self.showing(meter):
            yield meter.update

    @contextmanager
    def showing(self, meter: Meter) -> Iterator[None]:
        """Allow the meter to be drawn during the block, and remove it afterwards."""
        # On the class: standard output and standard error are often the same terminal.
        Screen._meters.append(meter)
        try:
            yield
        finally:
            Screen._meters.remove(meter)
            meter.clear()

    def pass_through(self, stream: Held | TextIO) -> None:
        """Write to that one from now on, which passes it on to the stream of this screen."""
        self._stream = stream  # type: ignore[assignment]  # as much of a stream as is used here
        self._chosen = None

    def flush(self) -> None:
        """Write what is waiting, so that a full disk is noticed while it can be told."""
        self._stream.flush()

    def _clear_meters(self) -> None:
        for meter in Screen._meters:
            meter.clear()

    def _ready(self) -> Ink:
        self._clear_meters()
        if self._chosen is None:
            from holdfast.apps.render.page import Colour, Plain

            colour = wants_colour(self.colour, is_terminal=self.is_terminal)
            self._chosen = (Colour if self.is_terminal else Plain)(self._stream, colour=colour)
        return self._chosen


class ByteSink:
    """The output for the bytes of a document. A terminal gets no control characters."""

    def __init__(self, stream: TextIO, *, is_json: bool, is_terminal: bool) -> None:
        self._stream = stream
        self._bytes = None if is_terminal else getattr(stream, "buffer", None)
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._harmless = escape_json if is_json else neutralise

    def write(self, data: bytes) -> None:
        """Write the next bytes."""
        if self._bytes is not None:
            self._bytes.write(data)
        else:
            self._stream.write(self._harmless(self._decode(data)))


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:  # a stream that is closed already
        return False


def _columns(stream: TextIO) -> int:
    try:
        # One less: some terminals break the line after the last column, others before the next character.
        return os.get_terminal_size(stream.fileno()).columns - 1
    except (OSError, ValueError):
        return 79


def _is_unicode(stream: TextIO) -> bool:
    encoding = (getattr(stream, "encoding", None) or "utf-8").lower().replace("_", "-")
    return encoding in ("utf-8", "utf8")


def standard_output(colour: str | None = None) -> Screen:
    """Return the screen for results."""
    return Screen(_forgiving(sys.stdout), colour)


def standard_error(colour: str | None = None) -> Screen:
    """Return the screen for progress and complaints."""
    return Screen(_forgiving(sys.stderr), colour)


def _forgiving(stream: TextIO) -> TextIO:
    """Return the stream; a character that its encoding lacks is written as an escape."""
    # Without this a title in another script would end the command with a UnicodeEncodeError.
    if not _is_unicode(stream) and hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
    return stream
