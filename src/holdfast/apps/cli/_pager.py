"""Long output on a terminal, shown by a pager once a screen has no room for it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

import click

if TYPE_CHECKING:
    import subprocess

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def pager_commands(environment: Mapping[str, str] = os.environ) -> list[list[str]]:
    """Return the pagers to try: HOLDFAST_PAGER, else PAGER, less, more; none after one that is empty or `cat`."""
    found = []
    for asked in (environment.get("HOLDFAST_PAGER"), environment.get("PAGER"), "less -R", "more"):
        if asked is None:
            continue
        # Do not try the next: an empty variable means no pager at all.
        if asked.strip() in ("", "cat"):
            break
        try:
            found.append(shlex.split(asked))
        except ValueError:
            continue  # quotes that do not end
    return found


class Held:
    """A stream in the place of another one, that holds back what is written to it until it is over."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._held: list[str] = []
        self._is_over = False
        self.encoding = getattr(stream, "encoding", "utf-8")

    def isatty(self) -> bool:
        """Return whether the output finally goes to a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the descriptor of the stream itself."""
        return self._stream.fileno()

    def write(self, text: str) -> int:
        """Hold it back, until it is over."""
        if self._is_over:
            return self._stream.write(text)
        self._held.append(text)
        return len(text)

    def flush(self) -> None:
        """Flush, unless the output is still held back."""
        if self._is_over:
            self._stream.flush()

    def finish(self) -> None:
        """Write what was held back, and from now on whatever comes, at once."""
        self._is_over = True
        self._stream.write("".join(self._held))
        self._stream.flush()
        self._held.clear()


class Paged(Held):
    """A stream that holds back what is written until it is more than a screen has room for.

    Then a pager gets it, and what follows as it comes. A reader who leaves the pager early has seen enough: the
    command ends there, and that is no failure. Raises OSError where nobody knows how large the screen is.
    """

    def __init__(self, stream: TextIO, commands: list[list[str]]) -> None:
        super().__init__(stream)
        self._commands = commands
        self._rows = 0
        self._process: subprocess.Popen[str] | None = None
        size = os.get_terminal_size(stream.fileno())
        # Some terminals, such as those of continuous integration, say 0.
        if not size.lines:
            raise OSError("the terminal does not say its size")
        self._columns, self._lines = max(size.columns, 1), size.lines

    def write(self, text: str) -> int:
        """Hold it back, or give it to the pager."""
        if self._process is not None and not self._is_over:
            self._feed(text)
            return len(text)
        written = super().write(text)
        if not self._is_over:
            # A line takes as many rows of the screen as it has columns, counted by its characters.
            lengths = [len(_COLOURS.sub("", line)) for line in text.split("\n")[:-1]]
            self._rows += sum(max(1, -(-length // self._columns)) for length in lengths)
            if self._rows >= self._lines:
                self._start()
        return written

    def finish(self) -> None:
        """Write what was held back, or wait until the reader leaves the pager."""
        process, self._process = self._process, None
        if process is None:
            super().finish()
        else:
            self._is_over = True
            _wait(process)

    def _start(self) -> None:
        self._stream.flush()
        import subprocess

        # The user's own LESS wins; without it less would show colours as `ESC[1m`.
        env = {"LESS": "-R", "LESSCHARSET": "utf-8", **os.environ}
        for command in self._commands:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - the user's own pager
                    command, stdin=subprocess.PIPE, env=env, encoding="utf-8", errors="replace"
                )
            except OSError:
                continue  # it is not there; the next may be
            self._feed("".join(self._held))
            return
        self.finish()

    def _feed(self, text: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text)
        except BrokenPipeError:
            # The reader left the pager, and has seen enough; what would follow is not made.
            raise click.exceptions.Exit(0) from None


def _wait(process: subprocess.Popen[str]) -> None:
    """Let the reader read on. Ctrl-C is for the pager, which has its own use for it."""
    assert process.stdin is not None
    try:
        process.stdin.close()
    except OSError:
        pass  # the reader has left already
    while True:
        try:
            process.wait()
        except KeyboardInterrupt:
            continue
        return
