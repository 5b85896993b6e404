"""The list of sessions: any number of rows, of which only those in sight are drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from holdfast.apps.render.words import ago, short
from holdfast.apps.tui._safe import cut
from holdfast.apps.tui._widgets import LineView
from holdfast.model import SessionMetadata
from holdfast.session import now_ms

_NEAR_END = 40  # rows before the last one at which the next page is asked for
_TITLE_MIN = 20
_TAG_MIN = 6
_STATE_FROM = 100  # columns; in a narrower list a state stands behind its title, and takes no room from the others
_TAGS_FROM = 118  # the same for tags


class ListColumn(NamedTuple):
    """One column: its heading, its width, what it shows and how."""

    name: str
    width: int
    text: Callable[[SessionMetadata, int], str]
    style: str = ""
    right: bool = False
    from_width: int = 0  # shown where the list is at least so wide
    order: str = ""  # in which this column leads


def state_of(row: SessionMetadata) -> str:
    """Return the state of a session in a word or two; empty if it is idle."""
    if row.state != "ok":
        return row.state.replace("_", " ")
    if row.status != "idle":
        return row.status
    return "held" if row.held else "archived" if row.archived else "pinned" if row.pinned else ""


def _tokens(row: SessionMetadata) -> str:
    return ("~" if row.tokens_estimated else "") + short(row.total_tokens) if row.total_tokens else ""


_COLUMNS = (
    ListColumn("UPDATED", 10, lambda row, now: ago(row.updated_at, now), "list--faint", order="updated"),
    ListColumn("MSGS", 6, lambda row, _: f"{row.message_count:,}", right=True, from_width=56, order="messages"),
    ListColumn("TOKENS", 7, lambda row, _: _tokens(row), "list--faint", right=True, from_width=66, order="tokens"),
    ListColumn("STATE", 11, lambda row, _: state_of(row), "list--state", from_width=_STATE_FROM),
    ListColumn("TAGS", 18, lambda row, _: ", ".join(row.tags), "list--tag", from_width=_TAGS_FROM),
    ListColumn("TOPICS", 22, lambda row, _: ", ".join(row.auto_tags), "list--faint", from_width=150),
)


class SessionTable(LineView):
    """Rows of sessions with a cursor; the first line is the heading."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"list--{part}" for part in ("heading", "cursor", "faint", "state", "bad", "tag", "mark")
    }
    DEFAULT_CSS = """
    SessionTable > .list--heading { color: $faint; text-style: bold; }
    SessionTable > .list--cursor {
        background: $block-cursor-background; color: $block-cursor-foreground; text-style: bold;
    }
    SessionTable > .list--faint { color: $faint; }
    SessionTable > .list--state { color: $text-warning; text-style: bold; }
    SessionTable > .list--bad { color: $text-error; text-style: bold; }
    SessionTable > .list--tag { color: $text-accent; }
    SessionTable > .list--mark { color: $text-success; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "leaf(-1)", "Page up", show=False),
        Binding("pagedown", "leaf(1)", "Page down", show=False),
        Binding("home", "first", "First", show=False),
        Binding("end", "last", "Last", show=False),
        Binding("enter", "open", "Open", show=False),
        Binding("space", "mark", "Mark", show=False),
    ]
    cursor: reactive[int] = reactive(0, repaint=False)

    class Moved(Message):
        """Another row is chosen, or the chosen one is marked."""

    @dataclass
    class Entered(Message):
        """A row was entered."""

        row: SessionMetadata

    @dataclass
    class NearEnd(Message):
        """The rows that there are will soon be used up; ``whole`` if all others are wanted."""

        whole: bool = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows: list[SessionMetadata] = []
        self.marked: list[str] = []
        self.restored: set[str] = set()
        self.busy: set[str] = set()
        self.order = "updated"  # what the rows are sorted by; its column is marked
        self.nothing = ""  # the text shown if there are no rows
        self.is_elsewhere = False  # what is shown beside the list is in none of its rows, so none stands out

    @property
    def chosen(self) -> SessionMetadata | None:
        return self.rows[self.cursor] if 0 <= self.cursor < len(self.rows) else None

    def put(self, rows: list[SessionMetadata], *, keep: bool = True) -> None:
        """Show these rows. The cursor stays on its session if that is still there."""
        before = self.chosen
        self.rows = rows
        self.measure(len(rows) + 1)
        if keep and before is not None and (place := self._find(before.session_id)) is not None:
            self._place(place)
            if rows[place] != before:
                self.post_message(self.Moved())
        else:
            self._place(min(self.cursor, max(len(rows) - 1, 0)) if keep else 0)
            self.post_message(self.Moved())

    def add(self, rows: list[SessionMetadata]) -> None:
        had_none = not self.rows
        self.rows += rows
        self.measure(len(self.rows) + 1)
        if had_none and rows:
            self.post_message(self.Moved())

    def choose(self, session_id: str) -> bool:
        """Put the cursor on a session; False if it is not among the rows."""
        if (place := self._find(session_id)) is not None:
            self._place(place)
            self.post_message(self.Moved())
        return place is not None

    def unmark(self) -> None:
        self.marked = []
        self.refresh()

    def _find(self, session_id: str) -> int | None:
        # Nearly always it is the row under the cursor, and there may be a million others.
        if self.chosen is not None and self.chosen.session_id == session_id:
            return self.cursor
        return next((at for at, row in enumerate(self.rows) if row.session_id == session_id), None)

    def _place(self, cursor: int) -> None:
        self.cursor = cursor
        height = self.scrollable_content_region.height - 1
        # The target of the scrolling, not its current place: several keys may come within one frame.
        top = int(self.scroll_target_y)
        if height < 1:
            return  # not in sight; it is put right when it is
        if cursor < top:
            self.scroll_to(y=cursor, animate=False, immediate=True)
        elif cursor >= top + height:
            self.scroll_to(y=cursor - height + 1, animate=False, immediate=True)
        self.refresh()

    def on_resize(self) -> None:
        """Keep the row under the cursor visible."""
        self.call_after_refresh(lambda: self._place(self.cursor))

    def action_move(self, by: int) -> None:
        last = max(len(self.rows) - 1, 0)
        cursor = min(max(self.cursor + by, 0), last)
        if cursor != self.cursor:
            self._place(cursor)
            self.post_message(self.Moved())
        if cursor >= last - _NEAR_END:
            self.post_message(self.NearEnd())

    def action_leaf(self, by: int) -> None:
        self.action_move(by * max(self.scrollable_content_region.height - 2, 1))

    def action_first(self) -> None:
        self.action_move(-len(self.rows))

    def action_last(self) -> None:
        """Go to the oldest; missing rows are loaded first."""
        self.action_move(len(self.rows))
        self.post_message(self.NearEnd(whole=True))

    def action_open(self) -> None:
        if self.chosen is not None:
            self.post_message(self.Entered(self.chosen))

    def action_mark(self) -> None:
        """Mark the row for a comparison or a merge; the oldest of three marks goes."""
        if self.chosen is None:
            return
        id = self.chosen.session_id
        is_marked = id in self.marked
        # Two at most, which is what a comparison takes.
        self.marked = [one for one in self.marked if one != id] if is_marked else [*self.marked[-1:], id]
        self.refresh()
        self.post_message(self.Moved())

    def on_click(self, event: events.Click) -> None:
        """Choose with the first click, enter with the second."""
        row = self.scroll_offset.y + event.y - 1
        if event.y < 1 or row >= len(self.rows):
            return
        if row == self.cursor:
            self.action_open()
        else:
            self.action_move(row - self.cursor)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Load the next page when scrolling with the wheel too."""
        super().watch_scroll_y(old_value, new_value)
        if new_value + self.size.height >= len(self.rows) - _NEAR_END and self.rows:
            self.post_message(self.NearEnd())

    def render_line(self, y: int) -> Strip:
        """Return a line: the heading, which stays in place, or one of the visible rows."""
        width = self.scrollable_content_region.width
        base = self.rich_style
        if y == 0:
            strip = self._heading(width)
        else:
            number = self.scroll_offset.y + y - 1
            if number >= len(self.rows):
                lines = [] if self.rows else ["", *self.nothing.split("\n")]
                told = lines[number] if number < len(lines) else ""
                look = base + self.component("list--faint")
                return Strip([Segment("   " + cut(told, width - 3), look)]).adjust_cell_length(width, look)
            strip = self._row(number, width)
            if number == self.cursor and not self.is_elsewhere:
                look = self.component("list--cursor")
                return Strip([Segment(strip.text, base + look)]).adjust_cell_length(width, base + look)
        return strip.apply_style(base).adjust_cell_length(width, base)

    def _shown(self, width: int) -> tuple[list[ListColumn], int]:
        columns = [column for column in _COLUMNS if width >= column.from_width]
        room = width - 3 - sum(column.width + 1 for column in columns)
        return columns, max(room, _TITLE_MIN)

    def _heading(self, width: int) -> Strip:
        columns, room = self._shown(width)
        cells = ["   " + ("TITLE ▲" if self.order == "title" else "TITLE").ljust(room)]
        for column in columns:
            leading = f"▼{column.name}" if column.right else f"{column.name} ▼"
            name = leading if column.order == self.order else column.name
            cells.append(_fit(name, column.width, right=column.right))
        return Strip([Segment(" ".join(cells), self.component("list--heading"))])

    def _row(self, number: int, width: int) -> Strip:
        row, now = self.rows[number], now_ms()
        columns, room = self._shown(width)
        segments = [Segment(self._marks(row), self.component("list--mark"))]
        segments += self._title(row, room, width)
        for column in columns:
            style = self.component(column.style) if column.style else Style.null()
            style = self._state_look(row) if column.name == "STATE" else style
            text = _fit(column.text(row, now), column.width, right=column.right)
            segments.append(Segment(" " + text, style))
        return Strip(segments)

    def _title(self, row: SessionMetadata, room: int, width: int) -> list[Segment]:
        """Return the title; behind it the state, and in the room that is left the tags, where they have no column."""
        state = "" if width >= _STATE_FROM else state_of(row)
        state = f"  {state}" if state else ""
        title = cut(row.title or row.session_id, room - cell_len(state))
        left = room - cell_len(title) - cell_len(state)
        is_tagged = width < _TAGS_FROM and row.tags and left - 2 >= _TAG_MIN
        tags = "  " + " ".join(f"#{tag}" for tag in row.tags) if is_tagged else ""
        return [
            Segment(title, Style.null()),
            Segment(state, self._state_look(row)),
            Segment(_fit(tags, left), self.component("list--tag")),
        ]

    def _state_look(self, row: SessionMetadata) -> Style:
        """Return the style of a state: red for failures."""
        is_bad = row.state != "ok" or row.status == "failed"
        return self.component("list--bad" if is_bad else "list--state")

    def _marks(self, row: SessionMetadata) -> str:
        """Return the marks of a session: marked; answering, open for writing elsewhere, or restored here."""
        id = row.session_id
        state = "▶" if id in self.busy else "●" if row.open else "↺" if id in self.restored else " "
        return f"{'✓' if id in self.marked else ' '}{state} "


def _fit(text: str, width: int, *, right: bool = False) -> str:
    shown = cut(text, width)
    space = " " * (width - cell_len(shown))
    return space + shown if right else shown + space
