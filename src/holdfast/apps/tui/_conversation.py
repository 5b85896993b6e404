"""The conversation of a session: its end first, earlier parts when they are scrolled to."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.worker import get_current_worker

from holdfast.apps.tui._entry_lines import Block
from holdfast.apps.tui._talk_lines import TalkLines
from holdfast.apps.tui._window import PAGE, Chunk, Reader, chunk_of
from holdfast.apps.tui._workers import hand_over
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.library import Holdfast
    from holdfast.model import Event

_POLL_S = 0.4
_SLOW_S = 0.4
_EARLIER_AT = 10  # lines from the top at which the part before is fetched
_TAIL_EVENTS_MAX = 300


class Conversation(TalkLines):
    """Reads one session and follows it. What another process writes appears by itself."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "scroll_down", "Down", show=False),
        Binding("k,up", "scroll_up", "Up", show=False),
        Binding("home,g", "beginning", "Beginning", show=False),
        Binding("end,G", "ending", "End", show=False),
    ]

    class Followed(Message):
        """New events of the session were shown."""

        def __init__(self, session_id: str, new: list[Event]) -> None:
            super().__init__()
            self.session_id = session_id
            self.new = new

    class Failed(Message):
        """The session could not be read."""

        def __init__(self, error: Exception) -> None:
            super().__init__()
            self.error = error

    def __init__(self, library: Holdfast, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._library = library
        self._reader: Reader | None = None
        self._at_end = True
        self._busy = False
        self._waits_for: Reader | None = None

    @property
    def session_id(self) -> str | None:
        """The session that is read."""
        return None if self._reader is None else self._reader.session_id

    @property
    def loaded(self) -> tuple[int, int]:
        """The first event that is in memory, and the one after the last."""
        if not self._chunks:
            return (0, 0)
        return self._chunks[0].first, self._chunks[-1].stop

    def on_mount(self) -> None:
        """Look now and then whether something was added."""
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
        self._reader = Reader(self._library, session_id)
        self._found, self._chosen = at, -1
        self._waits_for = reader = self._reader
        self.set_timer(_SLOW_S, lambda: self._tell_slow(reader))
        self._open(reader, at)

    def _tell_slow(self, reader: Reader) -> None:
        """A slow store: say so, in the place of what was shown before."""
        if self._waits_for is reader:
            self._take([], at_end=True)
            self._waits_for, self._note = reader, "reading …"
            self.measure(1)

    @work(thread=True, exclusive=True, group="read")
    def _open(self, reader: Reader, at: int | None) -> None:
        worker = get_current_worker()
        try:
            chunk = reader.last() if at is None else reader.around(at)
            newest = reader.newest_seq() if at is not None and chunk is not None else None
        except HoldfastError as error:
            hand_over(self, self._fail, reader, error)
            return
        at_end = newest is None or (chunk is not None and chunk.stop > newest)
        blocks = self._drawn(chunk)
        if not worker.is_cancelled:
            hand_over(self, self._opened_chunk, reader, chunk, blocks, at_end, at)

    def _opened_chunk(
        self,
        reader: Reader,
        chunk: Chunk | None,
        blocks: list[Block],
        at_end: bool,  # noqa: FBT001 - a callback
        at: int | None,
    ) -> None:
        if reader is not self._reader:
            return
        self._take([] if chunk is None else [(chunk, blocks)], at_end=at_end)
        if not blocks:
            self._note = "Nothing was said yet. Press c to talk."
            self.measure(1)
        self._sticks = at is None
        self.call_after_refresh(self._break_anew)
        # Once more when the pane has its size, if it was not shown before.
        for go in (lambda act: act(), self.call_after_refresh):
            if at is None:
                go(self._to_end)
            else:
                go(lambda: self._go_to(at))

    def _fail(self, reader: Reader, error: Exception) -> None:
        if reader is self._reader:
            self._take([], at_end=True)
            self.post_message(self.Failed(error))

    def _take(self, parts: list[tuple[Chunk, list[Block]]], *, at_end: bool) -> None:
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
        if new_value < _EARLIER_AT and self._chunks[0].first > 0:
            self._busy = True
            self._fetch(self._reader, self._chunks[0].first, earlier=True)
        elif not self._at_end and new_value + self.size.height > self._tops[-1] - _EARLIER_AT:
            self._busy = True
            self._fetch(self._reader, self._chunks[-1].stop, earlier=False)

    @work(thread=True, group="fetch")
    def _fetch(self, reader: Reader, seq: int, *, earlier: bool) -> None:
        try:
            chunk = reader.before(seq) if earlier else reader.after(seq)
        except HoldfastError as error:
            hand_over(self, self._fail, reader, error)
            return
        blocks = self._drawn(chunk)
        hand_over(self, self._fetched, reader, chunk, blocks, earlier)

    def _fetched(
        self,
        reader: Reader,
        chunk: Chunk | None,
        blocks: list[Block],
        earlier: bool,  # noqa: FBT001 - a callback
    ) -> None:
        self._busy = False
        if reader is not self._reader or self._waits_for is not None:
            return
        if chunk is None:
            self._at_end = self._at_end or not earlier
            return
        if not earlier:
            self._chunks.append(chunk)
            self._blocks.append(blocks)
            self._at_end = len(chunk.events) < PAGE
            self._lay()
            return
        self._chunks.insert(0, chunk)
        self._blocks.insert(0, blocks)
        added = sum(len(block.lines) for block in blocks)
        self._chosen += len(blocks) if self._chosen >= 0 else 0
        self._lay()
        self.scroll_to(y=self.scroll_offset.y + added, animate=False, immediate=True)

    def _poll(self) -> None:
        is_waiting = self._waits_for is not None or self._busy or not self.is_attached
        if self._reader is None or not self._at_end or is_waiting:
            return
        self._busy = True
        self._look_for_new(self._reader, self._chunks[-1] if self._chunks else None)

    @work(thread=True, group="poll")
    def _look_for_new(self, reader: Reader, tail: Chunk | None) -> None:
        try:
            new = reader.new(0 if tail is None else tail.stop)
        except HoldfastError:
            new = []
        parts = _grown(tail, new) if new else []
        drawn = [(chunk, self._redrawn(chunk)) for chunk in parts]
        hand_over(self, self._grow, tail, new, drawn)

    def _redrawn(self, chunk: Chunk) -> list[Block]:
        """The chunk's blocks; those that have not changed are as they were."""
        blocks = self._blocks[-1] if self._blocks else []
        known = {(block.entry.seq, block.entry.part): block for block in blocks}
        look, found = self._look(), []
        for entry in chunk.entries:
            who, block = chunk.who(entry), known.get((entry.seq, entry.part))
            is_same = block is not None and (block.entry, block.who) == (entry, who)
            found.append(block if block and is_same else self._block(entry, who, look))
        return found

    def _grow(
        self, tail: Chunk | None, new: list[Event], parts: list[tuple[Chunk, list[Block]]]
    ) -> None:
        self._busy = False
        # What grew must be what is shown now: another session may have been opened meanwhile.
        is_shown = (self._chunks[-1] if self._chunks else None) is tail
        if not parts or not is_shown or self._waits_for is not None or self._reader is None:
            return
        self._chunks[-1:] = [chunk for chunk, _ in parts]
        self._blocks[-1:] = [blocks for _, blocks in parts]
        self._lay()
        if self._sticks:
            self._to_end()
            # Where all had room before, nothing scrolls until that is drawn.
            self.call_after_refresh(lambda: self._to_end() if self._sticks else None)
        self.post_message(self.Followed(self._reader.session_id, new))

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
        """To the first event."""
        if self.session_id is not None and (self.loaded[0] > 0 or not self._chunks):
            self.read(self.session_id, 0)
        else:
            self.scroll_home(animate=False)

    def action_ending(self) -> None:
        """To the newest event."""
        if not self._at_end and self.session_id is not None:
            self.read(self.session_id)
        else:
            self.scroll_end(animate=False)


def _grown(last: Chunk | None, new: list[Event]) -> list[Chunk]:
    """The last chunk with new events; a long one is left as it is where a turn begins."""
    if last is None:
        found = chunk_of(new, 0)
        return [] if found is None else [found]
    if len(last.events) >= _TAIL_EVENTS_MAX and new[0].type in ("turn_start", "user"):
        more = chunk_of(new, last.stop)
        return [last] if more is None else [last, more]
    found = chunk_of([*last.events, *new], last.first)
    return [] if found is None else [found]
