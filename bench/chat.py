"""The chat in a terminal: the time to its first line, and to its prompt."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time

from bench.figures import Line, line_of, median

__all__ = ["ChatStart"]

_HOLDFAST = os.path.join(os.path.dirname(sys.executable), "holdfast")
_FIRST = b"holdfast "
_PROMPT = "›".encode()
_ASKS_FOR_CURSOR = re.compile(rb"\x1b\[6n")
_WAIT_S = 60


class ChatStart:
    """``holdfast chat`` with the guide, from its start as a process."""

    def __init__(self, *, quick: bool) -> None:
        self._starts = 3 if quick else 7
        self._environment: dict[str, str] = {}
        self._first: list[float] = []
        self._prompt: list[float] = []

    def prepare(self, folder: str) -> None:
        """Create a store; start once, so that everything is compiled as after an installation."""
        left_out = ("NO_COLOR", "PYTHONDONTWRITEBYTECODE", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL")
        self._environment = {name: value for name, value in os.environ.items() if name not in left_out}
        self._environment |= {
            "PYTHONPYCACHEPREFIX": os.path.join(folder, "compiled"),
            "HOLDFAST_STORE": os.path.join(folder, "chat"),
            "TERM": "xterm-256color",
        }
        self._start()

    def measure(self, folder: str) -> None:
        """Run one round."""
        firsts, prompts = zip(*(self._start() for _ in range(self._starts)), strict=True)
        self._first.append(median(firsts))
        self._prompt.append(median(prompts))

    def lines(self) -> list[Line]:
        """Return the table's lines."""
        return [
            line_of("ms from the start of holdfast chat to its first line", self._first, None).shows("chat-line"),
            line_of("the same to the prompt, where one can type", self._prompt, None).shows("chat-prompt"),
        ]

    def _start(self) -> tuple[float, float]:
        """Start it and leave it: milliseconds to the first line, and to the prompt."""
        begin = time.perf_counter()
        pid, terminal = pty.fork()
        if pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
            os.execve(_HOLDFAST, [_HOLDFAST, "chat"], self._environment)
        seen, first = b"", 0.0
        try:
            while _PROMPT not in seen:
                if not select.select([terminal], [], [], _WAIT_S)[0]:
                    raise TimeoutError(f"the chat shows no prompt: {seen!r}")
                data = os.read(terminal, 1 << 16)
                seen += data
                if not first and _FIRST in seen:
                    first = time.perf_counter()
                for _ in _ASKS_FOR_CURSOR.findall(data):
                    os.write(terminal, b"\x1b[5;1R")
            prompt = time.perf_counter()
            os.write(terminal, b"\x04")
            with contextlib.suppress(OSError):  # how a terminal says that nobody is there any more
                while os.read(terminal, 1 << 16):
                    pass
        finally:
            os.close(terminal)
            os.waitpid(pid, 0)
        return (first - begin) * 1000, (prompt - begin) * 1000
