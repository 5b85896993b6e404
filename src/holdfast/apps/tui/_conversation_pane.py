"""The conversation side of the main screen: whose it is, what was said, and the line to talk in."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from holdfast.apps.render.words import ago
from holdfast.apps.tui._conversation import ConversationView
from holdfast.apps.tui._safe import content
from holdfast.apps.tui._session_table import state_of
from holdfast.apps.tui._widgets import TextLine
from holdfast.model import SessionMetadata
from holdfast.session import now_ms

if TYPE_CHECKING:
    from holdfast.apps.history import InputHistory
    from holdfast.library import Holdfast


class ConversationPane(Vertical):
    """One session at a time. A line that is sent goes on to the screen, as Input.Submitted."""

    DEFAULT_CSS = """
    ConversationPane #heading {
        height: 1; padding: 0 1; text-style: bold; background: $boost;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    ConversationPane #say { display: none; height: 3; border: round $accent; }
    ConversationPane #say.-shown { display: block; }
    """

    def __init__(self, library: Holdfast, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._library = library

    def compose(self) -> ComposeResult:
        """The heading above, the line to talk in below."""
        yield Static("", id="heading")
        yield ConversationView(self._library, id="conversation")
        yield SayLine(placeholder="Say something; Enter sends, Esc leaves", id="say")

    @property
    def view(self) -> ConversationView:
        """What was said."""
        return self.query_one(ConversationView)

    @property
    def is_line_open(self) -> bool:
        """Whether the line to talk in is shown."""
        return self.query_one(SayLine).has_class("-shown")

    def open_line(self) -> None:
        """Show the line to talk in, and type there."""
        self.query_one(SayLine).add_class("-shown").focus()

    def close_line(self) -> None:
        """Hide the line to talk in."""
        self.query_one(SayLine).remove_class("-shown")

    def read(self, session_id: str, at: int | None = None) -> None:
        """Show a session at its end or around an event, and scroll there."""
        if self.view.session_id != session_id:
            self.view.read(session_id, at)
        elif at is not None:
            self.view.go_to(at)
        self.view.focus()

    def tell_heading(self, row: SessionMetadata | None) -> None:
        """Say whose conversation it is; an id alone where no more is known of it."""
        text = self.view.session_id or ""
        if text and row is not None:
            parts = [row.title or "(no title)", text, ago(row.updated_at, now_ms()), state_of(row)]
            text = "  ·  ".join(part for part in parts if part)
        self.query_one("#heading", Static).update(content(text.replace("\n", " ")))

    @on(Input.Submitted, "#say")
    def _sent(self, event: Input.Submitted) -> None:
        if event.value.strip():
            self.query_one(SayLine).keep(event.value)
            event.input.clear()
            self.view.action_ending()  # the answer is to be seen, wherever one was reading


class SayLine(TextLine):
    """Shares its history with ``holdfast chat``; a line that begins with a blank is not kept."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "recall(-1)", "Earlier", show=False),
        Binding("down", "recall(1)", "Later", show=False),
    ]

    def __init__(self, *, placeholder: str, id: str) -> None:
        super().__init__(placeholder=placeholder, id=id)
        self._lines: list[str] = []
        self._at = 0
        self._history: InputHistory | None = None

    def on_focus(self) -> None:
        """Fetch what was typed before, when it may first be asked for."""
        if self._history is None:
            self._load()

    @work(thread=True)
    def _load(self) -> None:
        from holdfast.apps.history import InputHistory

        self._history = InputHistory()
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
