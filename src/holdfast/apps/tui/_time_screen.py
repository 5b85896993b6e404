"""Time travel: a slider over the events of a session, and what was known at each."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from rich.console import Group, RenderableType
from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.strip import Strip

from holdfast.apps.render.transcript import body, heading
from holdfast.apps.render.words import counted, day_time, short
from holdfast.apps.tui._page_screen import PageScreen
from holdfast.apps.tui._safe import cut, lay_out, one_line
from holdfast.apps.tui._widgets import LineView, ask_beside
from holdfast.apps.tui._window import PageReader
from holdfast.library import Holdfast, SnapshotInfo
from holdfast.replay import State, as_text, read_transcript, todo_line

_VALUE_CHARS = 400


class TimeScreen(PageScreen[tuple[str, int | None] | None]):
    """State, memory and todos after any event; gives the event to read at, or a restored fork."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1)", "Earlier", priority=True),
        Binding("right", "move(1)", "Later", priority=True),
        Binding("shift+left,pageup", "leap(-1)", "Leap back", show=False, priority=True),
        Binding("shift+right,pagedown", "leap(1)", "Leap on", show=False, priority=True),
        Binding("home", "to(0)", "First", show=False, priority=True),
        Binding("end", "to(-1)", "Last", show=False, priority=True),
        Binding("s", "snapshot", "Next snapshot"),
        Binding("enter", "take", "Read here"),
        Binding("R", "restore", "Go on from here"),
    ]

    named_keys: ClassVar[dict[str, str]] = {
        "move(-1)": "Earlier",
        "move(1)": "Later",
        "snapshot": "Next snapshot",
        "take": "Read here",
        "restore": "Go on from here",
        "leave": "Back",
    }

    def __init__(self, library: Holdfast, session_id: str, name: str = "") -> None:
        super().__init__(library, f"Time travel  ·  {name or session_id}")
        self._session_id = session_id
        self._newest = -1
        self._at = -1
        self._room = 10
        self._snapshots: list[SnapshotInfo] = []

    def make(self, width: int) -> list[Strip]:
        """Return the slider, and below it the state at its place."""
        if self._newest < 0:
            self._newest = self._at = PageReader(self.library, self._session_id).newest_seq()
            self._snapshots = self.library.snapshots(self._session_id)
        if self._newest < 0:
            return lay_out(Text("Nothing has happened in this session yet."), width)
        at = self._at
        state = self.library.state(self._session_id, at=at)
        lines: list[RenderableType] = [*self._slider(at, width), *_told(state)]
        lines += [Text(""), Text("What was said last", "bold"), *self._said(at, width)]
        return lay_out(Group(*lines), width)

    def _slider(self, at: int, width: int) -> list[Text]:
        self._room = room = max(width - 2, 10)
        bar = ["─"] * room
        for snapshot in self._snapshots:
            bar[self._place(snapshot.seq, room)] = "◇"
        bar[self._place(at, room)] = "█"
        note = "  a snapshot" if any(one.seq == at for one in self._snapshots) else ""
        many = counted(len(self._snapshots), "snapshot")
        return [Text("├" + "".join(bar) + "┤"), Text(f"event {at:,} of {self._newest:,}{note}   ◇ {many}", "dim")]

    def _place(self, seq: int, room: int) -> int:
        return min(max(round(seq / max(self._newest, 1) * (room - 1)), 0), room - 1)

    def _said(self, at: int, width: int) -> list[Text]:
        events = list(self.library.events(self._session_id, stop=at + 1, reverse=True, limit=12))[::-1]
        first = events[0].seq if events else 0
        lines: list[Text] = []
        for entry in list(read_transcript(events, first))[-4:]:
            text = " ".join(body(entry)[:_VALUE_CHARS].split())
            lines.append(Text(cut(f"  #{entry.seq} {heading(entry, first=first)}: {text}", width)))
        return lines

    @on(LineView.Clicked)
    def _clicked(self, event: LineView.Clicked) -> None:
        """Go to the event at the clicked place of the slider."""
        if event.line == 0 and self._newest > 0:
            self._go(round((event.column - 1) / max(self._room - 1, 1) * self._newest))

    def action_move(self, by: int) -> None:
        self._go(self._at + by)

    def action_leap(self, by: int) -> None:
        """Move by a twentieth of the session."""
        self._go(self._at + by * max(self._newest // 20, 1))

    def action_to(self, end: int) -> None:
        self._go(self._newest if end else 0)

    def action_snapshot(self) -> None:
        """Go to the next snapshot; after the last, to the first."""
        seqs = sorted(one.seq for one in self._snapshots)
        if seqs:
            self._go(next((seq for seq in seqs if seq > self._at), seqs[0]))

    def _go(self, at: int) -> None:
        # The page is made by a thread; of many keys in a row only the last one's is shown.
        self._at = min(max(at, 0), max(self._newest, 0))
        self.draw()

    def action_take(self) -> None:
        self.dismiss((self._session_id, max(self._at, 0)))

    def action_restore(self) -> None:
        """Go on from here in a new session; this one stays as it is."""
        if self._at >= 0:
            restore = partial(self.library.restore, self._session_id, self._at)

            def made(session_id: str) -> None:
                self.dismiss((session_id, None))

            # Not exclusive: a second one would not undo what the first has made.
            ask_beside(self, restore, made, self._failed, group="restore", exclusive=False)


def _told(state: State) -> list[RenderableType]:
    figures = [
        day_time(state.updated_at),
        counted(state.turns, "turn") if state.turns else "",
        counted(state.message_count, "message"),
        f"{short(state.usage.total_tokens)} tokens",
        state.status,
    ]
    lines: list[RenderableType] = [Text("  ·  ".join(filter(None, figures)))]
    memory = {name: as_text(entry.value) for name, entry in state.memory.items()}
    # A value that no longer decodes is shown all the same.
    variables = {name: bytes(raw).decode("utf-8", "replace") for name, raw in state.encoded.items()}
    todos = [*map(todo_line, state.todos)]
    for title, values in (("Memory", _pairs(memory)), ("Variables", _pairs(variables)), ("Todos", todos)):
        lines += [Text(""), Text(f"{title} ({len(values)})", "bold")]
        lines += [Text("  " + one_line(value), overflow="fold") for value in values]
    if state.tags:
        lines += [Text(""), Text("Tags  " + one_line(", ".join(state.tags)))]
    return lines


def _pairs(values: dict[str, str]) -> list[str]:
    return [f"{name}: {value[:_VALUE_CHARS]}" for name, value in values.items()]
