"""A screen of one page that a thread makes, and makes again when the width changes."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal, TypeVar

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen, Screen
from textual.strip import Strip
from textual.widgets import Static

from holdfast.apps.render.page import STYLES, Canvas, Colour, Span
from holdfast.apps.render.questions import ANSWERED, as_editable, as_sentence, person, read_edited, read_said, view_of
from holdfast.apps.render.transcript import family, origin
from holdfast.apps.render.words import ago, counted, forest
from holdfast.apps.tui._dialogs import Prompt, Sheet
from holdfast.apps.tui._entry_lines import first_line
from holdfast.apps.tui._safe import content, lay_out, one_line, styled
from holdfast.apps.tui._widgets import KeyBar, LineView, ask_beside
from holdfast.errors import HoldfastError
from holdfast.library import Holdfast
from holdfast.replay import Comparison, as_json
from holdfast.session import Answer, Waiting, now_ms

T = TypeVar("T")
_MARGIN = 4  # of the page, with its scrollbar


class PageScreen(Screen[T]):
    """A title, a page that scrolls, and the keys."""

    DEFAULT_CSS = """
    PageScreen #title { height: 1; padding: 0 1; background: $panel; text-style: bold; }
    PageScreen LineView { padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Back"),
        Binding("question_mark", "help", "Help", key_display="?", show=False),
    ]

    def __init__(self, library: Holdfast, title: str) -> None:
        super().__init__()
        self.library = library
        self._title = title

    def compose(self) -> ComposeResult:
        yield Static(content(self._title), id="title")
        yield LineView(id="page")
        yield KeyBar()

    @property
    def page(self) -> LineView:
        return self.query_one("#page", LineView)

    def make(self, width: int) -> list[Strip]:
        """Return the lines for a page of that width. Called in a thread; may raise a HoldfastError."""
        raise NotImplementedError

    def on_mount(self) -> None:
        self.page.loading = True

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw)

    def draw(self) -> None:
        width = max(self.size.width - _MARGIN, 20)
        ask_beside(self, lambda: self.make(width), self._show, self._failed, group="page")

    def _show(self, lines: list[Strip]) -> None:
        self.page.loading = False
        self.page.show(lines)
        self.page.focus()

    def _failed(self, error: HoldfastError) -> None:
        self.page.loading = False
        self.query_one("#title", Static).update(content(f"{self._title}: {error}"))

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_help(self) -> None:
        self.app.push_screen(HelpScreen())


def printed(width: int, write: Callable[[Canvas], None]) -> list[Strip]:
    """Return the lines that ``write``, which prints for the command too, puts onto a page of that width."""
    paper = _Paper(width)
    write(paper)
    return lay_out(Group(*paper.ink.pieces), width)


class _Paper(Canvas):
    """A page that is drawn in place of the terminal."""

    def __init__(self, width: int) -> None:
        self._width = width
        self.ink = _Ink(width)

    @property
    def columns(self) -> int:
        return self._width

    def _ready(self) -> Colour:
        return self.ink


class _Collector(Console):
    """A console that keeps what it is asked to print."""

    def __init__(self, width: int) -> None:
        super().__init__(file=io.StringIO(), force_terminal=True, width=width)
        self.pieces: list[Any] = []

    def print(self, *objects: Any, **_: Any) -> None:
        self.pieces += objects


class _Ink(Colour):
    """Keeps what is laid out, for a width of its own, in the place of writing it."""

    def __init__(self, width: int) -> None:
        super().__init__(io.StringIO(), colour=True)
        # Tables are laid out by rich itself; what it would print is taken from it instead.
        self._console = console = _Collector(width)
        self.pieces = console.pieces

    @property
    def _width(self) -> int:
        return self._console.width

    def _write(self, spans: list[Span]) -> None:
        line = Text.assemble(*((span.text, STYLES[span.style]) for span in spans))
        line.rstrip()
        self.pieces.append(line)


