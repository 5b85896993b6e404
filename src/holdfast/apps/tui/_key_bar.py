"""The keys that can be pressed here and now, on one line; each can be clicked."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from rich.segment import Segment
from textual import events
from textual.binding import Binding
from textual.dom import DOMNode
from textual.strip import Strip
from textual.widget import Widget


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

    def _keys(self) -> list[_Key]:
        """The keys that count here; those that the screen names, in its order, if it names some."""
        found: dict[str, _Key] = {}
        for node, binding, is_enabled, _ in self.screen.active_bindings.values():
            if is_enabled and binding.action not in found:
                shown = self.app.get_key_display(binding)
                found[binding.action] = _Key(shown, binding.description, binding, node)
        named: dict[str, str] | None = getattr(self.screen, "named_keys", None)
        if named is None:
            return [key for key in found.values() if key.binding.show]
        return [
            found[action]._replace(does=does) for action, does in named.items() if action in found
        ]

    def render_line(self, y: int) -> Strip:
        """The one line."""
        base, look = self.rich_style, self.get_component_rich_style("keys--key", partial=True)
        segments = []
        for key in self._keys():
            segments += [Segment(f" {key.shown} ", base + look), Segment(f"{key.does} ", base)]
        return Strip(segments).adjust_cell_length(self.size.width, base)

    async def on_click(self, event: events.Click) -> None:
        """The key under the mouse, as if it were pressed."""
        place = 0
        for key in self._keys():
            place += len(key.shown) + len(key.does) + 3
            if event.x < place:
                await self.app.run_action(key.binding.action, key.node)
                return


class _Key(NamedTuple):
    """What is shown for a key, what it does, and where that is done."""

    shown: str
    does: str
    binding: Binding
    node: DOMNode
