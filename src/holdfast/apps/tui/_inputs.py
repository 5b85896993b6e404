"""The line to talk in: what was typed before comes back with the arrow keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import work
from textual.binding import Binding, BindingType
from textual.widgets import Input

from holdfast.apps.tui._safe import one_line

if TYPE_CHECKING:
    from holdfast.apps.history import History


# A line to type in. What is pasted into it may come from anywhere, so it is shown harmless.


class Line(Input):
    """Keeps what was typed as it is; a character that a terminal would obey is shown as a sign."""

    @property
    def _value(self) -> Text:
        # One character is shown for each, so the cursor stands where it would.
        return Text(one_line(self.value), no_wrap=True, overflow="ignore", end="")


class SayLine(Line):
    """Shares its history with ``holdfast chat``; a line that begins with a blank is not kept."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "recall(-1)", "Earlier", show=False),
        Binding("down", "recall(1)", "Later", show=False),
    ]

    def __init__(self, *, placeholder: str, id: str) -> None:
        super().__init__(placeholder=placeholder, id=id)
        self._lines: list[str] = []
        self._at = 0
        self._history: History | None = None

    def on_focus(self) -> None:
        """Fetch what was typed before, when it may first be asked for."""
        if self._history is None:
            self._load()

    @work(thread=True)
    def _load(self) -> None:
        from holdfast.apps.history import History

        self._history = History()
        self._lines = self._history.lines()
        self._at = len(self._lines)

    def keep(self, line: str) -> None:
        """Remember a line that was sent."""
        if not line.startswith(" "):
            self._lines.append(line)
            self._write(line)
        self._at = len(self._lines)

    @work(thread=True)
    def _write(self, line: str) -> None:
        if self._history is not None:
            self._history.add(line)

    def action_recall(self, by: int) -> None:
        """The line before or after; beyond the last, an empty one."""
        self._at = min(max(self._at + by, 0), len(self._lines))
        at_end = self._at == len(self._lines)
        self.value = "" if at_end else self._lines[self._at]
        self.cursor_position = len(self.value)
