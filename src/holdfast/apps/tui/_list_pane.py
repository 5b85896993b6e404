"""The list side of the main screen: the filter line, the rows, their pages and their order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input

from holdfast.apps.render.words import counted
from holdfast.apps.tui._session_table import SessionTable
from holdfast.apps.tui._sessions import FIRST_PAGE, ORDERS, ListRequest, SessionPages, parse, renewed
from holdfast.apps.tui._widgets import SLOW_S, TextLine, ask_beside
from holdfast.errors import HoldfastError
from holdfast.model import SessionMetadata

_TYPING_S = 0.12
# In lines that fit the narrowest list.
_EMPTY = """No sessions yet.

n  begins one: talk to an agent

Sessions of other tools are brought in by
   holdfast import --scan

A program records its own:
   holdfast.open().session("mine").user("Hi")"""


class ListPane(Vertical):
    """The sessions that fit the filter, in the chosen order; pages come as they are needed.

    Rows that came are written into ``known``, so that others can say more than an id.
    """

    DEFAULT_CSS = """
    ListPane #filter { display: none; height: 3; border: round $accent; }
    ListPane #filter.-shown { display: block; }
    """

    class RowsCame(Message):
        """Rows of the newest page came."""

    class Changed(Message):
        """The ``summary`` reads differently now."""

    @dataclass
    class AskFailed(Message):
        """The store could not be asked."""

        error: HoldfastError

    def __init__(self, pages: SessionPages, known: dict[str, SessionMetadata], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._pages = pages
        self._known = known
        self._asked = ListRequest()
        self._next: Any = None
        self._is_whole = False
        self._fetching = False
        self._wants_all = False
        self._total = 0
        self._progress = ""
        self._delay: Timer | None = None
        self._filter = TextLine(placeholder="words, tag:x, status:waiting, agent:x, model:x", id="filter")
        self.sessions = SessionTable(id="sessions")

    def compose(self) -> ComposeResult:
        yield self._filter
        yield self.sessions

    @property
    def is_filtering(self) -> bool:
        return self._filter.has_class("-shown")

    @property
    def summary(self) -> list[str]:
        """Return the number of sessions, their order, and the progress of fetching all of them."""
        count = len(self.sessions.rows)
        many = counted(max(self._total, count), "session")
        if self._asked.words or self._asked.fields:
            many = f"{counted(count, 'session')}{'' if self._is_whole else ' so far'}"
        return [*filter(None, (many, f"by {ORDERS[self._asked.order]}", self._progress))]

    def begin(self) -> None:
        """Ask for the first page, and for more as it is needed."""
        self._next, self._is_whole, self._wants_all = None, False, False
        asked = self._asked

        def put(found: tuple[list[SessionMetadata], Any]) -> None:
            if asked == self._asked:  # else this answers what was typed before; another one is on its way
                rows, after = found
                self._next, self._is_whole, self._fetching, self._progress = after, after is None, False, ""
                self.sessions.put(rows, keep=False)
                self._know(rows)
                self._tell_change()
            ask_beside(self, self._pages.total, self._tell_total, self._fail, group="count")

        if (found := self._pages.at_hand(asked)) is not None:
            put(found)
        else:
            self.set_timer(SLOW_S, self._tell_slow)
            ask_beside(self, lambda: self._pages.first(asked), put, self._fail, group="list")

    def _tell_slow(self) -> None:
        """Show that the store is being queried if there is nothing to show yet."""
        if not self._is_whole and not self.sessions.rows:
            self.sessions.nothing = self._nothing()
            self.sessions.refresh()

    def _fail(self, error: HoldfastError) -> None:
        self._fetching = self._wants_all = False
        self.post_message(self.AskFailed(error))

    @on(SessionTable.NearEnd)
    def _near_end(self, event: SessionTable.NearEnd) -> None:
        self._wants_all = self._wants_all or event.whole
        self._fetch_more()

    def _fetch_more(self) -> None:
        if self._next is not None and not self._fetching:
            self._fetching = True
            asked, after = self._asked, self._next
            ask, add = partial(self._pages.following, asked, after), partial(self._add, asked)
            ask_beside(self, ask, add, self._fail, group="more", exclusive=False)

    def _add(self, asked: ListRequest, found: tuple[list[SessionMetadata], Any]) -> None:
        self._fetching = False
        if asked != self._asked:
            return
        rows, after = found
        self._next, self._is_whole = after, after is None
        self.sessions.add(rows)
        count = len(self.sessions.rows)
        self._progress = f"fetched {count:,}" if self._wants_all and after is not None else ""
        self._tell_change()
        if self._wants_all and after is not None:
            self._fetch_more()
        elif self._wants_all:
            self._wants_all = False
            self.sessions.action_move(count)

    def renew(self) -> None:
        """See what other processes changed; only the newest page is asked for, and only of the plain list."""
        asked = self._asked
        if not asked.is_newest_first:
            return

        def show(found: tuple[list[SessionMetadata], Any, int]) -> None:
            head, after, total = found
            self._tell_total(total)
            rows = self.sessions.rows
            if asked != self._asked or rows[: len(head)] == head:
                return
            self.sessions.put(renewed(rows, head, more=after is not None))
            # With more rows the next page begins behind those, wherever the first one ends.
            if len(self.sessions.rows) <= FIRST_PAGE:
                self._next = after
            self._know(head)

        def ask() -> tuple[list[SessionMetadata], Any, int]:
            return *self._pages.first(asked), self._pages.total()

        # If that fails, the next time may go better; the list stays as it was.
        ask_beside(self, ask, show, lambda _: None, group="renew")

    def look_again(self) -> None:
        """Refresh now, after a change made here."""
        # In another order a changed row may be anywhere, so the list is loaded again.
        if self._asked.is_newest_first:
            self.renew()
        else:
            self.begin()

    def _know(self, rows: list[SessionMetadata]) -> None:
        self._known.update((row.session_id, row) for row in rows)
        self.post_message(self.RowsCame())

    def _tell_total(self, total: int) -> None:
        self._total = total
        self._tell_change()

    def _tell_change(self) -> None:
        self.sessions.order = ORDERS[self._asked.order]
        self.sessions.nothing = self._nothing()
        self.post_message(self.Changed())

    def _nothing(self) -> str:
        """Return the reason why there are no rows, if there are none."""
        if not self._is_whole:
            return "looking …"
        if self._asked.words or self._asked.fields:
            return "Nothing fits. Esc shows all sessions."
        tool = self._pages.foreign_tool()
        if tool is not None:  # in one line, below the folder's own name
            return f"Sessions of {tool} lie here.\n`holdfast import` brings them in."
        return _EMPTY

    def open_filter(self) -> None:
        """Show the filter line; what is typed into it narrows the list."""
        self._filter.add_class("-shown").focus()

    def close_filter(self) -> None:
        """Show all sessions again."""
        self._filter.value = ""
        self._filter.remove_class("-shown")
        self.sessions.focus()

    @on(Input.Changed, "#filter")
    def _typed(self) -> None:
        if self._delay is not None:
            self._delay.stop()
        # Not with each letter: the store is asked when the fingers rest.
        self._delay = self.set_timer(_TYPING_S, self._narrow)

    def _narrow(self) -> None:
        asked = parse(self._filter.value, self._asked.order)
        if asked != self._asked:
            self._asked = asked
            self.begin()

    @on(Input.Submitted, "#filter")
    def _filtered(self) -> None:
        self._narrow()
        self.sessions.focus()

    def sort_by_next(self) -> None:
        self._asked = self._asked._replace(order=(self._asked.order + 1) % len(ORDERS))
        self._tell_change()
        self.begin()
