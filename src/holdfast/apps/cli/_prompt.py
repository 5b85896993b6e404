"""The line that people type at a terminal: several lines, completed, with what the session is below it."""

# Loaded late: prompt_toolkit takes longer to load than the first line of a chat may take to come.
from __future__ import annotations

import heapq
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application, get_app
from prompt_toolkit.completion import Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Always, Condition
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import Dimension, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import Style

from holdfast.apps.cli._answer import shortened
from holdfast.apps.cli._slash import Choice
from holdfast.apps.cli.chat import echo
from holdfast.apps.history import InputHistory
from holdfast.security import neutralise_line

_LOOK = Style.from_dict(
    {
        "bottom-toolbar": "noreverse #888888",
        "prompt": "bold ansigreen",
        "faint": "#888888",
        "chosen": "bold ansicyan",
        "completion-menu": "bg:default fg:default noreverse",
        "completion-menu.completion.current": "bg:default fg:ansicyan bold noreverse",
        "completion-menu.meta.completion": "bg:default #888888",
        "completion-menu.meta.completion.current": "bg:default fg:ansicyan",
        "scrollbar.background": "bg:default",
        "scrollbar.button": "bg:default",
    }
)
_ROWS_SHOWN = 8
_PREVIEW_LINES = 6
_KEYS_LONG, _KEYS_SHORT = "  type to narrow · ↑↓ · Enter · Esc", "  ↑↓ · Enter · Esc"
_ESCAPE_S = 0.05
_MENU_ROWS = 8
_ABOUT_COLUMNS = 40
_FILE_BEGUN = re.compile(r'(?<![^\s(])@("[^"\n]*|[^\s"]\S*)?\Z')
_ELSEWHERE = ("/", "~", "./", "../")
_OFFERED = 50
_LISTED_S = 3.0
_LISTING_S = 10.0
_WALKED_MAX = 20_000
_NOT_WALKED = frozenset({"node_modules", "__pycache__", "venv", "target"})


class PromptReader:
    """The input line, one message at a time: Enter sends, Alt-Enter starts a new line, a paste is one message."""

    def __init__(
        self, history: InputHistory, commands: Mapping[str, str], status: Callable[[], str], *, colour: bool
    ) -> None:
        self._history = history
        self._typed = InMemoryHistory(history.lines())
        self._status = status
        self._prompts: PromptSession[str] = PromptSession(
            history=self._typed,
            completer=_Words(commands),
            complete_while_typing=_completes,
            complete_in_thread=True,  # the files of a big project take a while
            key_bindings=_keys(),
            multiline=True,
            enable_suspend=True,
            erase_when_done=True,
            prompt_continuation="  ",
            bottom_toolbar=self._toolbar,
            reserve_space_for_menu=_MENU_ROWS,
            style=_LOOK,
            color_depth=None if colour else ColorDepth.DEPTH_1_BIT,
        )
        # The input takes the rows that it needs; the status is right below it, not at the screen's bottom.
        layout = self._prompts.layout
        layout.current_window.dont_extend_height = Always()
        layout.container.get_children().append(Window())

    def read(self, begun: str = "") -> str:
        """Return the next message, which may be ``begun``. Raises EOFError at the end, KeyboardInterrupt for Ctrl-C."""
        echo(on=True)  # before: the terminal is given back as it is found here
        try:
            text = self._prompts.prompt(_sign, default=begun)
        finally:
            echo(on=False)  # what is typed while a command works stands at the next prompt, once
        # The history of prompt_toolkit keeps every answer; the file keeps what may be kept.
        if "\n" not in text:
            self._history.add(text)
        return text

    def _toolbar(self) -> FormattedText:
        return FormattedText([("class:bottom-toolbar", f"{_rule()}\n{neutralise_line(self._status())}")])


def _columns() -> int:
    return get_app().output.get_size().columns


def _rule() -> str:
    return "─" * _columns()


