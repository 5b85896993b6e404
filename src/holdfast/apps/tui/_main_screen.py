"""The first screen: the list of sessions, and beside it what is said in the chosen one."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.timer import Timer
from textual.widgets import Input, Static

from holdfast.apps.render.words import ago
from holdfast.apps.tui._actions import Actions
from holdfast.apps.tui._conversation import Conversation
from holdfast.apps.tui._input_pane import Saying
from holdfast.apps.tui._inputs import Line, SayLine
from holdfast.apps.tui._key_bar import KeyBar
from holdfast.apps.tui._list_pane import Listing
from holdfast.apps.tui._safe import content
from holdfast.apps.tui._session_list import SessionList, state_of
from holdfast.apps.tui._sessions import Shelf
from holdfast.session import now_ms

_LOOK_S = 0.15
_RENEW_S = 2.0

_STOP = {"stop": "Stop"}
_LIST_KEYS = _STOP | {
    "open": "Read",
    "filter": "Filter",
    "search": "Search",
    "talk": "Talk",
    "new": "New",
    "sort": "Sort",
    "delete": "Delete",
    "back": "Back",
    "help": "Help",
    "app.quit": "Quit",
}
_READING_KEYS = _STOP | {
    "back": "List",
    "talk": "Talk",
    "toggle_all": "Unfold",
    "jump": "Jump",
    "search": "Search",
    "time": "Time",
    "tree": "Tree",
    "help": "Help",
    "app.quit": "Quit",
}
_FILTER_KEYS = {"submit": "To the list", "back": "All sessions"}
_SAYING_KEYS = _STOP | {"submit": "Send", "recall(-1)": "Said before", "back": "Leave"}


class MainScreen(Listing, Actions, Saying):
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
    MainScreen Input > .input--placeholder { color: $faint; }
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

    def __init__(self, shelf: Shelf, *, session_id: str | None = None) -> None:
        super().__init__(shelf)
        self._first_id = session_id
        self._look: Timer | None = None

    def compose(self) -> ComposeResult:
        """The list to the left, the conversation to the right, the keys below."""
        yield Static(content("Holdfast"), id="top")
        with Horizontal():
            with Vertical(id="left"):
                yield Line(
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
        self.begin()
        self.set_interval(_RENEW_S, self.renew)
        if self._first_id is not None:
            self.read(self._first_id)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The key bar shows what can be done here and now."""
        if action == "stop":
            here = self.conversation.session_id or self.app.talking_on
            return here is not None and self.app.talks.is_running(here)
        if action == "back":
            return self.is_reading or self.query_one("#filter").has_class("-shown")
        is_typing = isinstance(self.focused, Input)
        return not (is_typing and action in ("filter", "search", "sort", "delete", "help"))

    def binding_of(self, action: str) -> Binding:
        """The key that does something here."""
        found = (one for one in self.BINDINGS if isinstance(one, Binding) and one.action == action)
        return next(found)

    @property
    def named_keys(self) -> dict[str, str]:
        """Which keys the bar shows here, and what it says of them."""
        if isinstance(self.focused, SayLine):
            return _SAYING_KEYS
        if isinstance(self.focused, Input):
            return _FILTER_KEYS
        return _READING_KEYS if self.focused is self.conversation else _LIST_KEYS

    # -- reading -----------------------------------------------------------------------------

    @on(SessionList.Moved)
    def _moved(self, event: SessionList.Moved) -> None:
        self.tell_status()
        if self._look is not None:
            self._look.stop()
        if self.has_class("-wide") and not self.is_reading:
            self._look = self.set_timer(_LOOK_S, self._preview)

    def _preview(self) -> None:
        row = self.sessions.chosen
        id = None if row is None else row.session_id
        if id != self.conversation.session_id and not self.is_reading:
            self.conversation.read(id)
        self.tell_heading()

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
        self.tell_heading()
        self.tell_status()

    def action_back(self) -> None:
        """Out of what is open, step by step: the line to type in, the conversation, the filter."""
        say, box = self.query_one("#say", Input), self.query_one("#filter", Input)
        if say.has_class("-shown"):
            say.remove_class("-shown")
            self.conversation.focus()
        elif self.is_reading:
            self.leave_reading()
        elif box.has_class("-shown"):
            box.value = ""
            box.remove_class("-shown")
            self.sessions.focus()

    def leave_reading(self) -> None:
        """Back to the list."""
        self.query_one("#say", Input).remove_class("-shown")
        self.remove_class("-reading")
        self.switched(None)
        self.sessions.focus()
        self._preview() if self.has_class("-wide") else None
        self.tell_status()

    @on(Conversation.Failed)
    def _unreadable(self, event: Conversation.Failed) -> None:
        self.app.tell_failure(event.error)

    @on(Conversation.Followed)
    def _followed(self, event: Conversation.Followed) -> None:
        self.tell_status()

    def tell_heading(self) -> None:
        """Whose conversation it is."""
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
