"""Actions on a session: each asks if necessary, works in a thread, and can be undone."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, wait
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from textual.worker import get_current_worker

from holdfast.apps.render.words import counted
from holdfast.apps.tui._dialogs import Buttons, Choose, Pick, Prompt
from holdfast.apps.tui._widgets import SLOW_S, hand_over
from holdfast.apps.tui._window import find_seq
from holdfast.errors import HoldfastError, NotFound, UsageError
from holdfast.replay import as_text

if TYPE_CHECKING:
    from holdfast.apps.tui._main_screen import MainScreen
    from holdfast.model import SessionMetadata
    from holdfast.replay import Clash, TurnView

_FORMATS = (
    ("markdown", "Markdown"),
    ("html", "a page for a browser"),
    ("json", "JSON"),
    ("text", "plain text"),
    ("bundle", "a bundle: everything, for another Holdfast"),
)
_POLICIES = (
    ("ask", "ask me about each"),
    ("ours", "keep the first one's"),
    ("theirs", "take the second one's"),
    ("both", "keep both"),
)
_SIDES = (("1", "The first", "ours"), ("2", "The second", "theirs"), ("b", "Both", "both"))
_QUESTION_CHARS = 60
_VALUE_CHARS = 400
_LOOK_S = 0.2


class ActionResult(NamedTuple):
    """The result of an action: its message, and how to undo it. ``undo`` may block."""

    told: str
    undo: Callable[[], str] | None = None


class SessionActions:
    """The actions of the main screen, about the session of a row, and what can be undone of them."""

    def __init__(self, screen: MainScreen) -> None:
        self._screen = screen
        self._app = screen.app
        self._library = screen.app.library
        self.under_way = 0  # how many actions were asked for and are not done yet
        self.done: list[ActionResult] = []  # what can be undone, the last at the end
        self._one_by_one = Lock()

    def _do(self, act: Callable[[], ActionResult]) -> None:
        """Do it in a thread, after what was asked for before; say what came of it, and keep how it is undone."""
        self._begin()
        self._screen.run_worker(lambda: self._act(act), thread=True, group="act")

    def _begin(self) -> None:
        self.under_way += 1
        self._screen.set_timer(SLOW_S, self._screen.tell_status)

    def _act(self, act: Callable[[], ActionResult]) -> None:
        try:
            # Undo means the key before it, so what was asked for first is done first.
            with self._one_by_one:
                came: ActionResult | Exception = act()
                if isinstance(came, ActionResult) and came.undo is not None:
                    self.done.append(came)
        except (HoldfastError, OSError, ValueError) as error:
            came = error
        hand_over(self._screen, self._did, came)

    def _did(self, came: ActionResult | Exception) -> None:
        self.under_way -= 1
        if isinstance(came, Exception):
            self._app.tell_failure(came)
        else:
            if came.told:
                self._app.tell(came.told if came.undo is None else f"{came.told}\n(u undoes it)")
            self._screen.list_pane.look_again()
        self._screen.tell_status()

    def undo(self) -> None:
        """Undo what was done last."""

        def undo() -> ActionResult:
            if not self.done or (act := self.done[-1].undo) is None:
                raise NotFound("there is nothing to undo", remedy="`holdfast undelete` has what was deleted before.")
            try:
                told = act()
            except NotFound as error:
                # Something deleted for good stays so: it must not block the undoing of earlier actions.
                self.done.pop()
                before = "u undoes what was done before it." if self.done else error.remedy
                raise NotFound(f"this cannot be undone: {error.message}", remedy=before) from error
            self.done.pop()
            return ActionResult(told)

        self._do(undo)

    def show_made(self, session_id: str, told: str) -> None:
        """Show a new session that was made elsewhere; undoing puts it into the trash."""
        self._do(lambda: self._made(session_id, told))

    def _made(self, session_id: str, told: str) -> ActionResult:
        """Return the result of creating a session, which is shown; undo moves it to the trash. Blocking."""
        library = self._library
        before = library.info(session_id).message_count
        hand_over(self._screen, self._screen.read, session_id)

        def undo() -> str:
            # Someone talked on it since; to delete that would undo more than was done.
            if library.info(session_id).message_count != before:
                raise UsageError(f"{session_id} went on since", remedy="d deletes it all the same.")
            self._let_go(session_id)
            return f"{session_id} is in the trash"

        return ActionResult(told, undo)

    def _let_go(self, session_id: str) -> None:
        """Put a session into the trash, and take it off the screen. Blocking."""
        self._app.talks.release(session_id)
        self._library.delete(session_id)
        hand_over(self._screen, self._screen.forget, session_id)

    def _prompt(self, question: str, value: str, act: Callable[[str], ActionResult], detail: str = "") -> None:
        def answered(text: str | None) -> None:
            if text is not None:
                self._do(lambda: act(text))

        self._app.push_screen(Prompt(question, value, detail), answered)

    def jump(self, session_id: str) -> None:
        """Show the event, turn or time that is asked for."""

        def jump(text: str) -> ActionResult:
            seq = find_seq(self._library, session_id, text)
            hand_over(self._screen, self._screen.read, session_id, seq)
            return ActionResult("")

        self._prompt("Jump to", "", jump, "120 (event), t7 (turn), 14:30, 2026-05-01, 3d")

    def rename(self, row: SessionMetadata) -> None:
        """Give the session a title."""
        library, id, before = self._library, row.session_id, row.title or ""

        def rename(text: str) -> ActionResult:
            return ActionResult(
                f"renamed to {library.title(id, text)}",
                lambda: f"called {library.title(id, before) or '(no title)'} again",
            )

        self._prompt("Title", before, rename)

    def tag(self, row: SessionMetadata) -> None:
        """Add tags, or take some away with a minus."""
        id = row.session_id

        def tag(text: str) -> ActionResult:
            words = text.split()
            wanted = [word for word in words if not word.startswith("-")]
            gone = [word[1:] for word in words if word.startswith("-") and len(word) > 1]
            before = set(self._library.info(id).tags)
            tags = self._tagged(id, wanted, gone)
            # Undone is what changed, not what was asked for: a tag that was there before stays.
            added, taken = set(tags) - before, before - set(tags)
            if not added and not taken:
                return ActionResult(_told_tags(tags))
            return ActionResult(_told_tags(tags), lambda: _told_tags(self._tagged(id, taken, added)))

        now = ", ".join(row.tags) or "none"
        self._prompt("Tags to add; -tag takes one away", "", tag, f"Now: {now}")

    def _tagged(self, id: str, wanted: Collection[str], gone: Collection[str]) -> Sequence[str]:
        library = self._library
        tags: Sequence[str] = library.tag(id, *wanted) if wanted else library.info(id).tags
        return library.untag(id, *gone) if gone else tags

    def pin(self, row: SessionMetadata) -> None:
        """Keep the session from every policy, or let it go again."""
        policies, id = self._library.policies, row.session_id
        pin, unpin = _telling("pinned", policies.pin, id), _telling("unpinned", policies.unpin, id)
        self._either(pin, unpin, is_done=row.pinned)

    def _either(self, do: Callable[[], str], undo: Callable[[], str], *, is_done: bool) -> None:
        if is_done:
            do, undo = undo, do
        self._do(lambda: ActionResult(do(), undo))

    def fork(self, row: SessionMetadata) -> None:
        """A new session from this one, up to here or to an event."""

        def fork(text: str) -> ActionResult:
            made = self._library.fork(row.session_id, int(text) if text.isdecimal() else None)
            return self._made(made, f"forked into {made}")

        self._prompt("Fork up to event (empty: all of it)", "", fork)

    def export(self, row: SessionMetadata) -> None:
        """Write the session into a file."""
        id = row.session_id

        def chosen(format: str | None) -> None:
            if format is None:
                return
            from holdfast.formats import format_of

            name = os.path.abspath(f"{id}{format_of(format).suffix}")

            def export(path: str) -> ActionResult:
                self._library.export(id, format, to=os.path.expanduser(path))
                return ActionResult(f"wrote {path}")

            self._prompt("Write it to", name, export)

        self._app.push_screen(Pick("Export as", _FORMATS), chosen)

    def archive(self, row: SessionMetadata) -> None:
        """Compress the session, or take it out of the archive."""
        library, id = self._library, row.session_id

        def archive() -> str:
            self._app.talks.release(id)
            library.archive(id)
            return "archived; it stays readable"

        self._either(archive, _telling("taken out of the archive", library.unarchive, id), is_done=row.archived)

    def delete(self, row: SessionMetadata) -> None:
        """Put the session into the trash."""
        id = row.session_id

        def delete() -> ActionResult:
            self._let_go(id)
            return ActionResult("deleted", _telling(f"{id} is back", self._library.undelete, id))

        def decided(answer: str | None) -> None:
            if answer == "yes":
                self._do(delete)

        answers = (("y", "Yes", "yes"), ("n", "No", "no"))
        self._app.push_screen(Buttons("Put this session into the trash?", answers, row.title or id), decided)

    def merge(self, first: str, second: str) -> None:
        """Make a new session with what two did; a dialog asks where both changed the same."""
        name = self._app.tracking.name_of
        question = f"Which turns of {name(second)} come into a copy of {name(first)}?"
        self._do(lambda: self._merge(first, second, question))

    def _merge(self, first: str, second: str, question: str) -> ActionResult:
        """Ask what to take, create the new session and show it; return the message. Blocking."""
        found = self._library.compare(first, second)
        # The turns of the second one, by the numbers that `merge` takes.
        offered = [
            (str(pair.b.number), f"{pair.b.number}  {_asked(pair.b)}") for pair in found.turns if pair.b is not None
        ]
        answer = self._wait_for(Choose(question, offered)) if offered else ""
        if answer is None:
            return ActionResult("")
        # Without differing values there is no question about them.
        asks = Pick("Where both changed the same value:", _POLICIES)
        policy = self._wait_for(asks) if found.changes else "ours"
        if policy is None:
            return ActionResult("")
        chosen = [int(number) for number in answer.split()]
        turns: str | list[int] = "all" if len(chosen) == len(offered) else chosen
        ask = self._decide if policy == "ask" else None
        made = self._library.merge(first, second, turns=turns, policy=policy, ask=ask)
        report = self._library.merge_report(made)
        brought, conflicts = (report.merged_turns, len(report.conflicts)) if report is not None else (0, 0)
        hand_over(self._screen, self._screen.sessions.unmark)
        return self._made(made, f"merged into {made}: {counted(brought, 'turn')}, {counted(conflicts, 'conflict')}")

    def _decide(self, clash: Clash) -> str:
        values = {"before": clash.base, "the first": clash.ours, "the second": clash.theirs}
        told = [f"{name}: {'none' if it is None else as_text(it)[:_VALUE_CHARS]}" for name, it in values.items()]
        question = f"Both changed the {clash.kind} {clash.name}. Which counts?"
        answer = self._wait_for(Buttons(question, _SIDES, "\n".join(told)))
        if answer is None:
            raise UsageError("nothing was merged", remedy="m asks again.")
        return answer

    def _wait_for(self, dialog: Choose | Pick | Buttons) -> str | None:
        answer: Future[str | None] = Future()
        worker = get_current_worker()
        hand_over(self._screen, self._ask, dialog, answer)
        # Looked at now and then: a dialog that is left with the app answers nobody.
        while not wait([answer], _LOOK_S).done:
            if worker.is_cancelled:  # the app is being left
                return None
        return answer.result()

    def _ask(self, dialog: Choose | Pick | Buttons, answer: Future[str | None]) -> None:
        """Show a dialog; as long as it waits for the user, nothing is said to be at work."""

        def answered(given: str | None) -> None:
            self._begin()
            answer.set_result(given)

        self.under_way -= 1
        self._screen.tell_status()
        self._app.push_screen(dialog, answered)


def _asked(view: TurnView) -> str:
    return " ".join(view.user[:_QUESTION_CHARS].split()) or "(goes on)"


def _telling(told: str, act: Callable[[str], object], id: str) -> Callable[[], str]:
    """Return what does something to a session, and tells that."""

    def do() -> str:
        act(id)
        return told

    return do


def _told_tags(tags: Sequence[str]) -> str:
    return f"tags: {', '.join(tags) or 'none'}"
