"""The first screen: the list of sessions, and beside it the conversation of the chosen one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Input, Static
from textual.worker import get_current_worker

from holdfast.apps.render.words import counted, short
from holdfast.apps.tui._actions import SessionActions
from holdfast.apps.tui._conversation import ConversationPane, ConversationView, SayLine
from holdfast.apps.tui._list_pane import ListPane
from holdfast.apps.tui._safe import content
from holdfast.apps.tui._session_table import SessionTable
from holdfast.apps.tui._sessions import SessionPages
from holdfast.apps.tui._widgets import KeyBar, hand_over
from holdfast.errors import HoldfastError
from holdfast.model import SessionMetadata
from holdfast.session import new_session_id

if TYPE_CHECKING:
    from holdfast.apps.tui._app import SessionsApp
    from holdfast.library import Holdfast

_PREVIEW_S = 0.15
_RENEW_S = 2.0
UNFINISHED = ("interrupted", "failed")  # what an agent can go on with
_FIRST_S = 0.1  # between two looks whether a new session was begun

_STOP = {"stop": "Stop"}
_LIST_KEYS = _STOP | {
    "open": "Read",
    "filter": "Filter",
    "search": "Search",
    "go_on": "Continue",
    "talk": "Talk",
    "new": "New",
    "sort": "Sort",
    "act('delete')": "Delete",
    "back": "Back",
    "help": "Help",
    "app.quit": "Quit",
}
_READING_KEYS = _STOP | {
    "back": "List",
    "go_on": "Continue",
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


class MainScreen(Screen[None]):
    """List and conversation; side by side where there is room, else one at a time.

    Each pane has the keys of what it shows. Those here count in both, whichever has the focus.
    """

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012 - textual's own type
    DEFAULT_CSS = """
    MainScreen #top, MainScreen #status {
        height: 1; padding: 0 1; background: $panel; text-wrap: nowrap; text-overflow: ellipsis;
    }
    MainScreen #left { width: 100%; }
    MainScreen #right { width: 100%; display: none; }
    MainScreen Input > .input--placeholder { color: $faint; }
    MainScreen.-narrow.-reading #left { display: none; }
    MainScreen.-narrow.-reading #right { display: block; }
    MainScreen.-wide #left { width: 9fr; }
    MainScreen.-wide #right { width: 11fr; display: block; border-left: vkey $panel-lighten-2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", key_display="/", tooltip="Filter the list"),
        Binding("f", "search", "Search", tooltip="Search everything"),
        Binding("c", "talk", "Talk", tooltip="Talk on this session"),
        Binding("C", "go_on", "Continue", tooltip="Continue what was interrupted or failed"),
        Binding("n", "new", "New", tooltip="New session"),
        Binding("s", "sort", "Sort", tooltip="Sort by the next column"),
        Binding("d", "act('delete')", "Delete", tooltip="Delete"),
        Binding("u", "undo", "Undo", tooltip="Undo what was done last"),
        Binding("r", "act('rename')", "Rename", tooltip="Rename"),
        Binding("t", "act('tag')", "Tags", tooltip="Tags"),
        Binding("p", "act('pin')", "Pin", tooltip="Pin or unpin"),
        Binding("F", "act('fork')", "Fork", tooltip="Fork"),
        Binding("x", "act('export')", "Export", tooltip="Export"),
        Binding("z", "act('archive')", "Archive", tooltip="Archive or take out of the archive"),
        Binding("equals_sign", "compare", "Compare", tooltip="Compare side by side"),
        Binding("m", "merge", "Merge", tooltip="Merge"),
        Binding("v", "time", "Time", tooltip="Time travel"),
        Binding("b", "tree", "Branches", tooltip="Branches"),
        Binding("a", "analytics", "Analytics", tooltip="Analytics"),
        Binding("w", "waiting", "Waiting", tooltip="What waits for an answer"),
        Binding("colon", "jump", "Jump", tooltip="Jump to an event, turn or time"),
        Binding("ctrl+x", "stop", "Stop", priority=True, tooltip="Stop the answer"),
        Binding("escape", "back", "Back"),
        Binding("question_mark", "help", "Help", key_display="?", tooltip="Keys"),
        Binding("q", "app.quit", "Quit"),
    ]

    actions: SessionActions

    if TYPE_CHECKING:

        @property
        def app(self) -> SessionsApp:  # type: ignore[override]  # no other app has this screen
            """The app that this screen is made for."""

    def __init__(
        self,
        library: Holdfast,
        pages: SessionPages,
        known: dict[str, SessionMetadata],
        *,
        session_id: str | None = None,
    ) -> None:
        super().__init__()
        self._pages = pages
        self._first_id = session_id
        self._preview_soon: Timer | None = None
        self._sent: dict[str, str] = {}  # by session, what no agent has heard yet
        self.list_pane, self._pane = ListPane(pages, known, id="left"), ConversationPane(library, id="right")
        self.sessions, self.conversation = self.list_pane.sessions, self._pane.view

    def compose(self) -> ComposeResult:
        self.actions = SessionActions(self)
        yield Static(content("Holdfast"), id="top")
        with Horizontal():
            yield self.list_pane
            yield self._pane
        yield Static("", id="status")
        yield KeyBar()

    def on_mount(self) -> None:
        self.sessions.focus()
        self.list_pane.begin()
        self.set_interval(_RENEW_S, self._renew)
        if self._first_id is not None:
            self.read(self._first_id)

    # -- its parts ---------------------------------------------------------------------------
    @property
    def chosen(self) -> SessionMetadata | None:
        """The session that actions are about: the one that is read, else that under the cursor."""
        id = self.conversation.session_id
        row = self.sessions.chosen
        if self.is_reading and id is None:  # a new one, in which nothing was said yet
            id = self.app.tracking.session_id
        if self.is_reading and id is not None and (row is None or row.session_id != id):
            return self.app.tracking.known.get(id) or SessionMetadata(session_id=id)
        return row

    @property
    def is_reading(self) -> bool:
        return self.has_class("-reading")

    # -- keys --------------------------------------------------------------------------------
    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return the key bar shows what can be done here and now."""
        if action == "stop":
            return self._answering is not None
        if action == "go_on":
            return self._can_go_on and not isinstance(self.focused, Input)
        if action == "back":
            return self.is_reading or self.list_pane.is_filtering
        name = parameters[0] if action == "act" else action
        is_typing = isinstance(self.focused, Input)
        return not (is_typing and name in ("filter", "search", "sort", "delete", "help"))

    def commands(self) -> Iterator[tuple[Binding, str, Callable[[], None]]]:
        """Yield the keys that the palette has a name for, what each does, and how it is done."""
        for binding in self.BINDINGS:
            if isinstance(binding, Binding) and binding.tooltip:
                name = binding.action.removeprefix("act('").removesuffix("')")
                action = getattr(self, f"action_{name}", None) or partial(self.action_act, name)
                does = getattr(self.actions, name) if isinstance(action, partial) else action
                yield binding, (does.__doc__ or "").partition("\n")[0], action

    @property
    def named_keys(self) -> dict[str, str]:
        """The keys in the footer, and their labels."""
        if isinstance(self.focused, Input):
            return _SAYING_KEYS if isinstance(self.focused, SayLine) else _FILTER_KEYS
        return _READING_KEYS if self.focused is self.conversation else _LIST_KEYS

    def action_act(self, name: str) -> None:
        """Do something to the chosen session, if there is one."""
        if self.chosen is not None:
            getattr(self.actions, name)(self.chosen)

    def action_undo(self) -> None:
        """Undo what was done last."""
        self.actions.undo()

    def action_jump(self) -> None:
        """Go to an event, a turn or a time."""
        if self.conversation.session_id is not None:
            self.actions.jump(self.conversation.session_id)

    def action_merge(self) -> None:
        """Merge two sessions into a new one."""
        self._with_pair(self.actions.merge)

    def action_compare(self) -> None:
        """Show two sessions side by side."""
        from holdfast.apps.tui._page_screen import CompareScreen

        self._with_pair(lambda *pair: self.app.push_screen(CompareScreen(self.app.library, *pair)))

    def _with_pair(self, act: Callable[[str, str], object]) -> None:
        """Do something with the marked session and the chosen one, or with two marked ones."""
        ids = list(self.sessions.marked)
        if len(ids) < 2 and self.chosen is not None and self.chosen.session_id not in ids:
            ids.append(self.chosen.session_id)
        if len(ids) < 2:
            self.app.notify("Mark one session with Space, then choose another.", markup=False)
        else:
            act(ids[0], ids[1])

    # -- other screens -----------------------------------------------------------------------
    def action_search(self) -> None:
        """Search what was said, in every session."""
        from holdfast.apps.tui._search_screen import SearchScreen

        self.app.push_screen(SearchScreen(self.app.library), self._went)

    def action_time(self) -> None:
        """Go through the session's past."""
        from holdfast.apps.tui._time_screen import TimeScreen

        def went(place: tuple[str, int | None] | None) -> None:
            if place is not None and place[1] is None:
                self.actions.show_made(place[0], f"goes on from there in {place[0]}")
            else:
                self._went(place)

        if (row := self.chosen) is not None:
            self.app.push_screen(TimeScreen(self.app.library, row.session_id, row.title or ""), went)

    def action_tree(self) -> None:
        """Show the session in its tree of forks."""
        from holdfast.apps.tui._page_screen import TreeScreen

        if (row := self.chosen) is not None:
            self.app.push_screen(TreeScreen(self.app.library, row.session_id, row.title or ""), self._went)

    def _went(self, place: tuple[str, int | None] | None) -> None:
        if place is not None:
            self.read(*place)

    def action_analytics(self) -> None:
        """Show the usage of all sessions."""
        from holdfast.apps.tui._page_screen import StatsScreen

        self.app.push_screen(StatsScreen(self.app.library))

    def action_waiting(self) -> None:
        """Show the questions that sessions wait for, to be answered."""
        from holdfast.apps.tui._page_screen import WaitingScreen

        self.app.push_screen(
            WaitingScreen(self.app.library, self.app.talks.wake),
            lambda one: self._went(None if one is None else (one, None)),
        )

    def action_help(self) -> None:
        """Show the keys and what they do."""
        from holdfast.apps.tui._page_screen import HelpScreen

        self.app.push_screen(HelpScreen())

    # -- the list ----------------------------------------------------------------------------
    def action_filter(self) -> None:
        """Type to narrow the list."""
        self.leave_reading()
        self.list_pane.open_filter()

    def action_sort(self) -> None:
        """Sort by the next column."""
        self.list_pane.sort_by_next()

    def _renew(self) -> None:
        if self.app.screen is self:
            self.list_pane.renew()
        self.tell_status()

    def forget(self, session_id: str) -> None:
        """Take a session that was deleted off the screen."""
        if self.conversation.session_id == session_id:
            self.conversation.read(None)
            self.leave_reading()
        self.sessions.put([row for row in self.sessions.rows if row.session_id != session_id])

    @on(ListPane.Changed)
    def _tell_top(self) -> None:
        parts = ["Holdfast", *self.list_pane.summary, self.app.where]
        self.query_one("#top", Static).update(content("  ·  ".join(parts)))

    @on(ListPane.RowsCame)
    def _loaded(self) -> None:
        here = self.app.tracking.session_id
        if self.is_reading and here is not None:
            # A new session has a row once something was said; the highlight goes to it.
            self.sessions.is_elsewhere = not self.sessions.choose(here)
        self._tell_heading()
        self.call_after_refresh(self.app.started)

    @on(ListPane.AskFailed)
    def _unlisted(self, event: ListPane.AskFailed) -> None:
        self.app.started()
        self.app.tell_failure(event.error)

    @on(SessionTable.Moved)
    def _moved(self) -> None:
        self.tell_status()
        if self._preview_soon is not None:
            self._preview_soon.stop()
        if self.has_class("-wide") and not self.is_reading:
            self._preview_soon = self.set_timer(_PREVIEW_S, self._preview)

    # -- reading -----------------------------------------------------------------------------
    def _preview(self) -> None:
        row = self.sessions.chosen
        id = None if row is None else row.session_id
        if id != self.conversation.session_id and not self.is_reading:
            self.conversation.read(id)
        self._tell_heading()

    @on(SessionTable.Entered)
    def _entered(self, event: SessionTable.Entered) -> None:
        self.read(event.row.session_id)

    def read(self, session_id: str, at: int | None = None) -> None:
        self.add_class("-reading")
        self.sessions.is_elsewhere = not self.sessions.choose(session_id)
        self.sessions.refresh()
        self._pane.read(session_id, at)
        self._switch(session_id)
        self._tell_heading()
        self.tell_status()

    def action_back(self) -> None:
        """Leave what is open, step by step: the input line, the conversation, the filter."""
        if self._pane.is_line_open:
            self._pane.close_line()
            self.conversation.focus()
        elif self.is_reading:
            self.leave_reading()
        elif self.list_pane.is_filtering:
            self.list_pane.close_filter()

    def leave_reading(self) -> None:
        self._pane.close_line()
        self.remove_class("-reading")
        self.sessions.is_elsewhere = False
        self._switch(None)
        self.sessions.focus()
        if self.has_class("-wide"):
            self._preview()
        self.tell_status()

    def _switch(self, session_id: str | None) -> None:
        """Switch to another session: show its agent, and count its events."""
        self.app.talks.keep(session_id)
        tracking = self.app.tracking
        if session_id is None:
            tracking.clear()
        elif session_id != tracking.session_id:
            row = tracking.known.get(session_id)
            tracking.restore_session(session_id, 0 if row is None else row.message_count)

    def _tell_heading(self) -> None:
        self._pane.tell_heading(self.app.tracking.known.get(self.conversation.session_id or ""))

    @on(ConversationView.ReadFailed)
    def _unreadable(self, event: ConversationView.ReadFailed) -> None:
        self.app.tell_failure(event.error)

    # -- talking -----------------------------------------------------------------------------
    def action_talk(self) -> None:
        """Talk on the chosen session."""
        if self.chosen is None:
            self.action_new()
        else:
            self._talk_on(self.chosen.session_id)

    @property
    def _can_go_on(self) -> bool:
        row = self.chosen
        return row is not None and row.status in UNFINISHED and not self.app.talks.is_running(row.session_id)

    def action_go_on(self) -> None:
        """Let the agent go on with a turn that was interrupted, or try one again that failed."""
        if self.chosen is not None and self._can_go_on:
            id = self.chosen.session_id
            self.read(id)
            self.app.go_on(id)

    def action_new(self) -> None:
        """Begin a new session; it is there with the first thing that is said."""
        id = new_session_id()
        self.app.fresh.add(id)
        self._talk_on(id)

    def _talk_on(self, session_id: str) -> None:
        if self.conversation.session_id != session_id or not self.is_reading:
            if session_id in self.app.fresh:
                self.add_class("-reading")
                self.sessions.is_elsewhere = True
                self.sessions.refresh()
                self.conversation.read(None)
                self.app.tracking.start_session(session_id)
            else:
                self.read(session_id)
        self._pane.open_line()
        self._tell_heading()
        self.tell_status()

    @on(Input.Submitted, "#say")
    def _said(self, event: Input.Submitted) -> None:
        text, id = event.value.strip(), self.app.tracking.session_id
        if text and id is not None:
            if not self.app.talks.is_running(id):
                self._sent[id] = text
            self.app.say(id, text)

    @property
    def _answering(self) -> str | None:
        """The session whose answer is shown and under way."""
        id = self.conversation.session_id or self.app.tracking.session_id
        return id if id is not None and self.app.talks.is_running(id) else None

    def action_stop(self) -> None:
        """End the answer that is shown; words that are typed take its place, and the turn goes on with them."""
        id, text = self._answering, self._pane.typed()
        if id is not None and text and id == self.app.tracking.session_id:
            self._pane.take_typed()
            self.app.say(id, text, interrupt=True)
        elif id is not None:
            self.app.talks.stop(id)

    def heard(self, session_id: str, what: str, detail: Any) -> None:
        """Handle a message about an answer; called on the app's own loop."""
        here = self.app.tracking.session_id
        unheard = self._sent.pop(session_id, "") if what in ("began", "failed") else ""
        if what == "began":
            self.sessions.busy.add(session_id)
            if session_id in self.app.fresh:
                self.app.fresh.discard(session_id)
            else:
                self.sessions.restored.add(session_id)
            if self.conversation.session_id is None and here == session_id:
                self._await_first(session_id)
        elif what in ("ended", "failed"):
            self.sessions.busy.discard(session_id)
            self.list_pane.look_again()
            if what == "failed":
                self.app.tell_failure(detail)
                if here == session_id:
                    self._pane.give_back(unheard)
            elif detail or here != session_id:
                title = self.app.short_name(session_id)
                self.app.notify(detail or "answered", title=title, markup=False)
        self.sessions.refresh()
        self.tell_status()

    @work(thread=True, exclusive=True, group="first")
    def _await_first(self, session_id: str) -> None:
        """A new session can be read as soon as something is in it."""
        worker = get_current_worker()
        while not worker.is_cancelled:
            is_running = self.app.talks.is_running(session_id)
            with suppress(HoldfastError):  # the answer tells what is wrong with the store
                if self.app.library.exists(session_id):
                    hand_over(self, self._first_came, session_id)
                    return
            if not is_running:
                return
            time.sleep(_FIRST_S)

    def _first_came(self, session_id: str) -> None:
        if self.app.tracking.session_id == session_id and self.conversation.session_id is None:
            self.conversation.read(session_id)
            self._tell_heading()  # its row may have come before
        self.list_pane.look_again()

    # -- status ------------------------------------------------------------------------------
    @on(ConversationView.Followed)
    def tell_status(self) -> None:
        """Say on the bottom line how things are."""
        self.query_one("#status", Static).update(content(self._status()))
        self.refresh_bindings()

    def _status(self) -> str:
        row, tracking, marked = self.chosen, self.app.tracking, len(self.sessions.marked)
        here = tracking.session_id
        parts = [
            "answering" if here is not None and self.app.talks.is_running(here) else "",
            "working …" if self.actions.under_way else "",
            "restored" if self.is_reading and tracking.is_restored else "",
            (self.app.talks.model_name if here is not None else "") or (row.model if row else None),
            *(_figures(row) if row is not None else ()),
            self.app.durability,
            f"{marked} marked" if marked else "",
        ]
        return " · ".join(filter(None, parts))


def _figures(row: SessionMetadata) -> Iterator[str]:
    yield counted(row.message_count, "msg")
    if row.total_tokens:
        yield f"{'about ' if row.tokens_estimated else ''}{short(row.total_tokens)} tokens"
    if row.cost is not None:
        yield f"${row.cost:.4f}"
    if row.open:
        yield "live"
