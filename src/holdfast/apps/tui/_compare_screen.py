"""Two sessions side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from holdfast.apps.tui._page_screen import PageScreen
from holdfast.apps.tui._paper import printed

if TYPE_CHECKING:
    from textual.strip import Strip

    from holdfast.library import Holdfast
    from holdfast.replay import Comparison

__all__ = ["CompareScreen"]


class CompareScreen(PageScreen[None]):
    """Where they parted, their turns next to each other, and what else differs."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("o", "full", "Long or short")]

    def __init__(self, library: Holdfast, a: str, b: str) -> None:
        super().__init__(library, f"Compare  ·  {a}  and  {b}")
        self._ids = (a, b)
        self._found: Comparison | None = None
        self._full = False

    def make(self, width: int) -> list[Strip]:
        """The same page as that of ``holdfast compare``."""
        from holdfast.apps.shown.comparison import print_comparison

        if self._found is None:
            self._found = self.library.compare(*self._ids)
        found = self._found
        return printed(width, lambda page: print_comparison(page, found, full=self._full))

    def action_full(self) -> None:
        """Whole answers, or their beginnings."""
        self._full = not self._full
        self.draw()