def _sign() -> FormattedText:
    return FormattedText([("class:faint", f"{_rule()}\n"), ("class:prompt", "› ")])


@Condition
def _completes() -> bool:
    """Return whether a command or a file is being typed: only then is space reserved for a menu."""
    text = get_app().current_buffer.document.text_before_cursor
    return text.startswith("/") or _FILE_BEGUN.search(text) is not None


def pick(question: str, rows: Sequence[Choice], *, colour: bool) -> int | None:
    """Return the place of the row that somebody chooses by the arrow keys and by typing; None for none of them."""
    picker = _Picker(question, rows)
    keys = KeyBindings()
    keys.add("up")(lambda _: picker.move(-1))
    keys.add("down")(lambda _: picker.move(1))
    keys.add("backspace")(lambda _: picker.narrow(picker.typed[:-1]))
    keys.add("enter")(lambda event: event.app.exit(result=picker.chosen))
    for leave in ("escape", "c-c", "c-d"):
        keys.add(leave, eager=True)(lambda event: event.app.exit(result=None))
    keys.add("<any>")(lambda event: picker.narrow(picker.typed + event.data) if event.data.isprintable() else None)
    windows = [Window(FormattedTextControl(part), dont_extend_height=True) for part in (picker.head, picker.list)]
    look = Window(FormattedTextControl(picker.preview), wrap_lines=True, height=Dimension(max=_PREVIEW_LINES))
    application: Application[int | None] = Application(
        Layout(HSplit([*windows, look])),
        key_bindings=keys,
        style=_LOOK,
        erase_when_done=True,
        color_depth=None if colour else ColorDepth.DEPTH_1_BIT,
    )
    application.ttimeoutlen = _ESCAPE_S
    return application.run()


