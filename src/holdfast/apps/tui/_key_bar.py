"""The keys that can be pressed here and now, on one line; each can be clicked."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.strip import Strip
from textual.widget import Widget

__all__ = ["KeyBar"]


class KeyBar(Widget):
    """Drawn as one line, which takes a tenth of the time of a widget for each key."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"keys--key"}
    DEFAULT_CSS = """
    KeyBar { dock: bottom; height: 1; background: $panel; color: $foreground; }
    KeyBar > .keys--key { color: $accent; text-style: bold; }
    """

    def on_mount(self) -> None:
        """Other keys count as soon as something else has the focus."""
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.refresh())

    def _keys(self) -> list[tuple[str, str, str]]:
        """What is shown for a key, what it does, and the action; each action once."""
        found: dict[str, tuple[str, str, str]] = {}
        for _, binding, is_enabled, _ in self.screen.active_bindings.values():
            if binding.show and is_enabled and binding.action not in found:
                shown = self.app.get_key_display(binding)
                found[binding.action] = (shown, binding.description, binding.action)
        return list(found.values())

    def render_line(self, y: int) -> Strip:
        """The one line."""
        base, key = self.rich_style, self.get_component_rich_style("keys--key", partial=True)
        segments = []
        for shown, does, _ in self._keys():
            segments += [Segment(f" {shown} ", base + key), Segment(f"{does} ", base)]
        return Strip(segments).adjust_cell_length(self.size.width, base)

    async def on_click(self, event: events.Click) -> None:
        """The key under the mouse, as if it were pressed."""
        place = 0
        for shown, does, action in self._keys():
            place += len(shown) + len(does) + 3
            if event.x < place:
                await self.screen.run_action(action)
                return
