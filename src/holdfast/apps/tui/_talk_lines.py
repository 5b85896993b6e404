"""What was said, as blocks that fold: which are shown, which is chosen, where each begins."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from typing import ClassVar

from rich.segment import Segment
from textual import events, work
from textual.binding import Binding, BindingType
from textual.strip import Strip

from holdfast.apps.render.words import day_time
from holdfast.apps.tui._entry_lines import Block, Look, block_of, is_foldable
from holdfast.apps.tui._lines import LineView
from holdfast.apps.tui._window import Chunk
from holdfast.apps.tui._workers import hand_over
from holdfast.replay import Entry
from holdfast.session import now_ms

_DAY_CHARS = len("2026-05-01")
_DRAWN_AT_ONCE = 80  # blocks that are drawn in the time between two keys


class TalkLines(LineView):
    """The chunks of a conversation that are in memory, drawn; a subclass reads them."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"talk--chosen"}
    DEFAULT_CSS = """
    TalkLines { padding: 0 1; }
    TalkLines > .talk--chosen { background: $boost; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right_square_bracket", "step(1)", "Next entry", show=False),
        Binding("left_square_bracket", "step(-1)", "Previous entry", show=False),
        Binding("enter,space", "fold", "Fold", show=False),
        Binding("o", "toggle_all", "Unfold all", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._chunks: list[Chunk] = []
        self._blocks: list[list[Block]] = []
        self._flat: list[Block] = []
        self._tops: list[int] = []
        self._opened: set[tuple[int, int]] = set()
        self._all_open = False
        self._found: int | None = None
        self._chosen = -1
        self._sticks = True
        """The end is in sight, and stays so when something is added."""
        self._note = ""
        """What is said in the place of blocks while there are none."""

    def _drawn(self, chunk: Chunk | None) -> list[Block]:
        if chunk is None:
            return []
        look = self._look()
        return [self._block(entry, chunk.who(entry), look) for entry in chunk.entries]

    def _block(self, entry: Entry, who: str, look: Look) -> Block:
        found = self._found is not None and entry.seq == self._found
        is_open = self._all_open or (entry.seq, entry.part) in self._opened or found
        return block_of(entry, who, look, is_open=is_open, found=found)

    def _look(self) -> Look:
        width = self.scrollable_content_region.width or self.size.width
        today = day_time(now_ms())[:_DAY_CHARS]
        return Look(max(width, 20), dark=self.app.current_theme.dark, today=today)

    def _lay(self) -> None:
        """Work out where each block begins."""
        self._flat = [block for blocks in self._blocks for block in blocks]
        heights = [len(block.lines) for block in self._flat]
        self._tops = [0, *accumulate(heights)]
        self.measure(self._tops[-1])

    # -- moving -------------------------------------------------------------------------------

    def _go_to(self, seq: int) -> None:
        seqs = [block.entry.seq for block in self._flat]
        self._chosen = max(bisect_right(seqs, seq) - 1, 0) if seqs else -1
        if seqs:
            self.scroll_to(y=max(self._tops[self._chosen] - 2, 0), animate=False, immediate=True)

    def action_step(self, by: int) -> None:
        """Choose the next entry or the one before."""
        if not self._flat:
            return
        if self._chosen < 0:
            self._chosen = max(bisect_right(self._tops, self.scroll_offset.y) - 1, 0)
        else:
            self._chosen = min(max(self._chosen + by, 0), len(self._flat) - 1)
        top, end = self._tops[self._chosen], self._tops[self._chosen + 1]
        height = self.size.height
        if top < self.scroll_offset.y or end > self.scroll_offset.y + height:
            self.scroll_to(y=max(min(top, end - height), top - 1, 0), animate=False)
        self.refresh()

    def _to_end(self) -> None:
        self.scroll_end(animate=False, immediate=True)
        self._sticks = True

    def _top_seq(self) -> int | None:
        place = bisect_right(self._tops, self.scroll_offset.y) - 1
        return self._flat[place].entry.seq if 0 <= place < len(self._flat) else None

    # -- folding ------------------------------------------------------------------------------

    def action_fold(self) -> None:
        """Fold or unfold the chosen entry."""
        if 0 <= self._chosen < len(self._flat):
            self._toggle(self._chosen)

    def action_toggle_all(self) -> None:
        """Fold or unfold all of them."""
        self._all_open = not self._all_open
        self._opened.clear()
        self._redraw()

    def on_click(self, event: events.Click) -> None:
        """A click folds and unfolds."""
        number = bisect_right(self._tops, self.scroll_offset.y + event.y) - 1
        if 0 <= number < len(self._flat):
            self._chosen = number
            self._toggle(number)
            self.refresh()

    def _toggle(self, number: int) -> None:
        entry = self._flat[number].entry
        if not is_foldable(entry):
            return
        self._opened ^= {(entry.seq, entry.part)}
        for blocks in self._blocks:
            for at, block in enumerate(blocks):
                if block.entry is entry:
                    blocks[at] = self._block(entry, block.who, self._look())
        self._lay()

    # -- drawing ------------------------------------------------------------------------------

    def _redraw(self, then: Callable[[], None] = lambda: None) -> None:
        """Draw every block anew, many of them beside the app; ``then`` something."""
        chunks = list(self._chunks)
        if len(self._flat) > _DRAWN_AT_ONCE:
            self._draw_beside(chunks, then)
        else:
            self._redrew(chunks, [self._drawn(chunk) for chunk in chunks], then)

    @work(thread=True, exclusive=True, group="draw")
    def _draw_beside(self, chunks: list[Chunk], then: Callable[[], None]) -> None:
        drawn = [self._drawn(chunk) for chunk in chunks]
        hand_over(self, self._redrew, chunks, drawn, then)

    def _redrew(
        self, chunks: list[Chunk], drawn: list[list[Block]], then: Callable[[], None]
    ) -> None:
        if len(chunks) != len(self._chunks) or any(
            one is not other for one, other in zip(chunks, self._chunks, strict=True)
        ):
            self._redraw(then)  # something came or went meanwhile
            return
        self._blocks = drawn
        self._lay()
        then()

    def on_resize(self) -> None:
        """Lines are broken anew, once the new size holds."""
        if self._blocks:
            self.call_after_refresh(self._break_anew)

    def watch_show_vertical_scrollbar(self) -> None:
        """It takes its room from the lines, without a change of size."""
        self.on_resize()

    def _break_anew(self) -> None:
        look = self._look()
        if all(block.look == look for block in self._flat):
            return
        sticks, top = self._sticks, self._top_seq()

        def go_back() -> None:
            if sticks:
                self._to_end()
            elif top is not None:
                self._go_to(top)

        self._redraw(go_back)

    def line_at(self, number: int) -> Strip:
        """A line of a block."""
        place = bisect_right(self._tops, number) - 1
        if not 0 <= place < len(self._flat):
            return Strip([Segment("" if number else self._note)])
        line = self._flat[place].lines[number - self._tops[place]]
        if place == self._chosen and number == self._tops[place]:
            width = self.scrollable_content_region.width
            look = self.component("talk--chosen")
            return Strip([Segment("", look), *line]).extend_cell_length(width, look)
        return line
