"""The line that people type at a terminal: several lines, completed, with what the session is below it."""

# Loaded late: prompt_toolkit takes longer to load than the first line of a chat may take to come.
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import Style

from holdfast.apps.history import InputHistory
from holdfast.security import neutralise_line

_LOOK = Style.from_dict({"bottom-toolbar": "noreverse #888888", "prompt": "bold ansigreen"})


class PromptReader:
    """What people say, one message at a time: Enter sends, Alt-Enter makes a line, a paste is one message."""

    def __init__(
        self, history: InputHistory, commands: Mapping[str, str], status: Callable[[], str], *, colour: bool
    ) -> None:
        self._history = history
        self._typed = InMemoryHistory(history.lines())
        self._status = status
        self._prompts: PromptSession[str] = PromptSession(
            history=self._typed,
            completer=_Words(commands),
            complete_while_typing=True,
            key_bindings=_keys(),
            multiline=True,
            enable_suspend=True,
            prompt_continuation="  ",
            bottom_toolbar=self._toolbar,
            reserve_space_for_menu=4,
            style=_LOOK,
            color_depth=None if colour else ColorDepth.DEPTH_1_BIT,
        )

    def read(self, begun: str = "") -> str:
        """Return the next message, which may be ``begun``. Raises EOFError at the end, KeyboardInterrupt for Ctrl-C."""
        text = self._prompts.prompt([("class:prompt", "› ")], default=begun)
        # The history of prompt_toolkit keeps every answer; the file keeps what may be kept.
        if "\n" not in text:
            self._history.add(text)
        return text

    def _toolbar(self) -> FormattedText:
        return FormattedText([("class:bottom-toolbar", neutralise_line(self._status()))])


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
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: Any) -> Iterable[Completion]:
        text = document.text_before_cursor
        if text.startswith("/") and " " not in text and "\n" not in text:
            yield from self._slash(text[1:])
            return
        word = document.get_word_before_cursor(WORD=True)
        if word.startswith("@"):
            yield from self._paths.get_completions(Document(word[1:]), complete_event)

    def _slash(self, begun: str) -> Iterator[Completion]:
        for name, does in self._commands.items():
            if name.startswith(begun):
                yield Completion(name, -len(begun), display=f"/{name}", display_meta=does)
