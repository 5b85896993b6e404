"""A screen of one page that a thread makes, and makes again when the width changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Static
from textual.worker import get_current_worker

from holdfast.apps.tui._handing import hand_over
from holdfast.apps.tui._key_bar import KeyBar
from holdfast.apps.tui._lines import LineView
from holdfast.apps.tui._safe import content
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from textual.strip import Strip

    from holdfast.library import Holdfast

__all__ = ["PageScreen"]

T = TypeVar("T")
_MARGIN = 4  # of the page, with its scrollbar


class PageScreen(Screen[T]):
    """A title, a page that scrolls, and the keys."""

    DEFAULT_CSS = """
    PageScreen #title { height: 1; padding: 0 1; background: $panel; text-style: bold; }
    PageScreen LineView { padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Back"),
        Binding("question_mark", "help", "Help", key_display="?", show=False),
    ]

    def __init__(self, library: Holdfast, title: str) -> None:
        super().__init__()
        self.library = library
        self._title = title

    def compose(self) -> ComposeResult:
        """The page below its title."""
        yield Static(content(self._title), id="title")
        yield LineView(id="page")
        yield KeyBar()

    @property
    def page(self) -> LineView:
        """What scrolls."""
        return self.query_one("#page", LineView)

    def make(self, width: int) -> list[Strip]:
        """The lines for a page of that width. Called in a thread; may raise a HoldfastError."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Show that something is coming."""
        self.page.loading = True

    def on_resize(self) -> None:
        """The width is known, or another one."""
        self.call_after_refresh(self.draw)

    def draw(self) -> None:
        """Make the page anew."""
        self._draw(max(self.size.width - _MARGIN, 20))

    @work(thread=True, exclusive=True, group="page")
    def _draw(self, width: int) -> None:
        worker = get_current_worker()
        try:
            lines = self.make(width)
        except HoldfastError as error:
            hand_over(self, self._failed, error)
            return
        if not worker.is_cancelled:
            hand_over(self, self._show, lines)

    def _show(self, lines: list[Strip]) -> None:
        self.page.loading = False
        self.page.show(lines)
        self.page.focus()

    def _failed(self, error: HoldfastError) -> None:
        self.page.loading = False
        self.query_one("#title", Static).update(content(f"{self._title}: {error}"))

    def retitle(self, text: str) -> None:
        """Another title from now on."""
        self._title = text
        self.query_one("#title", Static).update(content(text))

    def action_leave(self) -> None:
        """Back."""
        self.dismiss(None)

    def action_help(self) -> None:
        """What every key does."""
        from holdfast.apps.tui._help_screen import HelpScreen

        self.app.push_screen(HelpScreen())
