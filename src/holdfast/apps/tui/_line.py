"""A line to type in. What is pasted into it may come from anywhere, so it is shown harmless."""

from __future__ import annotations

from rich.text import Text
from textual.widgets import Input

from holdfast.apps.tui._safe import one_line

__all__ = ["Line"]


class Line(Input):
    """Keeps what was typed as it is; a character that a terminal would obey is shown as a sign."""

    @property
    def _value(self) -> Text:
        # One character is shown for each, so the cursor stands where it would.
        return Text(one_line(self.value), no_wrap=True, overflow="ignore", end="")
