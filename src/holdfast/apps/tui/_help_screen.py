"""What every key does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from holdfast.apps.tui._safe import lay_out
from holdfast.apps.tui._widgets import LineView

_KEY_COLUMNS = 25
_KEYS = {
    "Everywhere": {
        "?": "this page",
        "Ctrl+P": "the command palette: every action by its name",
        "Ctrl+T": "light or dark",
        "Esc": "back; out of a conversation, to the list",
        "q": "leave; answers that still run are stopped, and kept",
    },
    "The list": {
        "↑ ↓ PgUp PgDn Home End": "move; End goes to the oldest of all",
        "Enter": "read the session",
        "/": "filter as you type: words, tag:x status:waiting agent:x model:x",
        "s": "sort by another column",
        "Space": "mark, for a comparison or a merge",
        "f": "search what was said, in every session",
        "c  n": "talk on this session, begin a new one",
        "a": "analytics",
    },
    "A session": {
        "r  t  p": "rename, tag, pin",
        "F  x  z": "fork, export, archive or take out of the archive",
        "d": "delete into the trash",
        "u": "undo: title, tags, pin, archive, delete; a fork or a merge goes into the trash",
        "=  m": "compare side by side, merge (the marked one and this one)",
        "v  b": "time travel with snapshots, the tree of branches",
    },
    "A conversation": {
        "↑ ↓ PgUp PgDn Home End": "scroll; what is further back is read as you come to it",
        "]  [": "the next entry, the one before",
        "Enter, Space, click": "unfold a tool call, a result or thinking",
        "o": "unfold or fold all of them",
        ":": "jump to an event (120), a turn (t7) or a time (14:30, 2026-05-01)",
        "c": "talk; Enter sends",
        "Ctrl+X": "stop the answer; what was said is kept",
    },
    "Marks": {
        "●": "a writer has it open, here or elsewhere",
        "▶": "an answer of this app is under way",
        "↺": "restored: it was taken up again here",
        "✓": "marked",
    },
}


class HelpScreen(ModalScreen[None]):
    """A page of keys over whatever is shown."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen > LineView {
        width: 92; max-width: 96%; height: 90%; border: round $accent;
        background: $surface; padding: 0 2;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "dismiss", "Back"),
    ]

    def compose(self) -> ComposeResult:
        """One page that scrolls."""
        page = LineView()
        page.border_title = "Keys"
        page.border_subtitle = "Esc closes"
        yield page

    def on_mount(self) -> None:
        """Draw it, and again when the width is known."""
        self.call_after_refresh(self._draw)

    def on_resize(self) -> None:
        """Break the lines anew."""
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        page = self.query_one(LineView)
        width = page.scrollable_content_region.width
        page.show(lay_out(Group(*_sections()), width))
        page.focus()


def _sections() -> Iterator[RenderableType]:
    for title, keys in _KEYS.items():
        yield Text("")
        yield Text(title, "bold underline")
        table = Table.grid(Column(width=_KEY_COLUMNS), Column(), padding=(0, 1))
        for key, does in keys.items():
            table.add_row(Text(f"  {key}", "bold"), Text(does))
        yield table
