"""Talking on a session: the line to type in, the answer as it comes, and the line of status."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from textual import on, work
from textual.widgets import Input, Static
from textual.worker import get_current_worker

from holdfast.apps.render.words import counted, short
from holdfast.apps.tui._dialogs import Buttons
from holdfast.apps.tui._inputs import SayLine
from holdfast.apps.tui._main_parts import MainParts
from holdfast.apps.tui._safe import content
from holdfast.apps.tui._workers import hand_over
from holdfast.errors import HoldfastError
from holdfast.model import SessionMetadata
from holdfast.session import new_session_id

if TYPE_CHECKING:
    from holdfast.agent import PermissionRequest
    from holdfast.apps.tui._app import SessionsApp

_ANSWERS = (
    ("y", "Yes, once", "once"),
    ("s", "This session", "session"),
    ("a", "Always", "always"),
    ("n", "No", "no"),
)
_ARGUMENT_CHARS = 2_000
_LOOK_S = 0.1


class Saying(MainParts):
    """The part of the main screen that talks."""

    def action_talk(self) -> None:
        """Talk on the chosen session."""
        if self.chosen is None:
            self.action_new()
            return
        self._show_line(self.chosen.session_id)

    def action_new(self) -> None:
        """Begin a new session; it is there with the first thing that is said."""
        id = new_session_id()
        self.app.fresh.add(id)
        self._show_line(id)

    def _show_line(self, session_id: str) -> None:
        if self.conversation.session_id != session_id or not self.is_reading:
            if session_id in self.app.fresh:
                self.add_class("-reading")
                self.conversation.read(None)
                self.app.tracking.start_session(session_id)
            else:
                self.read(session_id)
        self.app.talking_on = session_id
        line = self.query_one("#say", Input)
        line.add_class("-shown")
        line.focus()
        self.tell_status()

    @on(Input.Submitted, "#say")
    def _said(self, event: Input.Submitted) -> None:
        text, id = event.value.strip(), self.app.talking_on
        if not text or id is None:
            return
        self.query_one(SayLine).keep(event.value)
        event.input.clear()
        self.conversation.action_ending()  # the answer is to be seen, wherever one was reading
        self.app.say(id, text)

    def action_stop(self) -> None:
        """End the answer that is shown."""
        id = self.conversation.session_id or self.app.talking_on
        if id is not None:
            self.app.talks.stop(id)

    def switched(self, session_id: str | None) -> None:
        """Another session is looked at: tell who answers, and count what is there."""
        self.app.talks.keep(session_id)
        self.app.talking_on = session_id
        tracking = self.app.tracking
        if session_id is None:
            tracking.clear()
        elif session_id != tracking.session_id:
            row = tracking.known.get(session_id)
            tracking.restore_session(session_id, 0 if row is None else row.message_count)

    def heard(self, session_id: str, what: str, detail: Any) -> None:
        """Something came of what was said; called on the app's own loop."""
        if what == "began":
            self.sessions.busy.add(session_id)
            if session_id in self.app.fresh:
                self.app.fresh.discard(session_id)
            else:
                self.sessions.restored.add(session_id)
            if self.conversation.session_id is None and self.app.talking_on == session_id:
                self._await_first(session_id)
        elif what in ("ended", "failed"):
            self.sessions.busy.discard(session_id)
            self.refresh_list()
            if what == "failed":
                self.app.tell_failure(detail)
            elif detail or self.app.talking_on != session_id:
                title = self._called(session_id)
                self.app.notify(detail or "answered", title=title, markup=False)
        self.sessions.refresh()
        self.tell_status()

    @work(thread=True, exclusive=True, group="first")
    def _await_first(self, session_id: str) -> None:
        """A new session can be read as soon as something is in it."""
        worker = get_current_worker()
        while not worker.is_cancelled:
            is_running = self.app.talks.is_running(session_id)
            try:
                is_kept = self.app.library.exists(session_id)
            except HoldfastError:
                is_kept = False  # the answer tells what is wrong with the store
            if is_kept:
                hand_over(self, self._first_came, session_id)
            if is_kept or not is_running:
                return
            time.sleep(_LOOK_S)

    def _first_came(self, session_id: str) -> None:
        if self.app.talking_on == session_id and self.conversation.session_id is None:
            self.conversation.read(session_id)
        self.refresh_list()

    def _called(self, session_id: str) -> str:
        row = self.app.tracking.known.get(session_id)
        return content((row.title if row else None) or session_id).plain[:40]

    # -- permission --------------------------------------------------------------------------

    def ask_permission(self, request: PermissionRequest, answer: Future[Any]) -> None:
        """Ask whether a tool may be used; the answer that waits goes on with it."""

        def decided(found: str | None) -> None:
            if not answer.done():
                answer.set_result(found if found not in (None, "no") else False)

        arguments = "\n".join(f"{name} = {value!r}" for name, value in request.args.items())
        dialog = Buttons(
            f"May the agent use {request.tool}?",
            _ANSWERS,
            f"{self._called(request.session_id)}\n{arguments[:_ARGUMENT_CHARS]}",
        )
        self.app.push_screen(dialog, decided)
        # An answer that was stopped asks no more.
        answer.add_done_callback(lambda _: self.app.call_later(_close, self.app, dialog))

    # -- status ------------------------------------------------------------------------------

    def tell_status(self) -> None:
        """Say on the bottom line how things are."""
        self.query_one("#status", Static).update(content(self._status()))
        self.refresh_bindings()

    def _status(self) -> str:
        row, tracking = self.chosen, self.app.tracking
        here = self.app.talking_on
        parts = []
        if here is not None and self.app.talks.is_running(here):
            parts.append("answering")
        if self.under_way:
            parts.append("working …")
        if self.is_reading and tracking.is_restored:
            parts.append("restored")
        model = self.app.talks.model_name if here is not None else ""
        model = model or (row.model if row else None) or ""
        parts += [model] if model else []
        if row is not None:
            parts += _figures(row)
        parts.append(self.app.durability)
        marked = len(self.sessions.marked)
        parts += [f"{marked} marked"] if marked else []
        return " · ".join(parts)


def _figures(row: SessionMetadata) -> list[str]:
    found = [counted(row.message_count, "msg")]
    about = "about " if row.tokens_estimated else ""
    found += [f"{about}{short(row.total_tokens)} tokens"] if row.total_tokens else []
    found += [f"${row.cost:.4f}"] if row.cost is not None else []
    return [*found, "live"] if row.open else found


def _close(app: SessionsApp, dialog: Buttons) -> None:
    if dialog in app.screen_stack and app.screen is dialog:
        dialog.dismiss(None)
