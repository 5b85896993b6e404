"""A terminal that a test looks at: the command at a pty, and the screen that an emulator draws of what it writes."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from itertools import pairwise
from typing import Any

import pexpect
import pyte

WAIT_S = 120  # a loaded machine takes its time
_ASKS_FOR_CURSOR = re.compile(rb"\x1b\[6n")


class Drawn:
    """One run of the command on a screen of its own."""

    def __init__(self, command: list[str], environment: dict[str, str], columns: int = 80, rows: int = 30) -> None:
        self.screen = pyte.HistoryScreen(columns, rows, history=5_000, ratio=1)
        self._stream = pyte.ByteStream(self.screen)
        self.child: Any = pexpect.spawn(
            command[0], command[1:], env=environment, dimensions=(rows, columns), timeout=WAIT_S, echo=True
        )
        self.child.delaybeforesend = None

    def look(self, wait_s: float = 0.02) -> bool:
        """Take in what was written; whether anything was."""
        try:
            data = self.child.read_nonblocking(1 << 16, wait_s)
        except (pexpect.TIMEOUT, pexpect.EOF):
            return False
        self._stream.feed(data)
        for _ in _ASKS_FOR_CURSOR.findall(data):
            self.child.send(f"\x1b[{self.screen.cursor.y + 1};{self.screen.cursor.x + 1}R")
        return True

    @property
    def lines(self) -> list[str]:
        """What is on the screen, without blanks at the ends."""
        return [line.rstrip() for line in self.screen.display]

    @property
    def above(self) -> list[str]:
        """What has left the screen at its top."""
        return ["".join(row[x].data for x in range(self.screen.columns)).rstrip() for row in self.screen.history.top]

    @property
    def text(self) -> str:
        """All that was drawn and stands, with what is above the screen."""
        return "\n".join([*self.above, *self.lines]).rstrip() + "\n"

    def wait(self, text: str, count: int = 1) -> str:
        """Wait until a text stands on the screen or above it, so many times, wherever its lines are broken."""
        until = time.monotonic() + WAIT_S
        while self._count(text) < count:
            if not self.look(0.1) and (time.monotonic() > until or not self.child.isalive()):
                # What was written last may not have been read yet.
                while self.look(0.1):
                    pass
                assert self._count(text) >= count, f"{text!r} never came:\n{self.text}"
        return self.text

    def _count(self, text: str) -> int:
        return " ".join(self.text.split()).count(text)

    def wait_for_prompt(self) -> str:
        """Wait until a message can be typed: the cursor stands behind the sign, and nothing goes on."""
        until = time.monotonic() + WAIT_S
        while True:
            moved = self.look(0.05)
            line, *below = self.lines[self.screen.cursor.y :]
            is_whole = any(rule.startswith("──") and status for rule, status in pairwise(below))
            is_there = is_whole and (line == "›" or line.startswith("› "))
            if not moved and is_there and "type to add something" not in self.text:
                return self.text
            is_hopeless = time.monotonic() > until or not (moved or self.child.isalive())
            assert not is_hopeless, f"no prompt:\n{self.text}"

    def say(self, text: str) -> str:
        """Type a message at the prompt, and wait for the next prompt."""
        self.wait_for_prompt()
        self.send(text + "\r")
        self.wait(f"› {text.splitlines()[0]}")
        self.look(0.3)
        return self.wait_for_prompt()

    def send(self, keys: str) -> None:
        """Press keys."""
        self.child.send(keys)

    def resize(self, columns: int, rows: int) -> None:
        """Make the window another size."""
        self.screen.resize(rows, columns)
        self.child.setwinsize(rows, columns)

    def kill(self) -> None:
        """Kill the command with -9, and take in what it had written."""
        os.kill(self.child.pid, signal.SIGKILL)
        while self.look(0.2):
            pass
        self.child.wait()

    def colours(self) -> set[str]:
        """The colours of letters and grounds that are on the screen."""
        cells = [cell for row in self.screen.buffer.values() for cell in row.values()]
        return {cell.fg for cell in cells} | {f"on {cell.bg}" for cell in cells}

    def close(self) -> None:
        """End it, whatever it does."""
        with contextlib.suppress(OSError):
            os.kill(self.child.pid, signal.SIGKILL)
        self.child.close(force=True)
