"""What all sessions used, in charts and tables."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar, Literal

from textual.binding import Binding, BindingType

from holdfast.apps.tui._page_screen import PageScreen
from holdfast.apps.tui._paper import printed

if TYPE_CHECKING:
    from textual.strip import Strip

    from holdfast.library import Holdfast

__all__ = ["StatsScreen"]

By = Literal["day", "week", "month"]
_NEXT: dict[By, By] = {"day": "week", "week": "month", "month": "day"}
_DAY_S = 86_400
_SPANS = (None, 7, 30, 90, 365)


class StatsScreen(PageScreen[None]):
    """Tokens, cost, activity, models, tools and topics."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "period", "Day, week, month"),
        Binding("s", "span", "How far back"),
    ]

    def __init__(self, library: Holdfast) -> None:
        super().__init__(library, "Analytics")
        self._by: By = "day"
        self._span = 0

    def make(self, width: int) -> list[Strip]:
        """The same page as that of ``holdfast stats``."""
        from holdfast.apps.shown.stats import print_stats

        days = _SPANS[self._span]
        since = None if days is None else time.time() - days * _DAY_S
        stats = self.library.stats(since, by=self._by)
        return printed(width, lambda page: print_stats(page, stats, width))

    def action_period(self) -> None:
        """Columns of days, weeks or months."""
        self._by = _NEXT[self._by]
        self._again()

    def action_span(self) -> None:
        """Of all time, or of the last days."""
        self._span = (self._span + 1) % len(_SPANS)
        self._again()

    def _again(self) -> None:
        days = _SPANS[self._span]
        told = "all time" if days is None else f"the last {days} days"
        self.retitle(f"Analytics  ·  by {self._by}  ·  {told}")
        self.draw()
