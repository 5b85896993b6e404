"""Widgets that several screens have: lines that scroll, a line to type in, and the bar of keys."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual._context import NoActiveAppError
from textual.binding import Binding
from textual.css.query import NoMatches
from textual.dom import DOMNode
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input
from textual.worker import get_current_worker

from holdfast.apps.tui._safe import one_line
from holdfast.errors import HoldfastError

T = TypeVar("T")


class LineView(ScrollView, can_focus=True):
    """Any number of lines, as ``show`` or a subclass gives them, of which only those in sight are drawn."""

    DEFAULT_CSS = "LineView { height: 1fr; overflow-x: hidden; }"

    @dataclass
    class Clicked(Message):
        """A line was clicked: its number, and the column."""

        line: int
        column: int

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[Strip] = []

    def show(self, lines: list[Strip]) -> None:
        self._lines = lines
        self.measure(len(lines))

    def measure(self, count: int) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, count)
        self.refresh(layout=True)

    def line_at(self, number: int) -> Strip:
        """Return one line, without the background."""
        return self._lines[number] if number < len(self._lines) else Strip.blank(0)

    def render_line(self, y: int) -> Strip:
        width, base = self.scrollable_content_region.width, self.rich_style
        strip = self.line_at(self.scroll_offset.y + y)
        return strip.apply_style(base).extend_cell_length(width, base).crop(0, width)

    def on_click(self, event: events.Click) -> None:
        """Tell the screen, which knows what the line is."""
        # Without the border and the padding; None for a click on them.
        place = event.get_content_offset(self)
        if place is not None:
            self.post_message(self.Clicked(self.scroll_offset.y + place.y, place.x))

    def component(self, name: str) -> Style:
        return self.get_component_rich_style(name, partial=True)


class TextLine(Input):
    """Keeps what is pasted as it is; a character that a terminal would obey is shown as a sign."""

    @property
    def _value(self) -> Text:
        # One character is shown for each, so the cursor stands where it would.
        return Text(one_line(self.value), no_wrap=True, overflow="ignore", end="")


class KeyBar(Widget):
    """The keys that can be pressed here and now, in one line: a widget for each would take ten times as long."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"keys--key"}
    DEFAULT_CSS = """
    KeyBar { dock: bottom; height: 1; background: $panel; color: $foreground; }
    KeyBar > .keys--key { color: $accent; text-style: bold; }
    """

    def on_mount(self) -> None:
        """Update the keys whenever the focus changes."""
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.refresh())

    def _keys(self) -> list[_ShownKey]:
        """Return the keys that count here; those that the screen names, in its order, if it names some."""
        found: dict[str, _ShownKey] = {}
        for node, binding, is_enabled, _ in self.screen.active_bindings.values():
            if is_enabled and binding.action not in found:
                shown = self.app.get_key_display(binding)
                found[binding.action] = _ShownKey(shown, binding.description, binding, node)
        named: dict[str, str] | None = getattr(self.screen, "named_keys", None)
        if named is None:
            return [key for key in found.values() if key.binding.show]
        return [found[action]._replace(does=does) for action, does in named.items() if action in found]

    def render_line(self, y: int) -> Strip:
        base, look = self.rich_style, self.get_component_rich_style("keys--key", partial=True)
        segments = []
        for key in self._keys():
            segments += [Segment(f" {key.shown} ", base + look), Segment(f"{key.does} ", base)]
        return Strip(segments).adjust_cell_length(self.size.width, base)

    async def on_click(self, event: events.Click) -> None:
        """Press the key under the mouse."""
        place = 0
        for key in self._keys():
            place += len(key.shown) + len(key.does) + 3
            if event.x < place:
                await self.app.run_action(key.binding.action, key.node)
                return


class _ShownKey(NamedTuple):
    """A key as shown, its action, and where that is handled."""

    shown: str
    does: str
    binding: Binding
    node: DOMNode


# To a thread, and back to the app: a thread that reads a slow store may end when its screen was left long ago, or the
# app with it. Then there is nothing to show what was found on, and nobody to tell.
SLOW_S = 0.4  # after which a note is shown that something is running


def is_there(node: DOMNode) -> bool:
    """Return whether a screen or widget is in use: mounted, and neither it nor the app is being left."""
    return node.is_attached and node.is_running and not node._pruning  # noqa: SLF001 - no other way


def hand_over(node: DOMNode, act: Callable[..., object], *values: Any) -> None:
    """Call ``act`` with what a thread found, on the app's own loop, and wait until it was called.

    Nothing happens if ``node``, who asked for it, was left meanwhile. To be called in a thread.
    """

    def take() -> None:
        try:
            if is_there(node):
                # The result may be awaitable, but not here: a dialog ends when someone answers it.
                act(*values)
        except NoMatches:
            if is_there(node):
                raise

    try:
        node.app.call_from_thread(take)
    except (CancelledError, NoActiveAppError):
        return
    except RuntimeError:
        if node.is_attached:  # else the app's loop has ended
            raise


def ask_beside(
    node: DOMNode,
    ask: Callable[[], T],
    then: Callable[[T], object],
    failed: Callable[[HoldfastError], object],
    *,
    group: str,
    exclusive: bool = True,
) -> None:
    """Ask a store in a thread; ``then`` gets what it said, or ``failed`` why not. ``exclusive``: the newest counts."""

    def work() -> None:
        worker = get_current_worker()
        try:
            found = ask()
        except HoldfastError as error:
            hand_over(node, failed, error)
            return
        if not worker.is_cancelled:
            hand_over(node, then, found)

    node.run_worker(work, thread=True, group=group, exclusive=exclusive)
