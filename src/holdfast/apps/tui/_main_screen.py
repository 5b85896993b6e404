"""The first screen: the list of sessions, and beside it what is said in the chosen one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Input, Static
from textual.worker import get_current_worker

from holdfast.apps.shown.words import ago, counted
from holdfast.apps.tui._actions import Actions
from holdfast.apps.tui._conversation import Conversation
from holdfast.apps.tui._key_bar import KeyBar
from holdfast.apps.tui._safe import content
from holdfast.apps.tui._say_line import SayLine
from holdfast.apps.tui._saying import Saying
from holdfast.apps.tui._session_list import SessionList, state_of
from holdfast.apps.tui._shelf import FIRST_PAGE, ORDERS, Asked, Batch, Shelf, parse, renewed
from holdfast.errors import HoldfastError
from holdfast.model import SessionMetadata
from holdfast.session import now_ms

if TYPE_CHECKING:
    from holdfast.apps.tui._app import SessionsApp

__all__ = ["MainScreen"]

_TYPING_S = 0.12
_LOOK_S = 0.15
_RENEW_S = 2.0


class MainScreen(Actions, Saying, Screen[None]):
    """List and conversation; side by side where there is room, else one at a time."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012 - textual's own type
    DEFAULT_CSS = """
    MainScreen #top, MainScreen #status { height: 1; padding: 0 1; background: $panel; }
    MainScreen #heading { height: 1; padding: 0 1; text-style: bold; background: $boost; }
    MainScreen #top, MainScreen #status, MainScreen #heading {
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    MainScreen #left { width: 100%; }
    MainScreen #right { width: 100%; display: none; }
    MainScreen #filter, MainScreen #say { display: none; height: 3; border: round $accent; }
    MainScreen #filter.-shown, MainScreen #say.-shown { display: block; }
    MainScreen.-narrow.-reading #left { display: none; }
    MainScreen.-narrow.-reading #right { display: block; }
    MainScreen.-wide #left { width: 9fr; }
    MainScreen.-wide #right { width: 11fr; display: block; border-left: vkey $panel-lighten-2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("f", "search", "Search"),
        Binding("c", "talk", "Talk"),
        Binding("n", "new", "New"),
        Binding("s", "sort", "Sort"),
        Binding("d", "delete", "Delete"),
        Binding("u", "undo", "Undo", show=False),
        Binding("r", "rename", "Rename", show=False),
        Binding("t", "tag", "Tags", show=False),
        Binding("p", "pin", "Pin", show=False),
        Binding("F", "fork", "Fork", show=False),
        Binding("x", "export", "Export", show=False),
        Binding("z", "archive", "Archive", show=False),
        Binding("equals_sign", "compare", "Compare", show=False),
        Binding("m", "merge", "Merge", show=False),
        Binding("v", "time", "Time", show=False),
        Binding("b", "tree", "Branches", show=False),
        Binding("a", "analytics", "Analytics", show=False),
        Binding("colon", "jump", "Jump", show=False),
        Binding("ctrl+x", "stop", "Stop", priority=True),
        Binding("escape", "back", "Back"),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q", "app.quit", "Quit"),
    ]

    if TYPE_CHECKING:

        @property
        def app(self) -> SessionsApp:  # type: ignore[override]
            """The app that this screen is made for."""

    def __init__(self, shelf: Shelf, *, session_id: str | None = None) -> None:
        super().__init__()
        self._shelf = shelf
        self._first_id = session_id
        self._asked = Asked()
        self._next: Any = None
        self._is_whole = False
        self._fetching = False
        self._wants_all = False
        self._total = 0
        self._progress = ""
        self._delay: Timer | None = None
        self._look: Timer | None = None

    def compose(self) -> ComposeResult:
        """The list to the left, the conversation to the right, the keys below."""
        yield Static(content("Holdfast"), id="top")
        with Horizontal():
            with Vertical(id="left"):
                yield Input(
                    placeholder="words, tag:x, status:waiting, agent:x, model:x", id="filter"
                )
                yield SessionList(id="sessions")
            with Vertical(id="right"):
                yield Static("", id="heading")
                yield Conversation(self.app.library, id="conversation")
                yield SayLine(placeholder="Say something; Enter sends, Esc leaves", id="say")
        yield Static("", id="status")
        yield KeyBar()

    def on_mount(self) -> None:
        """Ask for the first page; look again now and then."""
        self.sessions.focus()
        self._begin()
        self.set_interval(_RENEW_S, self._renew)
        if self._first_id is not None:
            self.read(self._first_id)

    # -- parts -------------------------------------------------------------------------------

    @property
    def sessions(self) -> SessionList:
        """The list."""
        return self.query_one("#sessions", SessionList)

    @property
    def conversation(self) -> Conversation:
        """What is read."""
        return self.query_one("#conversation", Conversation)

    @property
    def chosen(self) -> SessionMetadata | None:
        """The session that actions are about: the one that is read, else that under the cursor."""
        id = self.conversation.session_id
        row = self.sessions.chosen
        if self.is_reading and id is not None and (row is None or row.session_id != id):
            return self.app.tracking.known.get(id) or SessionMetadata(session_id=id)
        return row

    @property
    def is_reading(self) -> bool:
        """Whether the conversation is what the user looks at."""
        return self.has_class("-reading")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The key bar shows what can be done here and now."""
        if action == "stop":
            here = self.conversation.session_id or self.app.talking_on
            return here is not None and self.app.talks.is_running(here)
        if action == "back":
            return self.is_reading or self.query_one("#filter").has_class("-shown")
        is_typing = isinstance(self.focused, Input)
        return not (is_typing and action in ("filter", "search", "sort", "delete", "help"))

    # -- the list ----------------------------------------------------------------------------

    def _begin(self, *, keep: bool = False) -> None:
        self._next, self._is_whole, self._wants_all = None, False, False
        self._load(self._asked, keep=keep)

    @work(thread=True, exclusive=True, group="list")
    def _load(self, asked: Asked, *, keep: bool) -> None:
        worker = get_current_worker()
        try:
            if not asked.needs_all:
                rows, after = self._shelf.first(asked)
                self.app.call_from_thread(self._put, asked, rows, after, keep)
                total = self._shelf.total()
                self.app.call_from_thread(self._tell_total, total)
                return
            first = True
            for batch in self._shelf.everything(asked):
                if worker.is_cancelled:
                    return
                self.app.call_from_thread(self._put_batch, asked, batch, first)
                first = first and not batch.rows
        except HoldfastError as error:
            self.app.call_from_thread(self.app.tell_failure, error)

    def _put(
        self,
        asked: Asked,
        rows: list[SessionMetadata],
        after: Any,
        keep: bool,  # noqa: FBT001 - a callback
    ) -> None:
        if asked != self._asked:
            return
        self._next, self._is_whole, self._fetching = after, after is None, False
        self.sessions.put(rows, keep=keep)
        self._know(rows)
        self._tell_top()

    def _put_batch(self, asked: Asked, batch: Batch, first: bool) -> None:  # noqa: FBT001
        if asked != self._asked:
            return
        if first and (batch.rows or batch.is_last):
            self.sessions.put(batch.rows, keep=False)
        elif batch.rows:
            self.sessions.add(batch.rows)
        self._is_whole = batch.is_last
        self._progress = "" if batch.is_last else f"looked through {batch.seen:,}"
        self._know(batch.rows[:FIRST_PAGE])
        self._tell_top()

    @on(SessionList.NearEnd)
    def _near_end(self, event: SessionList.NearEnd) -> None:
        self._wants_all = self._wants_all or event.whole
        self._fetch_more()

    def _fetch_more(self) -> None:
        if self._next is not None and not self._fetching and not self._asked.needs_all:
            self._fetching = True
            self._fetch(self._asked, self._next)

    @work(thread=True, group="more")
    def _fetch(self, asked: Asked, after: Any) -> None:
        try:
            rows, after = self._shelf.following(asked, after)
        except HoldfastError as error:
            self._fetching = self._wants_all = False
            self.app.call_from_thread(self.app.tell_failure, error)
            return
        self.app.call_from_thread(self._add, asked, rows, after)

    def _add(self, asked: Asked, rows: list[SessionMetadata], after: Any) -> None:
        self._fetching = False
        if asked != self._asked:
            return
        self._next, self._is_whole = after, after is None
        self.sessions.add(rows)
        count = len(self.sessions.rows)
        self._progress = f"fetched {count:,}" if self._wants_all and after is not None else ""
        self._tell_top()
        if not self._wants_all:
            return
        if after is None:
            self._wants_all = False
            self.sessions.action_move(count)
        else:
            self._fetch_more()

    def _renew(self) -> None:
        """See what other processes changed; only the newest page is asked for."""
        if self.app.screen is self and not self._asked.needs_all:
            self._look_again(self._asked)
        self._tell_status()

    @work(thread=True, exclusive=True, group="renew")
    def _look_again(self, asked: Asked) -> None:
        try:
            rows, after = self._shelf.first(asked)
            total = self._shelf.total()
        except HoldfastError:
            return  # the next time may go better; the list stays as it was
        self.app.call_from_thread(self._tell_total, total)
        self.app.call_from_thread(self._renewed, asked, rows, after)

    def _renewed(self, asked: Asked, head: list[SessionMetadata], after: Any) -> None:
        rows = self.sessions.rows
        if asked != self._asked or rows[: len(head)] == head:
            return
        self._shelf.forget()
        self.sessions.put(renewed(rows, head, more=after is not None))
        if len(self.sessions.rows) <= FIRST_PAGE:
            self._next = after
        self._know(head)

    def refresh_list(self) -> None:
        """Something was changed here: look again now."""
        self._shelf.forget()
        if self._asked.needs_all:
            self._begin()
        else:
            self._look_again(self._asked)

    def _know(self, rows: list[SessionMetadata]) -> None:
        self.app.tracking.known.update((row.session_id, row) for row in rows)
        self._tell_heading()

    def _tell_total(self, total: int) -> None:
        self._total = total
        self._tell_top()

    def _tell_top(self) -> None:
        count = len(self.sessions.rows)
        if self._asked.needs_all or self._asked.fields:
            many = f"{counted(count, 'session')}{'' if self._is_whole else ' so far'}"
        else:
            many = counted(max(self._total, count), "session")
        parts = ["Holdfast", many, f"by {ORDERS[self._asked.order].name}"]
        parts += [self._progress, self.app.where] if self._progress else [self.app.where]
        self.query_one("#top", Static).update(content("  ·  ".join(parts)))

    # -- filter and sort ---------------------------------------------------------------------

    def action_filter(self) -> None:
        """Type to narrow the list."""
        self._leave_reading()
        box = self.query_one("#filter", Input)
        box.add_class("-shown")
        box.focus()

    @on(Input.Changed, "#filter")
    def _typed(self) -> None:
        if self._delay is not None:
            self._delay.stop()
        self._delay = self.set_timer(_TYPING_S, self._narrow)

    def _narrow(self) -> None:
        asked = parse(self.query_one("#filter", Input).value, self._asked.order)
        if asked != self._asked:
            self._asked = asked
            self._begin()

    @on(Input.Submitted, "#filter")
    def _filtered(self) -> None:
        self._narrow()
        self.sessions.focus()

    def action_sort(self) -> None:
        """By the next column."""
        order = (self._asked.order + 1) % len(ORDERS)
        self._asked = self._asked._replace(order=order)
        self._progress = "sorting" if order else ""
        self._tell_top()
        self._begin()

    # -- reading -----------------------------------------------------------------------------

    @on(SessionList.Moved)
    def _moved(self, event: SessionList.Moved) -> None:
        if self._look is not None:
            self._look.stop()
        if self.has_class("-wide") and not self.is_reading:
            self._look = self.set_timer(_LOOK_S, self._preview)

    def _preview(self) -> None:
        row = self.sessions.chosen
        id = None if row is None else row.session_id
        if id != self.conversation.session_id and not self.is_reading:
            self.conversation.read(id)
        self._tell_heading()

    @on(SessionList.Opened)
    def _entered(self, event: SessionList.Opened) -> None:
        self.read(event.row.session_id)

    def read(self, session_id: str, at: int | None = None) -> None:
        """Show a session's conversation, at its end or around an event."""
        self.add_class("-reading")
        self.sessions.choose(session_id)
        if self.conversation.session_id != session_id:
            self.conversation.read(session_id, at)
        elif at is not None:
            self.conversation.go_to(at)
        self.conversation.focus()
        self.switched(session_id)
        self._tell_heading()
        self._tell_status()

    def action_back(self) -> None:
        """Out of what is open, step by step: the line to type in, the conversation, the filter."""
        say, box = self.query_one("#say", Input), self.query_one("#filter", Input)
        if say.has_class("-shown"):
            say.remove_class("-shown")
            self.conversation.focus()
        elif self.is_reading:
            self._leave_reading()
        elif box.has_class("-shown"):
            box.value = ""
            box.remove_class("-shown")
            self.sessions.focus()

    def _leave_reading(self) -> None:
        self.query_one("#say", Input).remove_class("-shown")
        self.remove_class("-reading")
        self.switched(None)
        self.sessions.focus()
        self._preview() if self.has_class("-wide") else None
        self._tell_status()

    @on(Conversation.Failed)
    def _unreadable(self, event: Conversation.Failed) -> None:
        self.app.tell_failure(event.error)

    @on(Conversation.Followed)
    def _followed(self, event: Conversation.Followed) -> None:
        self._tell_status()

    def _tell_heading(self) -> None:
        id = self.conversation.session_id
        row = self.app.tracking.known.get(id or "")
        if id is None:
            text = ""
        elif row is None:
            text = id
        else:
            parts = [row.title or "(no title)", id, ago(row.updated_at, now_ms()), state_of(row)]
            text = "  ·  ".join(part for part in parts if part)
        self.query_one("#heading", Static).update(content(text.replace("\n", " ")))
