"""The conversation of a session: its end first, earlier parts when they are scrolled to."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Input, Static

from holdfast.apps.render.words import ago, day_time
from holdfast.apps.tui._entry_lines import EntryBlock, EntryLook, block_of, is_foldable
from holdfast.apps.tui._safe import content
from holdfast.apps.tui._session_table import state_of
from holdfast.apps.tui._widgets import SLOW_S, LineView, TextLine, ask_beside, hand_over
from holdfast.apps.tui._window import PAGE, LogChunk, PageReader, chunk_of
from holdfast.errors import HoldfastError
from holdfast.model import SessionMetadata
from holdfast.replay import Entry
from holdfast.session import now_ms

if TYPE_CHECKING:
    from holdfast.apps.history import InputHistory
    from holdfast.library import Holdfast
    from holdfast.model import Event

_POLL_S = 0.4
_EARLIER_AT = 10  # lines from the top at which the part before is fetched
_TAIL_EVENTS_MAX = 300
_DAY_CHARS = len("2026-05-01")
_DRAWN_AT_ONCE = 80  # blocks that are drawn in the time between two keys


class ConversationView(LineView):
    """Reads one session and follows it: chunks of its log, drawn as blocks that fold, and what others write."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"talk--chosen"}
    DEFAULT_CSS = """
    ConversationView { padding: 0 1; }
    ConversationView > .talk--chosen { background: $boost; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right_square_bracket", "step(1)", "Next entry", show=False),
        Binding("left_square_bracket", "step(-1)", "Previous entry", show=False),
        Binding("enter,space", "fold", "Fold", show=False),
        Binding("o", "toggle_all", "Unfold all", show=False),
        Binding("j,down", "scroll_down", "Down", show=False),
        Binding("k,up", "scroll_up", "Up", show=False),
        Binding("home,g", "beginning", "Beginning", show=False),
        Binding("end,G", "ending", "End", show=False),
    ]

    class Followed(Message):
        """New events of the session were shown."""

    @dataclass
    class ReadFailed(Message):
        """The session could not be read."""

        error: Exception

    def __init__(self, library: Holdfast, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._library = library
        self._reader: PageReader | None = None
        self._at_end = True
        self._busy = False
        self._waits_for: PageReader | None = None
        self._chunks: list[LogChunk] = []
        self._blocks: list[list[EntryBlock]] = []
        self._flat: list[EntryBlock] = []
        self._tops: list[int] = []
        self._opened: set[tuple[int, int]] = set()
        self._all_open = False
        self._found: int | None = None
        self._chosen = -1
        self._sticks = True  # the end is in sight, and stays so when something is added
        self._note = ""  # the text shown while there are no blocks

    @property
    def session_id(self) -> str | None:
        return None if self._reader is None else self._reader.session_id

    @property
    def loaded(self) -> tuple[int, int]:
        """The first event that is in memory, and the one after the last."""
        return (self._chunks[0].first, self._chunks[-1].stop) if self._chunks else (0, 0)

    def on_mount(self) -> None:
        self.set_interval(_POLL_S, self._poll)
        self.app.theme_changed_signal.subscribe(self, lambda _: self._break_anew())

    # -- what is read ------------------------------------------------------------------------
    def read(self, session_id: str | None, at: int | None = None) -> None:
        """Show the end of a session, or what stands around event ``at``."""
        if session_id is None:
            self._reader = None
            self._take([], at_end=True)
            return
        if session_id != self.session_id:
            self._opened.clear()
            self._all_open = False
        self._reader = PageReader(self._library, session_id)
        self._found, self._chosen = at, -1
        self._waits_for = reader = self._reader
        self.set_timer(SLOW_S, lambda: self._tell_slow(reader))

        def ask() -> tuple[LogChunk | None, list[EntryBlock], bool]:
            chunk = reader.before(None) if at is None else reader.around(at)
            at_end = at is None or chunk is None or chunk.stop > reader.newest_seq()
            return chunk, self._drawn(chunk), at_end

        then, failed = partial(self._opened_chunk, reader, at), partial(self._fail, reader)
        ask_beside(self, ask, then, failed, group="read")

    def _tell_slow(self, reader: PageReader) -> None:
        """Show that the store is slow, in place of the previous content."""
        if self._waits_for is reader:
            self._take([], at_end=True)
            self._waits_for, self._note = reader, "reading …"
            self.measure(1)

    def _opened_chunk(
        self, reader: PageReader, at: int | None, found: tuple[LogChunk | None, list[EntryBlock], bool]
    ) -> None:
        chunk, blocks, at_end = found
        if reader is not self._reader:
            return
        self._take([] if chunk is None else [(chunk, blocks)], at_end=at_end)
        if not blocks:
            self._note = "Nothing was said yet. Press c to talk."
            self.measure(1)
        self._sticks = at is None
        self.call_after_refresh(self._break_anew)
        show = self._to_end if at is None else partial(self._go_to, at)
        show()
        self.call_after_refresh(show)  # once more when the pane has its size, if it was not shown before

    def _fail(self, reader: PageReader, error: Exception) -> None:
        if reader is self._reader:
            self._take([], at_end=True)
            self.post_message(self.ReadFailed(error))

    def _take(self, parts: list[tuple[LogChunk, list[EntryBlock]]], *, at_end: bool) -> None:
        self._waits_for, self._note = None, ""
        self._chunks = [chunk for chunk, _ in parts]
        self._blocks = [blocks for _, blocks in parts]
        self._at_end, self._busy = at_end, False
        self._lay()

    # -- earlier, later and new --------------------------------------------------------------
    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Fetch what comes before or after when it is nearly in sight."""
        super().watch_scroll_y(old_value, new_value)
        self._sticks = self._at_end and new_value >= self.max_scroll_y
        if self._busy or not self._chunks or self._reader is None:
            return
        earlier = new_value < _EARLIER_AT and self._chunks[0].first > 0
        if earlier or (not self._at_end and new_value + self.size.height > self._tops[-1] - _EARLIER_AT):
            self._busy = True
            self._fetch(self._reader, earlier=earlier)

    def _fetch(self, reader: PageReader, *, earlier: bool) -> None:
        first, stop = self.loaded

        def ask() -> tuple[LogChunk | None, list[EntryBlock]]:
            chunk = reader.before(first) if earlier else reader.after(stop)
            return chunk, self._drawn(chunk)

        def fetched(found: tuple[LogChunk | None, list[EntryBlock]]) -> None:
            chunk, blocks = found
            self._busy = False
            # Another session was opened while this part was read, or is being opened now.
            if reader is not self._reader or self._waits_for is not None:
                return
            if chunk is None:
                self._at_end = self._at_end or not earlier
                return
            place = 0 if earlier else len(self._chunks)
            self._chunks.insert(place, chunk)
            self._blocks.insert(place, blocks)
            if not earlier:
                self._at_end = len(chunk.events) < PAGE
            elif self._chosen >= 0:
                self._chosen += len(blocks)
            self._lay()
            if earlier:  # what is read stays where it is; the lines above it have become more
                added = sum(len(block.lines) for block in blocks)
                self.scroll_to(y=self.scroll_offset.y + added, animate=False, immediate=True)

        ask_beside(self, ask, fetched, partial(self._fail, reader), group="fetch", exclusive=False)

    def _poll(self) -> None:
        # While a part is fetched the chunks may change under what was read, so one thing at a time.
        is_waiting = self._waits_for is not None or self._busy or not self.is_attached
        if self._reader is None or not self._at_end or is_waiting:
            return
        self._busy = True
        self._look_for_new(self._reader, self._chunks[-1] if self._chunks else None)

    @work(thread=True, group="poll")
    def _look_for_new(self, reader: PageReader, tail: LogChunk | None) -> None:
        try:
            # A look that fails says nothing: the next comes soon, and what is shown is still right.
            new = reader.new(0 if tail is None else tail.stop)
        except HoldfastError:
            new = []
        drawn = [(chunk, self._redrawn(chunk)) for chunk in (_grown(tail, new) if new else ())]
        hand_over(self, self._grow, tail, drawn)

    def _redrawn(self, chunk: LogChunk) -> list[EntryBlock]:
        """Return the chunk's blocks; those that have not changed are as they were."""
        blocks = self._blocks[-1] if self._blocks else []
        known = {(block.entry.seq, block.entry.part): block for block in blocks}
        look, found = self._look(), []
        for entry in chunk.entries:
            who, block = chunk.who(entry), known.get((entry.seq, entry.part))
            # An answer that is streamed changes its last block only; to lay out all would be slow.
            is_same = block is not None and (block.entry, block.who) == (entry, who)
            found.append(block if block and is_same else self._block(entry, who, look))
        return found

    def _grow(self, tail: LogChunk | None, parts: list[tuple[LogChunk, list[EntryBlock]]]) -> None:
        self._busy = False
        # The grown part must still be the shown one: another session may have been opened meanwhile.
        is_shown = (self._chunks[-1] if self._chunks else None) is tail
        if not parts or not is_shown or self._waits_for is not None or self._reader is None:
            return
        self._chunks[-1:] = [chunk for chunk, _ in parts]
        self._blocks[-1:] = [blocks for _, blocks in parts]
        self._lay()
        if self._sticks:
            self._to_end()
            # If everything fitted before, scrolling works only after the next draw.
            self.call_after_refresh(lambda: self._to_end() if self._sticks else None)
        self.post_message(self.Followed())

    # -- moving ------------------------------------------------------------------------------
    def go_to(self, seq: int) -> None:
        """Show an event, wherever it is."""
        first, stop = self.loaded
        if self.session_id is None:
            return
        if first <= seq < stop:
            self._found = seq
            self._redraw(lambda: self._go_to(seq))
        else:
            self.read(self.session_id, seq)

    def action_beginning(self) -> None:
        if self.session_id is not None and (self.loaded[0] > 0 or not self._chunks):
            self.read(self.session_id, 0)
        else:
            self.scroll_home(animate=False)

    def action_ending(self) -> None:
        if not self._at_end and self.session_id is not None:
            self.read(self.session_id)
        else:
            self.scroll_end(animate=False)

    def _go_to(self, seq: int) -> None:
        seqs = [block.entry.seq for block in self._flat]
        self._chosen = max(bisect_right(seqs, seq) - 1, 0) if seqs else -1
        if seqs:
            self.scroll_to(y=max(self._tops[self._chosen] - 2, 0), animate=False, immediate=True)

    def action_step(self, by: int) -> None:
        if not self._flat:
            return
        # Nothing is selected yet: the first step selects the top of the screen.
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

    def _place_of(self, line: int) -> int | None:
        """Return the number of the block that a line belongs to; None where there is none."""
        place = bisect_right(self._tops, line) - 1
        return place if 0 <= place < len(self._flat) else None

    # -- folding -----------------------------------------------------------------------------
    def action_fold(self) -> None:
        if 0 <= self._chosen < len(self._flat):
            self._toggle(self._chosen)

    def action_toggle_all(self) -> None:
        self._all_open = not self._all_open
        self._opened.clear()
        self._redraw()

    def on_click(self, event: events.Click) -> None:
        number = self._place_of(self.scroll_offset.y + event.y)
        if number is not None:
            self._chosen = number
            self._toggle(number)
            self.refresh()

    def _toggle(self, number: int) -> None:
        entry = self._flat[number].entry
        if not is_foldable(entry):
            return
        self._opened ^= {(entry.seq, entry.part)}
        look = self._look()
        for blocks in self._blocks:
            blocks[:] = [self._block(entry, one.who, look) if one.entry is entry else one for one in blocks]
        self._lay()

    # -- drawing -----------------------------------------------------------------------------
    def _drawn(self, chunk: LogChunk | None) -> list[EntryBlock]:
        if chunk is None:
            return []
        look = self._look()
        return [self._block(entry, chunk.who(entry), look) for entry in chunk.entries]

    def _block(self, entry: Entry, who: str, look: EntryLook) -> EntryBlock:
        found = entry.seq == self._found
        is_open = self._all_open or (entry.seq, entry.part) in self._opened or found
        return block_of(entry, who, look, is_open=is_open, found=found)

    def _look(self) -> EntryLook:
        width = self.scrollable_content_region.width or self.size.width
        today = day_time(now_ms())[:_DAY_CHARS]
        return EntryLook(max(width, 20), dark=self.app.current_theme.dark, today=today)

    def _lay(self) -> None:
        """Work out where each block begins."""
        self._flat = [block for blocks in self._blocks for block in blocks]
        self._tops = [0, *accumulate(len(block.lines) for block in self._flat)]
        self.measure(self._tops[-1])

    def _redraw(self, then: Callable[[], None] = lambda: None) -> None:
        """Draw every block anew, many of them beside the app; ``then`` something."""
        chunks = list(self._chunks)
        # Markdown and code take milliseconds a block, and the next key must not wait for them.
        if len(self._flat) > _DRAWN_AT_ONCE:
            self._draw_beside(chunks, then)
        else:
            self._redrew(chunks, [self._drawn(chunk) for chunk in chunks], then)

    @work(thread=True, exclusive=True, group="draw")
    def _draw_beside(self, chunks: list[LogChunk], then: Callable[[], None]) -> None:
        drawn = [self._drawn(chunk) for chunk in chunks]
        hand_over(self, self._redrew, chunks, drawn, then)

    def _redrew(self, chunks: list[LogChunk], drawn: list[list[EntryBlock]], then: Callable[[], None]) -> None:
        if [*map(id, chunks)] != [*map(id, self._chunks)]:
            self._redraw(then)  # something came or went meanwhile
            return
        self._blocks = drawn
        self._lay()
        then()

    def on_resize(self) -> None:
        """Break the lines again, once the new size is stable."""
        if self._blocks:
            self.call_after_refresh(self._break_anew)

    def watch_show_vertical_scrollbar(self) -> None:
        """Re-lay the lines: the scrollbar takes its space from them without a resize event."""
        self.on_resize()

    def _break_anew(self) -> None:
        look = self._look()
        # A resize comes several times for one change, and most of them change nothing.
        if all(block.look == look for block in self._flat):
            return
        top = self._place_of(self.scroll_offset.y)
        if self._sticks:
            self._redraw(self._to_end)
        elif top is None:
            self._redraw()
        else:
            self._redraw(partial(self._go_to, self._flat[top].entry.seq))

    def line_at(self, number: int) -> Strip:
        place = self._place_of(number)
        if place is None:
            return Strip([Segment("" if number else self._note)])
        line = self._flat[place].lines[number - self._tops[place]]
        if place == self._chosen and number == self._tops[place]:
            look = self.component("talk--chosen")
            return Strip([Segment("", look), *line]).extend_cell_length(self.scrollable_content_region.width, look)
        return line


