"""The list of the main screen: its pages, its filter and its order."""

from __future__ import annotations

from typing import Any

from textual import on, work
from textual.timer import Timer
from textual.widgets import Input, Static

from holdfast.apps.render.words import counted
from holdfast.apps.tui._main_parts import SLOW_S, MainParts
from holdfast.apps.tui._safe import content
from holdfast.apps.tui._session_list import SessionList
from holdfast.apps.tui._sessions import FIRST_PAGE, ORDERS, Asked, Shelf, parse, renewed
from holdfast.apps.tui._workers import hand_over
from holdfast.errors import HoldfastError
from holdfast.model import SessionMetadata

_TYPING_S = 0.12


class Listing(MainParts):
    """The part of the main screen that lists."""

    def __init__(self, shelf: Shelf) -> None:
        super().__init__()
        self._shelf = shelf
        self._asked = Asked()
        self._next: Any = None
        self._is_whole = False
        self._fetching = False
        self._wants_all = False
        self._total = 0
        self._progress = ""
        self._delay: Timer | None = None

    # -- the list ----------------------------------------------------------------------------

    def begin(self, *, keep: bool = False) -> None:
        """Ask for the first page, and for more as it is needed."""
        self._next, self._is_whole, self._wants_all = None, False, False
        found = self._shelf.at_hand(self._asked)
        if found is not None:
            self._put(self._asked, *found, keep)
            self._count()
            return
        self.set_timer(SLOW_S, self._tell_slow)
        self._load(self._asked, keep=keep)

    def _tell_slow(self) -> None:
        """A slow store: say that it is asked, where there is nothing to see yet."""
        if not self._is_whole and not self.sessions.rows:
            self.sessions.nothing = self._nothing()
            self.sessions.refresh()

    @work(thread=True, exclusive=True, group="list")
    def _load(self, asked: Asked, *, keep: bool) -> None:
        try:
            rows, after = self._shelf.first(asked)
            hand_over(self, self._put, asked, rows, after, keep)
            hand_over(self, self._tell_total, self._shelf.total())
        except HoldfastError as error:
            hand_over(self, self._unlisted, error)

    @work(thread=True, group="count")
    def _count(self) -> None:
        try:
            hand_over(self, self._tell_total, self._shelf.total())
        except HoldfastError as error:
            hand_over(self, self._unlisted, error)

    def _unlisted(self, error: HoldfastError) -> None:
        self.app.started()
        self.tell_failure(error)

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
        self._progress = ""
        self.sessions.put(rows, keep=keep)
        self._know(rows)
        self._tell_top()
        self.call_after_refresh(self.app.started)

    @on(SessionList.NearEnd)
    def _near_end(self, event: SessionList.NearEnd) -> None:
        self._wants_all = self._wants_all or event.whole
        self._fetch_more()

    def _fetch_more(self) -> None:
        if self._next is not None and not self._fetching:
            self._fetching = True
            self._fetch(self._asked, self._next)

    @work(thread=True, group="more")
    def _fetch(self, asked: Asked, after: Any) -> None:
        try:
            rows, after = self._shelf.following(asked, after)
        except HoldfastError as error:
            self._fetching = self._wants_all = False
            hand_over(self, self.tell_failure, error)
            return
        hand_over(self, self._add, asked, rows, after)

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

    def renew(self) -> None:
        """See what other processes changed; only the newest page is asked for."""
        if self.app.screen is self and self._asked.is_newest_first:
            self._look_again(self._asked)
        self.tell_status()

    @work(thread=True, exclusive=True, group="renew")
    def _look_again(self, asked: Asked) -> None:
        try:
            rows, after = self._shelf.first(asked)
            total = self._shelf.total()
        except HoldfastError:
            return  # the next time may go better; the list stays as it was
        hand_over(self, self._tell_total, total)
        hand_over(self, self._renewed, asked, rows, after)

    def _renewed(self, asked: Asked, head: list[SessionMetadata], after: Any) -> None:
        rows = self.sessions.rows
        if asked != self._asked or rows[: len(head)] == head:
            return
        self.sessions.put(renewed(rows, head, more=after is not None))
        if len(self.sessions.rows) <= FIRST_PAGE:
            self._next = after
        self._know(head)

    def refresh_list(self) -> None:
        """Something was changed here: look again now."""
        if self._asked.is_newest_first:
            self._look_again(self._asked)
        else:
            self.begin()

    def _know(self, rows: list[SessionMetadata]) -> None:
        self.app.tracking.known.update((row.session_id, row) for row in rows)
        self.tell_heading()

    def _tell_total(self, total: int) -> None:
        self._total = total
        self._tell_top()

    def _tell_top(self) -> None:
        count = len(self.sessions.rows)
        self.sessions.order = ORDERS[self._asked.order].name
        self.sessions.nothing = self._nothing()
        if self._asked.words or self._asked.fields:
            many = f"{counted(count, 'session')}{'' if self._is_whole else ' so far'}"
        else:
            many = counted(max(self._total, count), "session")
        parts = ["Holdfast", many, f"by {ORDERS[self._asked.order].name}"]
        parts += [self._progress, self.app.where] if self._progress else [self.app.where]
        self.query_one("#top", Static).update(content("  ·  ".join(parts)))

    def _nothing(self) -> str:
        """Why there are no rows, if there are none."""
        if not self._is_whole:
            return "looking …"
        if self._asked.words or self._asked.fields:
            return "Nothing fits. Esc shows all sessions."
        place = self.app.library.strangers()
        if place is not None:  # in one line, below the folder's own name
            return f"Sessions of {place.tool} lie here: `holdfast import` brings them in."
        return "No sessions yet. n begins one; `holdfast import` brings in those you have."

    # -- filter and sort ---------------------------------------------------------------------

    def action_filter(self) -> None:
        """Type to narrow the list."""
        self.leave_reading()
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
            self.begin()

    @on(Input.Submitted, "#filter")
    def _filtered(self) -> None:
        self._narrow()
        self.sessions.focus()

    def action_sort(self) -> None:
        """By the next column."""
        order = (self._asked.order + 1) % len(ORDERS)
        self._asked = self._asked._replace(order=order)
        self._tell_top()
        self.begin()
