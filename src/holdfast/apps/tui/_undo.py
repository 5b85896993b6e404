"""Doing things beside the app, and undoing what was done last."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from textual import work

from holdfast.apps.tui._main_parts import SLOW_S, MainParts
from holdfast.apps.tui._workers import hand_over
from holdfast.errors import HoldfastError, NotFound, UsageError


class Done(NamedTuple):
    """What came of an action: what is told of it, and how it is undone. ``undo`` may block."""

    told: str
    undo: Callable[[], str] | None = None


class Undoing(MainParts):
    """The part of the main screen that acts, and takes back."""

    def act(self, act: Callable[[], Done]) -> None:
        """Do it in a thread; say what came of it, keep how it is undone, look at the list again.

        What is asked for meanwhile is done afterwards, so that undo means the key before it.
        """
        self.under_way += 1
        self.set_timer(SLOW_S, self.tell_status)
        self._act(act)

    @work(thread=True, group="act")
    def _act(self, act: Callable[[], Done]) -> None:
        try:
            with self.app.acting:
                came: Done | Exception = act()
                if isinstance(came, Done) and came.undo is not None:
                    self.app.done.append(came)
        except (HoldfastError, OSError, ValueError) as error:
            came = error
        hand_over(self, self._did, came)

    def _did(self, came: Done | Exception) -> None:
        self.under_way -= 1
        if isinstance(came, Exception):
            self.tell_failure(came)
        else:
            if came.told:
                self.tell(came.told if came.undo is None else f"{came.told}\n(u undoes it)")
            self.refresh_list()
        self.tell_status()

    def action_undo(self) -> None:
        """Undo what was done last."""
        self.act(self._undo)

    def _undo(self) -> Done:
        if not self.app.done:
            raise NotFound(
                "there is nothing to undo",
                remedy="`holdfast undelete` has what was deleted before.",
            )
        undo = self.app.done[-1].undo
        assert undo is not None
        try:
            told = undo()
        except NotFound as error:
            # What is gone stays gone: it must not stand before what was done earlier.
            self.app.done.pop()
            before = "u undoes what was done before it." if self.app.done else error.remedy
            raise NotFound(f"this cannot be undone: {error.message}", remedy=before) from error
        self.app.done.pop()
        return Done(told)

    def made(self, session_id: str, told: str) -> Done:
        """A new session was made, and is shown; undoing puts it into the trash. Blocking."""
        library = self.app.library
        before = library.info(session_id).message_count
        hand_over(self, self.read, session_id)

        def undo() -> str:
            if library.info(session_id).message_count != before:
                raise UsageError(f"{session_id} went on since", remedy="d deletes it all the same.")
            self.let_go(session_id)
            return f"{session_id} is in the trash"

        return Done(told, undo)

    def let_go(self, session_id: str) -> None:
        """Put a session into the trash, and take it off the screen. Blocking."""
        self.app.talks.release(session_id)
        self.app.library.delete(session_id)
        hand_over(self, self._gone, session_id)

    def _gone(self, session_id: str) -> None:
        if self.conversation.session_id == session_id:
            self.conversation.read(None)
            self.leave_reading()
        rows = [row for row in self.sessions.rows if row.session_id != session_id]
        self.sessions.put(rows)
