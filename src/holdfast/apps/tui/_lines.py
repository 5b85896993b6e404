"""A widget over any number of lines, of which only those in sight are drawn."""

from __future__ import annotations

from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip


class LineView(ScrollView, can_focus=True):
    """Shows the lines that ``show`` was given; subclasses may make each when it is needed."""

    DEFAULT_CSS = "LineView { height: 1fr; overflow-x: hidden; }"

    class Clicked(Message):
        """A line was clicked: its number, and the column."""

        def __init__(self, line: int, column: int) -> None:
            super().__init__()
            self.line = line
            self.column = column

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[Strip] = []

    def show(self, lines: list[Strip]) -> None:
        """Show these lines from now on."""
        self._lines = lines
        self.measure(len(lines))

    def measure(self, count: int) -> None:
        """There are so many lines now."""
        self.virtual_size = Size(self.scrollable_content_region.width, count)
        self.refresh(layout=True)

    def line_at(self, number: int) -> Strip:
        """One line, without the background."""
        return self._lines[number] if number < len(self._lines) else Strip.blank(0)

    def render_line(self, y: int) -> Strip:
        """One line of what is in sight."""
        width = self.scrollable_content_region.width
        strip = self.line_at(self.scroll_offset.y + y)
        base = self.rich_style
        return strip.apply_style(base).extend_cell_length(width, base).crop(0, width)

    def on_click(self, event: events.Click) -> None:
        """Tell the screen, which knows what the line is."""
        place = event.get_content_offset(self)
        if place is not None:
            self.post_message(self.Clicked(self.scroll_offset.y + place.y, place.x))

    def component(self, name: str) -> Style:
        """The look of a part, as the theme has it."""
        return self.get_component_rich_style(name, partial=True)
