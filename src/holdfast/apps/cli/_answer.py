"""An answer on a terminal while it comes: what is finished is printed for good, only its end is drawn again."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from holdfast.apps.render.words import counted
from holdfast.replay import as_text
from holdfast.security import neutralise_line

if TYPE_CHECKING:
    from rich.console import RenderableType

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_PAINT = re.compile(r"\x1b\[[0-9;]*m")
_TAIL_LINES_MAX = 12
_CALL_CHARS = 60
_SPIN = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_EDITS = (("old_string", "new_string"), ("old_str", "new_str"), ("old_text", "new_text"), ("old", "new"))


class Look(NamedTuple):
    """How things are drawn: in colours or not, on a dark or a light ground."""

    colour: bool = True
    dark: bool = True


def parted(text: str) -> tuple[str, str]:
    """Return the Markdown that nothing more can change, and the rest of it.

    A block ends with an empty line, if what follows is neither indented nor inside of a fence.
    """
    fence, at, end = "", 0, 0
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        found = _FENCE.match(line)
        if found and not fence:
            fence = found[1]
        elif found and found[1].startswith(fence) and not line.strip(" `~\n"):
            fence = ""
        at += len(line)
        after = lines[number + 1] if number + 1 < len(lines) else ""
        if not fence and not line.strip() and after[:1].strip():
            end = at
    return text[:end], text[end:]


def drawn(renderable: RenderableType, width: int, look: Look) -> list[str]:
    """Return what Rich makes of something as lines for a terminal; nothing in them is obeyed but colours."""
    from rich.color import ColorSystem

    from holdfast.apps.render.markdown import harmless_lines

    system = ColorSystem.STANDARD if look.colour else None
    return [
        "".join(
            part.style.render(part.text, color_system=system) if part.style and system else part.text for part in line
        ).rstrip()
        for line in harmless_lines(renderable, width)
    ]


def drawn_markdown(text: str, width: int, look: Look) -> list[str]:
    """Return Markdown as lines for a terminal."""
    from holdfast.apps.render.markdown import markdown, paragraphs

    lines = drawn(markdown(paragraphs(text), dark=look.dark), width, look)
    # Rich sets blocks apart by empty lines, above or below; here that is done once for all.
    full = [number for number, line in enumerate(lines) if _PAINT.sub("", line).strip()]
    return lines[full[0] : full[-1] + 1] if full else []


def drawn_edit(args: dict[str, Any], look: Look) -> list[str]:
    """Return the difference that an edit makes, as lines; none for a call that is no edit."""
    import difflib

    names = next((pair for pair in _EDITS if all(isinstance(args.get(name), str) for name in pair)), None)
    if names is None:
        return []
    old, new = (args[name].splitlines() for name in names)
    paint = {"+": "32", "-": "31", "@": "36"} if look.colour else {}
    found = list(difflib.unified_diff(old, new, lineterm="", n=3))[2:]
    clean = [neutralise_line(line) for line in found]
    return [f"  \x1b[{paint[line[0]]}m{line}\x1b[0m" if line[0] in paint else f"  {line}" for line in clean]


def _columns(line: str) -> int:
    from rich.cells import cell_len

    return cell_len(_PAINT.sub("", line))


def call_words(tool: str, params: Any) -> str:
    """``read_file p.txt``: a call in one line; names of arguments only where there are several."""
    if isinstance(params, dict):
        values = [value if isinstance(value, str) else as_text(value) for value in params.values()]
        pairs = [f"{name}={value}" for name, value in zip(params, values, strict=True)]
        shown = " ".join(pairs if len(pairs) > 1 else values)
    else:
        shown = as_text(params) if params is not None else ""
    shown = " ".join(shown.split())
    return f"{tool} {shown if len(shown) <= _CALL_CHARS else shown[: _CALL_CHARS - 1] + '…'}".rstrip()


class AnswerView:
    """The end of a terminal's screen, on which an answer grows; safe to be called from any thread."""

    def __init__(self, stream: TextIO, look: Look) -> None:
        self._stream = stream
        self._look = look
        self._lock = threading.RLock()
        self._text = ""
        self._tail: list[str] = []  # what is drawn of the end
        self._calls: dict[str, tuple[str, float]] = {}
        self._thinking_since: float | None = None
        self._since = time.monotonic()
        self._tick = 0
        self._typed = ""
        self.rests = False
        """While a question stands below it nothing is drawn."""

    def said(self, text: str) -> None:
        """An answer that is whole: nothing is drawn twice."""
        self._text += text
        self.settle()

    def piece(self, text: str) -> None:
        """Take in the next words of the answer."""
        with self._lock:
            self._end_thinking()
            self._text += text
            done, rest = parted(self._text)
            if done.strip():
                self._print(drawn_markdown(done, self._width, self._look))
                self._print([""])
                self._text = rest
            self._draw()

    def thinks(self) -> None:
        """The model thinks: that is said, and what it thinks is not."""
        with self._lock:
            if self._thinking_since is None:
                self.settle()
                self._thinking_since = time.monotonic()

    def begins(self, id: str, tool: str, params: Any) -> None:
        """A tool is called."""
        with self._lock:
            self.settle()
            self._calls[id] = (call_words(tool, params), time.monotonic())
            self._draw()

    def called(self, id: str, tool: str, params: Any, at: int) -> None:
        """A tool was called, at a moment that is over: nothing is drawn before its result."""
        self.settle()
        self._calls[id] = (call_words(tool, params), at / 1000)

    def ends(self, id: str, result: Any, *, failed: bool, at: int | None = None) -> None:
        """A tool gave its result; ``at`` is when, if that is over."""
        with self._lock:
            now = time.monotonic() if at is None else at / 1000
            words, since = self._calls.pop(id, ("a call", now))
            text = as_text(result).strip("\n")
            size = text.splitlines()[0][:_CALL_CHARS] if failed and text else counted(text.count("\n") + 1, "line")
            mark = self._paint("✗", "31") if failed else self._paint("✓", "32")
            self._tell_call(words, f"{mark} {neutralise_line(size)}", f"  {max(now - since, 0):.1f} s")
            if at is None:
                self._draw()

    def cut(self) -> None:
        """Nothing more comes of what was begun: the process ended there."""
        self.settle()
        for words, _ in self._calls.values():
            self._tell_call(words, self._paint("… interrupted", "33"))
        self._calls.clear()

    def _tell_call(self, words: str, outcome: str, took: str = "") -> None:
        # One line, whatever the width: what gives way is the end of the arguments.
        room = max(self._width - _columns(outcome) - len(took) - 4, 8)
        clean = neutralise_line(words)
        clean = clean if _columns(clean) <= room else clean[: room - 1] + "…"
        self._print([f"{self._paint('●', '35')} {clean}  {outcome}{self._paint(took, '2')}"])

    def lines(self, lines: Iterable[str]) -> None:
        """Print lines that stay, after what was said so far."""
        with self._lock:
            self.settle()
            self._print(lines)

    def type(self, text: str) -> None:
        """Show what is being typed meanwhile, below the answer."""
        with self._lock:
            self._typed = text
            self._draw()

    def spin(self) -> None:
        """Draw the end again: time goes by."""
        with self._lock:
            self._tick += 1
            if not self.rests:
                self._draw()

    def settle(self) -> None:
        """Print what was said so far for good, and take away what was drawn of the end."""
        with self._lock:
            self._end_thinking()
            text, self._text = self._text, ""
            self._erase()
            if text.strip():
                self._print([*drawn_markdown(text, self._width, self._look), ""])

    @property
    def _width(self) -> int:
        import os

        try:
            return max(os.get_terminal_size(self._stream.fileno()).columns - 1, 20)
        except (OSError, ValueError):
            return 79

    @property
    def _rows(self) -> int:
        import os

        try:
            return os.get_terminal_size(self._stream.fileno()).lines
        except (OSError, ValueError):
            return 24

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._look.colour else text

    def _end_thinking(self) -> None:
        if self._thinking_since is not None:
            took = time.monotonic() - self._thinking_since
            self._thinking_since = None
            self._print([self._paint(f"✻ thought for {took:.0f} s", "2")])

    def _draw(self) -> None:
        """The tail: the last lines of the block that is open, then what goes on."""
        lines = drawn_markdown(self._text, self._width, self._look) if self._text.strip() else []
        lines = lines[-max(min(_TAIL_LINES_MAX, self._rows - 4), 1) :]
        sign = _SPIN[self._tick % len(_SPIN)]
        took = f"{time.monotonic() - self._since:.0f} s"
        for words, _ in self._calls.values():
            lines.append(f"{self._paint(sign, '35')} {neutralise_line(words)[: self._width - 2]}")
        if not self._calls:
            what = "thinking" if self._thinking_since is not None else "working"
            lines.append(self._paint(f"{sign} {what} {took}  type to say something, Ctrl-C stops", "2"))
        if self._typed:
            typed = neutralise_line(self._typed)
            # Its end, where the typing goes on; a letter may take two columns.
            shown = typed[-max((self._width - 2) // (1 if typed.isascii() else 2), 1) :]
            lines += [f"› {shown}", self._paint("  Enter says it, Esc stops for it", "2")]
        self._erase()
        self._stream.write("".join(f"{line}\n" for line in lines))
        self._stream.flush()
        self._tail = lines

    def _print(self, lines: Iterable[str]) -> None:
        self._erase()
        self._stream.write("".join(f"{line}\n" for line in lines))
        self._stream.flush()

    def _erase(self) -> None:
        if self._tail:
            # A terminal that was made narrower has broken what was drawn.
            rows = sum(max(-(-_columns(line) // (self._width + 1)), 1) for line in self._tail)
            self._stream.write(f"\x1b[{min(rows, self._rows)}A\r\x1b[J")
            self._tail = []
