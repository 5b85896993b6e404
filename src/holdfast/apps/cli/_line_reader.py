"""Lines that are typed at a prompt, with what was typed before."""

from __future__ import annotations

from typing import Any

from holdfast.apps.talk.history import History

__all__ = ["LineReader"]


class LineReader:
    """Lines from a terminal: edited, with what was typed before on the arrow keys and Ctrl-R."""

    def __init__(self, history: History, words: list[str]) -> None:
        self._history = history
        self._words = words
        self._readline = _find_readline()
        if self._readline is not None:
            self._prepare(self._readline)

    def read(self, prompt: str) -> str:
        """The next line. Raises EOFError at the end and KeyboardInterrupt for Ctrl-C."""
        line = input(prompt)
        if self._history.add(line) and self._readline is not None:
            self._readline.add_history(line)
        return line

    def _prepare(self, readline: Any) -> None:
        readline.set_auto_history(False)
        readline.clear_history()
        for line in self._history.lines():
            readline.add_history(line)
        readline.set_completer_delims(" ")
        readline.set_completer(self._complete)
        readline.parse_and_bind("tab: complete")

    def _complete(self, text: str, state: int) -> str | None:
        fitting = [word for word in self._words if text.startswith("/") and word.startswith(text)]
        return fitting[state] if state < len(fitting) else None


def _find_readline() -> Any:
    try:
        import readline
    except ImportError:  # without it lines can still be typed
        return None
    return readline
