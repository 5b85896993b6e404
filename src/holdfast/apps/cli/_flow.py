"""Streamed text on a terminal: words kept whole where a line is broken."""

# Loaded late: rich, which measures words, is needed by answers that stream only.
from __future__ import annotations

import re

from rich.cells import cell_len

_SPACES = re.compile(r"([ \n\t])")
_TAB = 8


class Flow:
    """Breaks a text that comes in pieces into lines of at most ``width`` columns.

    A word is held back until it is known to be whole; only one that is wider than a line is left to
    the terminal to break. How the text was cut into pieces makes no difference.
    """

    def __init__(self, width: int) -> None:
        self._width = max(width, 1)
        self._column = 0
        self._word = ""

    def feed(self, text: str) -> str:
        """Return the text that can be shown now."""
        shown = []
        for part in _SPACES.split(text):
            if part in (" ", "\n", "\t"):
                shown += [self._end_word(), self._space(part)]
            else:
                self._word += part
        return "".join(shown)

    def rest(self) -> str:
        """Return the text still held back, and then the end of an open line."""
        shown = self._end_word()
        is_open, self._column = self._column > 0, 0
        return shown + "\n" * is_open

    def _end_word(self) -> str:
        word, self._word = self._word, ""
        columns = cell_len(word)
        if word and self._column and self._column + columns > self._width:
            self._column = columns
            return "\n" + word
        self._column += columns
        return word

    def _space(self, space: str) -> str:
        if space == "\n":
            self._column = 0
            return space
        columns = 1 if space == " " else _TAB - self._column % _TAB
        if self._column + columns > self._width:
            return ""  # the next word begins a line, which is space enough
        self._column += columns
        return space