class CompareScreen(PageScreen[None]):
    """Two sessions side by side: where they parted, their turns next to each other, and what else differs."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("o", "full", "Long or short")]

    def __init__(self, library: Holdfast, a: str, b: str) -> None:
        super().__init__(library, f"Compare  ·  {a}  and  {b}")
        self._ids = (a, b)
        self._found: Comparison | None = None
        self._full = False

    def make(self, width: int) -> list[Strip]:
        """Return the page that ``holdfast compare`` prints."""
        from holdfast.apps.render.comparison import print_comparison

        self._found = found = self._found or self.library.compare(*self._ids)
        return printed(width, lambda page: print_comparison(page, found, full=self._full))

    def action_full(self) -> None:
        """Show whole answers, or only their beginnings."""
        self._full = not self._full
        self.draw()


By = Literal["day", "week", "month"]
_NEXT: dict[By, By] = {"day": "week", "week": "month", "month": "day"}
_SPANS = {None: 7, 7: 30, 30: 90, 90: 365, 365: None}  # days, and the next longer span


class StatsScreen(PageScreen[None]):
    """The usage of all sessions: tokens, cost, activity, models, tools and topics."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "period", "Day, week, month"),
        Binding("s", "span", "How far back"),
    ]

    def __init__(self, library: Holdfast) -> None:
        super().__init__(library, "Analytics")
        self._by: By = "day"
        self._days: int | None = None

    def make(self, width: int) -> list[Strip]:
        """Return the page that ``holdfast stats`` prints."""
        from holdfast.apps.render.stats import print_stats

        since = None if self._days is None else dt.datetime.now(dt.UTC) - dt.timedelta(days=self._days)
        stats = self.library.stats(since, by=self._by)
        return printed(width, lambda page: print_stats(page, stats, width))

    def action_period(self) -> None:
        """Show columns of days, weeks or months."""
        self._by = _NEXT[self._by]
        self._again()

    def action_span(self) -> None:
        """Show all time, or the last days."""
        self._days = _SPANS[self._days]
        self._again()

    def _again(self) -> None:
        told = "all time" if self._days is None else f"the last {self._days} days"
        self._title = f"Analytics  ·  by {self._by}  ·  {told}"
        self.query_one("#title", Static).update(content(self._title))
        self.draw()


_SHOWN_MAX = 500