class _Picker:
    """The visible rows of a choice: those that match the typed text, as many as fit, with one chosen."""

    def __init__(self, question: str, rows: Sequence[Choice]) -> None:
        self._question = question
        self._rows = rows
        self._fitting = list(range(len(rows)))
        self._at = 0
        self.typed = ""

    @property
    def chosen(self) -> int | None:
        """The place of the chosen row; None if none fits."""
        return self._fitting[self._at] if self._fitting else None

    def move(self, by: int) -> None:
        """Choose the next row, or the one before."""
        self._at = min(max(self._at + by, 0), max(len(self._fitting) - 1, 0))

    def narrow(self, typed: str) -> None:
        """Show those that have these words."""
        words = typed.casefold().split()
        self.typed, self._at = typed, 0
        texts = [f"{row.words} {row.about}".casefold() for row in self._rows]
        self._fitting = [place for place, text in enumerate(texts) if all(word in text for word in words)]

    def head(self) -> FormattedText:
        """Return the question, what was typed, and the keys."""
        is_wide = len(f"{self._question} {self.typed}{_KEYS_LONG}") < _columns()
        keys = _KEYS_LONG if is_wide else _KEYS_SHORT
        return FormattedText([("bold", self._question), ("", f" {self.typed}"), ("class:faint", keys)])

    def list(self) -> FormattedText:
        """Return the rows around the chosen one."""
        first = max(0, min(self._at - _ROWS_SHOWN // 2, len(self._fitting) - _ROWS_SHOWN))
        lines: list[tuple[str, str]] = [] if self._fitting else [("class:faint", "  none fits\n")]
        for number in range(first, min(first + _ROWS_SHOWN, len(self._fitting))):
            row, is_chosen = self._rows[self._fitting[number]], number == self._at
            about = shortened(neutralise_line(row.about), _ABOUT_COLUMNS)
            words = shortened(neutralise_line(row.words), max(_columns() - len(about) - 5, 20))
            lines.append(("class:chosen" if is_chosen else "", f"{'❯' if is_chosen else ' '} {words}"))
            lines.append(("class:faint", f"  {about}\n"))
        style, last = lines.pop()
        return FormattedText([*lines, (style, last.rstrip("\n"))])

    def preview(self) -> FormattedText:
        """Return the last words of the chosen one."""
        chosen = None if self.chosen is None else self._rows[self.chosen].preview
        # Each takes its part of the rows, so that the last is seen as well as the first.
        lines = chosen() if chosen is not None else []
        columns = _PREVIEW_LINES // max(len(lines), 1) * _columns()
        lines = [shortened(neutralise_line(line), columns) for line in lines]
        return FormattedText([("class:faint", "\n".join(lines))])


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys


class _Words(Completer):
    """Commands where a message begins with a slash, files where a word begins with an at sign."""

    def __init__(self, commands: Mapping[str, str]) -> None:
        self._commands = commands
        self._files = ProjectFiles()
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: Any) -> Iterable[Completion]:
        text = document.text_before_cursor
        if text.startswith("/") and " " not in text and "\n" not in text:
            yield from self._slash(text[1:])
            return
        found = _FILE_BEGUN.search(text)
        if found is None:
            return
        begun = found[1] or ""
        if begun.startswith(_ELSEWHERE):
            yield from self._paths.get_completions(Document(begun), complete_event)
            return
        for path in self._files.matching(begun.removeprefix('"')):
            quoted = f'"{path}"' if re.search(r"\s", path) else path
            yield Completion(quoted, -len(begun), display=neutralise_line(path))

    def _slash(self, begun: str) -> Iterator[Completion]:
        for name, does in self._commands.items():
            if name.startswith(begun):
                yield Completion(name, -len(begun), display=f"/{name}", display_meta=does)


class ProjectFiles:
    """The files below the working directory, without those that git ignores, listed when they are asked for."""

    def __init__(self) -> None:
        self._paths: list[str] = []
        self._listed_at = -_LISTED_S

    def matching(self, typed: str) -> list[str]:
        """Return the paths with the typed letters in this order; first those that have them in their names."""
        if time.monotonic() - self._listed_at >= _LISTED_S:
            listed = _tracked_by_git() or islice(_walked(), _WALKED_MAX)
            self._paths = [path for path in listed if path.isprintable()]
            self._listed_at = time.monotonic()
        wanted = typed.casefold()
        # From the end, where names are; each letter at its first place there, so that nothing is tried twice.
        letters = re.compile("".join(f"[^{re.escape(letter)}]*{re.escape(letter)}" for letter in reversed(wanted)))
        found = ((path, letters.match(path.casefold()[::-1])) for path in self._paths)
        fitting = [
            (_rank(wanted, path.casefold()), match.end(), len(path) if wanted else 0, path)
            for path, match in found
            if match
        ]
        best = heapq.nsmallest(_OFFERED, fitting)
        return [path for *_, path in best if os.path.isfile(path)]  # git also names what was deleted


def _rank(wanted: str, path: str) -> int:
    """Return where the typed text is: 0 at the beginning of the name; without any, how deep the file lies."""
    name = path.rpartition("/")[2]
    if not wanted:
        return path.count("/")
    places = (name.startswith(wanted), wanted in name, wanted in path)
    return next((rank for rank, is_there in enumerate(places) if is_there), len(places))


def _tracked_by_git() -> list[str]:
    """Return the files that git knows or would add; none outside a repository or without git."""
    # A repository may name a program that watches it: none is started for a list of names.
    command = ["git", "-c", "core.fsmonitor=false", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command; git from wherever the user has it
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LISTING_S,
            check=True,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return list(dict.fromkeys(filter(None, os.fsdecode(done.stdout).split("\0"))))


def _walked() -> Iterator[str]:
    """Yield the files below the working directory, except in hidden folders and those that programs fill."""
    for folder, folders, names in os.walk("."):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _NOT_WALKED)
        for name in sorted(names):
            yield os.path.relpath(os.path.join(folder, name))
