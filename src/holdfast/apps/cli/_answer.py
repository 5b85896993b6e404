"""An answer on a terminal while it comes: what is finished is printed for good, only its end is drawn again."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Container, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from holdfast.apps.render.questions import change_of
from holdfast.apps.render.words import counted
from holdfast.model import decode_json
from holdfast.replay import as_text
from holdfast.security import neutralise, neutralise_line

if TYPE_CHECKING:
    from rich.console import RenderableType

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_PAINT = re.compile(r"\x1b\[[0-9;]*m")
_TAIL_LINES_MAX = 12
_CALL_CHARS = 160
_REFUSED = re.compile(r"Permission denied: the user did not allow \S+\Z")
_CLASS = re.compile(r"\A[A-Z]\w*[a-z][A-Z]\w*: (?=\S)")
_SPIN = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_CHANGE_LINES_MAX = 400
_LONG_CALL_S = 2  # from here on its seconds are counted
# Adjacent kinds of blocks without a blank line in between: the kind of one, and of the one above it.
_CLOSE = frozenset([("tool", "tool"), ("tool", "change"), ("lines", "lines")])


class Theme(NamedTuple):
    """The appearance of output: with colours or without, for a dark or a light background."""

    colour: bool = True
    dark: bool = True


def blocks(text: str) -> list[str]:
    """Return the blocks of Markdown in their order; only the last can still change. At least one.

    A block ends with an empty line, if what follows is neither indented nor inside of a fence.
    """
    fence, parts = "", [""]
    lines = text.splitlines(keepends=True)
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        found = _FENCE.match(line)
        if found and not fence:
            fence = found[1]
        elif found and found[1].startswith(fence) and not line.strip(" `~\n"):
            fence = ""
        parts[-1] += line
        if not fence and not line.strip() and after[:1].strip():
            parts.append("")
    return parts


def drawn(renderable: RenderableType, width: int, theme: Theme) -> list[str]:
    """Return what Rich makes of something as lines for a terminal; nothing in them is obeyed but colours."""
    from rich.color import ColorSystem

    from holdfast.apps.render.markdown import harmless_lines

    system = ColorSystem.STANDARD if theme.colour else None
    return [
        "".join(
            part.style.render(part.text, color_system=system) if part.style and system else part.text for part in line
        ).rstrip()
        for line in harmless_lines(renderable, width)
    ]


def drawn_markdown(text: str, width: int, theme: Theme) -> list[str]:
    """Return Markdown as lines for a terminal."""
    from holdfast.apps.render.markdown import markdown, paragraphs

    shown: list[str] = []
    for block in blocks(text):
        lines = drawn(markdown(paragraphs(block), dark=theme.dark), width, theme)
        # Rich sets blocks apart by empty lines, above or below; here that is done once for all.
        full = [number for number, line in enumerate(lines) if _PAINT.sub("", line).strip()]
        if full:
            shown += [*[""] * bool(shown), *lines[full[0] : full[-1] + 1]]
    return shown


def drawn_change(args: dict[str, Any], theme: Theme) -> list[str]:
    """Return what a call would change in a text, as lines; none for a call that is no edit."""
    lines = [neutralise_line(line) for line in change_of(args)[1]]
    if len(lines) > _CHANGE_LINES_MAX:
        left = len(lines) - _CHANGE_LINES_MAX
        lines = [*lines[:_CHANGE_LINES_MAX], f"… {counted(left, 'more line')}"]
    paint = {"+": "32", "-": "31", "…": "2"} if theme.colour else {}
    return [f"  \x1b[{paint[line[0]]}m{line}\x1b[0m" if line[:1] in paint else f"  {line}" for line in lines]


def _columns(line: str) -> int:
    from rich.cells import cell_len

    return cell_len(_PAINT.sub("", line))


def shortened(text: str, columns: int) -> str:
    """Return a text that fits into so many columns, without its end where it is too long."""
    if _columns(text) <= columns:
        return text
    from rich.cells import set_cell_size

    return set_cell_size(text, columns - 1).rstrip() + "…"


def call_words(tool: str, params: Any) -> str:
    """``read_file p.txt``: a call in one line; names of arguments only where there are several.

    Of an edit it is told how many lines it adds and takes away.
    """
    size = ""
    if isinstance(params, dict):
        beside, lines = change_of(params)
        values = [value if isinstance(value, str) else as_text(value) for value in beside.values()]
        pairs = [f"{name}={value}" for name, value in zip(beside, values, strict=True)]
        shown = " ".join(pairs if len(pairs) > 1 else values)
        if lines:
            size = f" (+{sum(line[:1] == '+' for line in lines)} −{sum(line[:1] == '-' for line in lines)})"
    else:
        shown = as_text(params) if params is not None else ""
    shown = " ".join(shown.split())
    shown = shown if len(shown) <= _CALL_CHARS else f"{shown[: _CALL_CHARS - 1]}…"
    return f"{tool} {shown}".rstrip() + size


def asked_words(tool: str, args: dict[str, Any], width: int) -> list[str]:
    """Return the question whether a call may be made, with its arguments in one line or on one line each."""
    beside, _ = change_of(args)
    given = {name: value if isinstance(value, str) else as_text(value) for name, value in beside.items()}
    short = f"Allow {tool} {' '.join(given.values())}?"
    if len(given) == 1 and "\n" not in short and len(short) <= width:
        return [neutralise_line(short)]
    told = [f"{name}: {value}" for name, value in given.items()]
    return [f"Allow {tool}?", *(f"  {line}" for text in told for line in neutralise(text).split("\n"))]


def outcome_words(result: Any, *, failed: bool) -> str:
    """Return what came of a call: the size of its result, or why it failed."""
    lines = as_text(result).strip("\n").count("\n") + 1
    return neutralise_line(_told_error(result)) if failed else counted(lines, "line")


def _told_error(result: Any) -> str:
    """Return the reason why a call failed; errors of tools are objects with a message."""
    if isinstance(result, str) and result.startswith("{"):
        with contextlib.suppress(ValueError):
            result = decode_json(result.encode())
    if isinstance(result, dict) and isinstance(result.get("message"), str):
        result = result["message"]
    line = next((line for line in as_text(result).splitlines() if line.strip()), "failed")
    # Whoever said no knows it; and the class of an error says nothing to people.
    return "not allowed" if _REFUSED.match(line) else _CLASS.sub("", line)


class AnswerView:
    """The end of a terminal's screen, on which an answer grows; safe to be called from any thread.

    Texts, words of the user and groups of calls are set apart by an empty line each.
    """

    def __init__(self, stream: TextIO, theme: Theme) -> None:
        self._stream = stream
        self._theme = theme
        self._lock = threading.RLock()
        self._text = ""
        self._tail: list[str] = []  # what is drawn of the end
        self._last = ""  # of which kind the last block was that is printed for good
        self._calls: dict[str, tuple[str, float]] = {}
        self._asked: set[str] = set()
        self._thinking_since: float | None = None
        self._since = time.monotonic()
        self._tick = 0
        self._typed = ""
        self._rests = False  # while a question stands below it nothing is drawn

    def said(self, text: str) -> None:
        """Show a complete answer, without the parts that were drawn already."""
        self._text += text
        self.settle()

    def piece(self, text: str) -> None:
        """Take in the next words of the answer."""
        with self._lock:
            self._end_thinking()
            self._text += text
            *done, rest = blocks(self._text)
            if "".join(done).strip():
                self._print("text", drawn_markdown("".join(done), self._width, self._theme))
                self._text = rest
            self._draw()

    def thinks(self) -> None:
        """Show that the model is thinking, without its thoughts."""
        with self._lock:
            if self._thinking_since is None:
                self.settle()
                self._thinking_since = time.monotonic()

    def begins(self, id: str, tool: str, params: Any) -> None:
        """Show the start of a tool call."""
        with self._lock:
            self.settle()
            self._calls[id] = (call_words(tool, params), time.monotonic())
            self._draw()

    def called(self, id: str, tool: str, params: Any, at: int) -> None:
        """Note an earlier tool call; nothing is drawn before its result."""
        self.settle()
        self._calls[id] = (call_words(tool, params), at / 1000)

    def decided(self, id: str, tool: str) -> None:
        """Note a decision on a call; the calls run when the last of them is decided."""
        with self._lock:
            self._asked.add(id)
            self._calls.setdefault(id, (tool, 0.0))  # one of an earlier answer, which waited
            for one in self._asked & self._calls.keys():
                self._calls[one] = (self._calls[one][0], time.monotonic())

    def ends(self, id: str, result: Any, *, failed: bool, at: int | None = None, since: int | None = None) -> None:
        """Show a tool result; ``at`` is its time if it is an earlier one, ``since`` the time of the permission."""
        with self._lock:
            now = time.monotonic() if at is None else at / 1000
            words, began = self._calls.pop(id, ("a call", now))
            began = began if since is None else since / 1000
            mark = self._paint("✗", "31") if failed else self._paint("✓", "32")
            self._tell_call(words, mark, outcome_words(result, failed=failed), f"  {max(now - began, 0):.1f} s")
            if at is None:
                self._draw()

    def asks(self, tool: str, args: dict[str, Any], answers: str) -> None:
        """Ask about a call, above ``answers``: the change that it makes stays, the question until it is answered."""
        with self._lock:
            self.settle()
            if change := drawn_change(args, self._theme):
                self._print("change", change)
            head, *more = asked_words(tool, args, self._width)
            question = [*([""] if self._last else []), self._paint(head, "33"), *more]
            self._write("".join(f"{line}\n" for line in question))
            self._tail, self._rests = [*question, answers], True

    def answered(self) -> None:
        """Remove the question, which has been answered."""
        with self._lock:
            self._rests = False
            self._erase()

    def cut(self, waiting: Container[str | None] = ()) -> None:
        """End what was begun: the process stopped there, or an answer is awaited."""
        self.settle()
        for id, (words, _) in self._calls.items():
            self._tell_call(words, self._paint("…", "33"), "waiting" if id in waiting else "interrupted")
        self._calls.clear()

    def end(self) -> None:
        """End the answer: set what follows apart."""
        with self._lock:
            self.settle()
            if self._last:
                self._write("\n")
                self._last = ""

    def asked(self, text: str) -> None:
        """Print what the user said."""
        with self._lock:
            self.settle()
            first, *more = neutralise(text).split("\n")
            lines = [f"{self._paint('›', '1;32')} {self._paint(first, '1')}"]
            self._print("user", lines + [f"  {self._paint(line, '1')}" for line in more])

    def lines(self, lines: Iterable[str]) -> None:
        """Print lines that stay, after what was said so far."""
        with self._lock:
            self.settle()
            self._print("lines", lines)

    def make_room(self, tell: Callable[[], None]) -> None:
        """Let something be told below what was said so far."""
        with self._lock:
            self.settle()
            self._write("\n" * bool(self._last))
            tell()
            self._last = "told"

    def type(self, text: str) -> None:
        """Show what is being typed meanwhile, below the answer."""
        with self._lock:
            self._typed = text
            self._draw()

    def spin(self) -> None:
        """Draw the end again: time goes by."""
        with self._lock:
            self._tick += 1
            self._draw()

    def settle(self) -> None:
        """Print what was said so far for good, and take away what was drawn of the end."""
        with self._lock:
            self._end_thinking()
            text, self._text = self._text, ""
            self._erase()
            if text.strip():
                self._print("text", drawn_markdown(text, self._width, self._theme))

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
        return f"\x1b[{code}m{text}\x1b[0m" if self._theme.colour else text

    def _end_thinking(self) -> None:
        if self._thinking_since is not None:
            took = time.monotonic() - self._thinking_since
            self._thinking_since = None
            self._print("tool", [self._paint(f"✻ thought for {took:.1f} s", "2")])

    def _tell_call(self, words: str, mark: str, outcome: str, took: str = "") -> None:
        # One line, whatever the width: the end of the arguments gives way, and that of a long outcome.
        room = self._width - len(took) - 6
        clean = shortened(neutralise_line(words), max(room - _columns(outcome), room // 2))
        told = shortened(outcome, room - _columns(clean))
        self._print("tool", [f"{self._paint('●', '35')} {clean}  {mark} {told}{self._paint(took, '2')}"])

    def _draw(self) -> None:
        """Draw the tail: the last lines of the open block, then the running work."""
        if self._rests:
            return
        lines = drawn_markdown(self._text, self._width, self._theme) if self._text.strip() else []
        lines = lines[-max(min(_TAIL_LINES_MAX, self._rows - 6), 1) :]
        sign = _SPIN[self._tick % len(_SPIN)]
        took = f"{time.monotonic() - self._since:.0f} s"
        if self._last and (lines or not (self._calls and self._last == "tool")):
            lines.insert(0, "")
        for words, began in self._calls.values():
            runs_s = time.monotonic() - began
            runs = self._paint(f"  {runs_s:.0f} s", "2") if runs_s >= _LONG_CALL_S else ""
            clean = shortened(neutralise_line(words), self._width - 2 - _columns(runs))
            lines.append(f"{self._paint(sign, '35')} {clean}{runs}")
        if not self._calls:
            what = "thinking" if self._thinking_since is not None else "working"
            lines += [""] * bool(self._text.strip())
            lines.append(self._paint(f"{sign} {what} {took}  type to add something, Ctrl-C stops", "2"))
        if self._typed:
            typed = neutralise_line(self._typed)
            # Its end, where the typing goes on; a letter may take two columns.
            shown = typed[-max((self._width - 2) // (1 if typed.isascii() else 2), 1) :]
            lines += [f"› {shown}", self._paint("  Enter adds it, Esc stops the step for it", "2")]
        self._erase()
        self._write("".join(f"{line}\n" for line in lines))
        self._tail = lines

    def _print(self, kind: str, lines: Iterable[str]) -> None:
        """Print a block for good, apart from what stands above it: only calls stand close to each other."""
        self._erase()
        is_apart = self._last and (kind, self._last) not in _CLOSE
        self._write("\n" * bool(is_apart) + "".join(f"{line}\n" for line in lines))
        self._last = kind

    def _erase(self) -> None:
        if self._tail:
            # A terminal that was made narrower has broken what was drawn.
            rows = sum(max(-(-_columns(line) // (self._width + 1)), 1) for line in self._tail)
            self._write(f"\x1b[{min(rows, self._rows)}A\r\x1b[J")
            self._tail = []

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