class TreeScreen(PageScreen[tuple[str, int | None] | None]):
    """A session among its relatives: the whole tree that it belongs to; gives the one that was chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, priority=True),
        Binding("down,j", "move(1)", "Down", show=False, priority=True),
        Binding("enter", "take", "Go there"),
    ]

    def __init__(self, library: Holdfast, session_id: str, name: str = "") -> None:
        super().__init__(library, f"Branches  ·  {name or session_id}")
        self._session_id = session_id
        self._ids: list[str] = []
        self._cursor = 0

    def make(self, width: int) -> list[Strip]:
        """Return one line for each session of the family."""
        rows, _ = family(self.library, self._session_id, _SHOWN_MAX)
        ordered = list(forest(rows))
        ids = [row.session_id for _, row in ordered]
        if ids != self._ids:
            self._cursor = ids.index(self._session_id)
        self._ids, now = ids, now_ms()
        lines, titles = [], {row.session_id: row.title for row in rows}
        for number, (mark, row) in enumerate(ordered):
            merged = origin(self.library, row).merged
            here = "▶ " if number == self._cursor else "  "
            text = styled(
                (here + mark, "bold"),
                (row.title or row.session_id, "bold reverse" if row.session_id == self._session_id else ""),
                (f"  + {titles.get(merged) or merged}" if merged else "", "bold"),
                (f"  {counted(row.message_count, 'message')}  {ago(row.updated_at, now)}", "dim"),
                (f"  {row.session_id}", "dim"),
            )
            lines += first_line(text, width)
        return lines

    def action_move(self, by: int) -> None:
        self._cursor = min(max(self._cursor + by, 0), max(len(self._ids) - 1, 0))
        self.page.scroll_to(y=max(self._cursor - self.page.size.height // 2, 0), animate=False)
        self.draw()

    @on(LineView.Clicked)
    def _clicked(self, event: LineView.Clicked) -> None:
        """Choose with the first click, open with the second."""
        if event.line == self._cursor:
            self.action_take()
        elif event.line < len(self._ids):
            self.action_move(event.line - self._cursor)

    def action_take(self) -> None:
        if self._ids:
            self.dismiss((self._ids[self._cursor], None))


def _whole(text: str, style: str = "") -> RenderableType:
    """Return some text below a heading, on as many lines as it needs."""
    return Padding(Text(one_line(text), style, overflow="fold"), (0, 0, 0, 4))


class WaitingScreen(PageScreen[str | None]):
    """The open requests of sessions, with ways to answer them; returns the session to read."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, priority=True),
        Binding("down,j", "move(1)", "Down", show=False, priority=True),
        Binding("y", "allow('once')", "Allow"),
        Binding("s", "allow('session')", "In this session"),
        Binding("a", "allow('always')", "Always"),
        Binding("e", "edit", "Edit"),
        Binding("n", "deny", "Deny"),
        Binding("enter", "read", "Read it"),
    ]

    def __init__(self, library: Holdfast, answered: Callable[[str], None]) -> None:
        """``answered`` is called with the session of each question that was answered here."""
        super().__init__(library, "Waiting")
        self._answered = answered
        self._found: list[Waiting] = []
        self._cursor = 0

    def on_mount(self) -> None:
        super().on_mount()
        self.set_interval(_LOOK_S, self.draw)

    def make(self, width: int) -> list[Strip]:
        """Return a line for each question, and below the chosen one what it is about."""
        chosen, self._found = self.chosen, self.library.waiting()
        ids = [one.id for one in self._found]
        # The one that is looked at stays chosen, whatever is answered elsewhere.
        self._cursor = ids.index(chosen.id) if chosen and chosen.id in ids else min(self._cursor, max(len(ids) - 1, 0))
        if not self._found:
            return lay_out(Text("Nothing waits for you."), width)
        lines, now = [], now_ms()
        for number, one in enumerate(self._found):
            is_chosen = number == self._cursor
            who = f"  {one.session_id}  {one.agent or ''}"
            head = styled(
                ("▶ " if is_chosen else "  ", "bold"),
                (one.tool or "the session", "bold reverse" if is_chosen else "bold"),
                (f"{who}  asked {ago(one.asked_at, now)}", "dim"),
            )
            lines += first_line(head, width)
            lines += [line for text in self._about(one) for line in lay_out(text, width)] if is_chosen else []
        return lines

    def _about(self, one: Waiting) -> list[RenderableType]:
        view = view_of(one)
        words = [one.reason] if one.reason else []
        words += [] if view.is_asked else [as_sentence(one)]
        words += [f"{name} = {as_json(value)}" for name, value in view.beside.items()]
        words += [] if view.has_args else ["Its arguments cannot be read here."]
        signs = {"-": "red", "+": "green"}
        lines = [*view.lines, "… and more lines"] if view.is_cut else view.lines
        # Wrapped and never cut: nobody is to allow what they cannot see.
        changes = [_whole(line, signs.get(line[:1], "")) for line in lines]
        return [*(_whole(text) for text in words), *changes, Text("")]

    @property
    def chosen(self) -> Waiting | None:
        return self._found[self._cursor] if self._cursor < len(self._found) else None

    def action_move(self, by: int) -> None:
        self._cursor = min(max(self._cursor + by, 0), max(len(self._found) - 1, 0))
        self.page.scroll_to(y=max(self._cursor - self.page.size.height // 2, 0), animate=False)
        self.draw()

    def action_read(self) -> None:
        """Read the session that waits."""
        if self.chosen is not None:
            self.dismiss(self.chosen.session_id)

    def action_allow(self, scope: str) -> None:
        """Let the call run; where a tool asks for something, say it."""
        if (one := self.chosen) is None or not view_of(one).is_asked:
            return
        if one.kind == "input":
            self.app.push_screen(Prompt(one.reason or f"{one.tool} asks"), partial(self._said, one, "result"))
        else:
            self._answer(one, lambda: True, scope=scope)

    def action_deny(self) -> None:
        """Do not let it run, and say why."""
        if (one := self.chosen) is not None and one.kind == "permission":
            self.app.push_screen(
                Prompt(f"Why may it not use {one.tool}?", detail="The agent is told."), partial(self._denied, one)
            )

    def action_edit(self) -> None:
        """Let it run with other arguments."""
        if (one := self.chosen) is not None and one.kind == "permission" and isinstance(one.args, dict):
            self.app.push_screen(
                Sheet(f"The arguments of {one.tool}", as_editable(one.args), read_edited),
                partial(self._said, one, "edit"),
            )

    def _denied(self, one: Waiting, why: str | None) -> None:
        if why is not None:
            self._answer(one, lambda: False, because=why or None)

    def _said(self, one: Waiting, word: str, text: str | None) -> None:
        if text is not None:
            self._answer(one, lambda: read_said(one, word, text))

    def _answer(self, one: Waiting, read: Callable[[], Any], **said: Any) -> None:
        def give() -> Answer:
            return self.library.answer(one.id, read(), by=person(), via="tui", session_id=one.session_id, **said)

        def told(answer: Answer) -> None:
            self.app.notify(f"{ANSWERED[answer.decision]}. Whoever runs the agent goes on.", markup=False)
            self.draw()
            self._answered(one.session_id)

        def failed(error: HoldfastError) -> None:
            self.app.notify(f"{error.message}. {error.remedy}", severity="error", timeout=8, markup=False)

        ask_beside(self, give, told, failed, group="answer", exclusive=False)


_LOOK_S = 2.0

_KEY_COLUMNS = 25
_KEYS = {
    "Everywhere": {
        "?": "this page",
        "Ctrl+P": "the command palette: every action by its name",
        "Ctrl+T": "light or dark",
        "Esc": "back; out of a conversation, to the list",
        "q": "leave; answers that still run are stopped, and kept",
    },
    "The list": {
        "↑ ↓ PgUp PgDn Home End": "move; End goes to the oldest of all",
        "Enter": "read the session",
        "/": "filter as you type: words, tag:x status:failed agent:x model:x",
        "s": "sort by another column",
        "Space": "mark, for a comparison or a merge",
        "f": "search what was said, in every session",
        "c  n": "talk on this session, begin a new one",
        "a": "analytics",
        "w": "what waits for you: y allows, e edits, n denies",
    },
    "A session": {
        "r  t  p": "rename, tag, pin",
        "F  x  z": "fork, export, archive or take out of the archive",
        "d": "delete into the trash",
        "u": "undo: title, tags, pin, archive, delete; a fork or a merge goes into the trash",
        "=  m": "compare side by side, merge (the marked one and this one)",
        "v  b": "time travel with snapshots, the tree of branches",
    },
    "A conversation": {
        "↑ ↓ PgUp PgDn Home End": "scroll; what is further back is read as you come to it",
        "]  [": "the next entry, the one before",
        "Enter, Space, click": "unfold a tool call, a result or thinking",
        "o": "unfold or fold all of them",
        ":": "jump to an event (120), a turn (t7) or a time (14:30, 2026-05-01)",
        "c": "talk; Enter sends, Alt+Enter begins a new line, a paste is one message",
        "C": "continue what was interrupted, try again what failed",
        "Ctrl+X": "stop the answer; what was said is kept",
    },
    "Marks": {
        "●": "a writer has it open, here or elsewhere",
        "▶": "an answer of this app is under way",
        "↺": "restored: it was taken up again here",
        "✓": "marked",
    },
}


class HelpScreen(ModalScreen[None]):
    """The help for all keys, over the current screen."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen > LineView {
        width: 92; max-width: 96%; height: 90%; border: round $accent;
        background: $surface; padding: 0 2;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark", "dismiss", "Back")]

    def compose(self) -> ComposeResult:
        page = LineView()
        page.border_title, page.border_subtitle = "Keys", "Esc closes"
        yield page

    def on_mount(self) -> None:
        self.call_after_refresh(self._draw)

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        page = self.query_one(LineView)
        sections: list[RenderableType] = []
        for title, keys in _KEYS.items():
            table = Table.grid(Column(width=_KEY_COLUMNS), Column(), padding=(0, 1))
            for key, does in keys.items():
                table.add_row(Text(f"  {key}", "bold"), Text(does))
            sections += [Text(""), Text(title, "bold underline"), table]
        page.show(lay_out(Group(*sections), page.scrollable_content_region.width))
        page.focus()