def _grown(last: LogChunk | None, new: list[Event]) -> list[LogChunk]:
    """Return the last chunk with new events; a long one is left as it is where a turn begins."""
    # A chunk is read anew as a whole when it grows, so a long one is not added to for ever.
    if last and len(last.events) >= _TAIL_EVENTS_MAX and new[0].type in ("turn_start", "user"):
        found = [last, chunk_of(new, last.stop)]
    else:
        found = [chunk_of([*last.events, *new], last.first) if last else chunk_of(new, 0)]
    return [chunk for chunk in found if chunk is not None]


class ConversationPane(Vertical):
    """The head of a conversation, its entries, and the input line; submitted text goes on as Input.Submitted."""

    DEFAULT_CSS = """
    ConversationPane #heading {
        height: 1; padding: 0 1; text-style: bold; background: $boost;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    ConversationPane #say { display: none; height: 3; border: round $accent; }
    ConversationPane #say.-shown { display: block; }
    """

    def __init__(self, library: Holdfast, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.view = ConversationView(library, id="conversation")
        self._line = SayLine(placeholder="Say something; Enter sends, Alt+Enter begins a line, Esc leaves", id="say")

    def compose(self) -> ComposeResult:
        yield Static("", id="heading")
        yield self.view
        yield self._line

    @property
    def is_line_open(self) -> bool:
        return self._line.has_class("-shown")

    def open_line(self) -> None:
        self._line.add_class("-shown").focus()

    def close_line(self) -> None:
        self._line.remove_class("-shown")

    def typed(self) -> str:
        """Return the unsent text of the input line."""
        return self._line.value.strip() if self.is_line_open else ""

    def give_back(self, text: str) -> None:
        """Put what nobody heard into the line again, unless something else is typed there."""
        if self.is_line_open and not self._line.value:
            self._line.value = text
            self._line.cursor_position = len(text)

    def take_typed(self) -> None:
        """Clear the line after it was sent."""
        self._line.keep(self._line.value)
        self._line.clear()
        self.view.action_ending()

    def read(self, session_id: str, at: int | None = None) -> None:
        """Show a session at its end or around an event, and scroll there."""
        if self.view.session_id != session_id:
            self.view.read(session_id, at)
        elif at is not None:
            self.view.go_to(at)
        self.view.focus()

    def tell_heading(self, row: SessionMetadata | None) -> None:
        """Say whose conversation it is; an id alone where no more is known of it, and whether it is yet to begin."""
        text = self.view.session_id or ("New session" if self.is_line_open else "")
        if text and row is not None:
            parts = [row.title or "(no title)", text, ago(row.updated_at, now_ms()), state_of(row)]
            text = "  ·  ".join(part for part in parts if part)
        self.query_one("#heading", Static).update(content(text.replace("\n", " ")))

    @on(Input.Submitted, "#say")
    def _sent(self, event: Input.Submitted) -> None:
        if event.value.strip():
            self.take_typed()  # and the answer is to be seen, wherever one was reading


class SayLine(TextLine):
    """Shares its history with ``holdfast chat``; a line that begins with a blank is not kept.

    What is pasted is one message with all its lines; where one ends, a sign stands.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "recall(-1)", "Earlier", show=False),
        Binding("down", "recall(1)", "Later", show=False),
        Binding("alt+enter,ctrl+j", "newline", "New line", show=False),
    ]

    def __init__(self, *, placeholder: str, id: str) -> None:
        super().__init__(placeholder=placeholder, id=id)
        self._lines: list[str] = []
        self._at = 0
        self._history: InputHistory | None = None

    def on_focus(self) -> None:
        """Fetch what was typed before, when it may first be asked for."""
        if self._history is None:
            self._load()

    @work(thread=True)
    def _load(self) -> None:
        from holdfast.apps.history import InputHistory

        self._history = InputHistory()
        self._lines = self._history.lines()
        self._at = len(self._lines)

    def _on_paste(self, event: events.Paste) -> None:
        """Take in every line: Textual's own handler takes the first, and lets the others go."""
        event.prevent_default()
        event.stop()
        self.replace("\n".join(event.text.splitlines()), *self.selection)

    def action_newline(self) -> None:
        self.insert_text_at_cursor("\n")

    def keep(self, line: str) -> None:
        if not line.startswith(" "):
            self._lines.append(line)
            # The file has a line for each: what has several is remembered for as long as the app runs.
            if self._history is not None and "\n" not in line:
                self.run_worker(partial(self._history.add, line), thread=True)
        self._at = len(self._lines)

    def action_recall(self, by: int) -> None:
        """Show the previous or next line; after the last, an empty one."""
        self._at = min(max(self._at + by, 0), len(self._lines))
        self.value = [*self._lines, ""][self._at]
        self.cursor_position = len(self.value)
