"""What can be done to a session: each asks if it must, works in a thread, and tells what it did."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, wait
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from textual.worker import get_current_worker

from holdfast.apps.render.words import counted, moment_of
from holdfast.apps.tui._dialogs import Buttons, Choose, Pick, Prompt
from holdfast.apps.tui._main_parts import SLOW_S
from holdfast.apps.tui._undo import Done, Undoing
from holdfast.apps.tui._window import Reader
from holdfast.apps.tui._workers import hand_over
from holdfast.errors import NotFound, UsageError
from holdfast.replay import as_text

if TYPE_CHECKING:
    from holdfast.library import Holdfast
    from holdfast.replay import Clash, Comparison, TurnView


# Merging two sessions: which turns, whose values, and a question where both changed the same.


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


class Merging(Undoing):
    """The part of the main screen that merges. Everything here but the dialogs is in a thread."""

    def merge(self, first: str, second: str, question: str) -> Done:
        """Ask what to take, make the new session and show it; what is told of it. Blocking."""
        found = self.app.library.compare(first, second)
        offered = _turns_of(found)
        answer = self._wait_for(Choose(question, offered)) if offered else ""
        policy = None if answer is None else self._policy(found)
        if answer is None or policy is None:
            return Done("")
        chosen = [int(number) for number in answer.split()]
        made = self.app.library.merge(
            first,
            second,
            turns="all" if len(chosen) == len(offered) else chosen,
            policy=policy,
            ask=self._decide if policy == "ask" else None,
        )
        report = self.app.library.merge_report(made)
        conflicts = len(report.conflicts) if report is not None else 0
        brought = report.merged_turns if report is not None else 0
        told = f"merged into {made}: {counted(brought, 'turn')}, {counted(conflicts, 'conflict')}"
        hand_over(self, self._unmark)
        return self.made(made, told)

    def _unmark(self) -> None:
        """What was marked to be merged is merged."""
        self.sessions.marked = []
        self.sessions.refresh()

    def _policy(self, found: Comparison) -> str | None:
        """Whose values count; nobody is asked where nothing else than turns differs."""
        if not found.changes:
            return "ours"
        return self._wait_for(Pick("Where both changed the same value:", _POLICIES))

    def _decide(self, clash: Clash) -> str:
        values = {"before": clash.base, "the first": clash.ours, "the second": clash.theirs}
        shown = {name: "none" if it is None else as_text(it) for name, it in values.items()}
        told = [f"{name}: {value[:_VALUE_CHARS]}" for name, value in shown.items()]
        question = f"Both changed the {clash.kind} {clash.name}. Which counts?"
        answer = self._wait_for(Buttons(question, _SIDES, "\n".join(told)))
        if answer is None:
            raise UsageError("nothing was merged", remedy="m asks again.")
        return answer

    def _wait_for(self, dialog: Choose | Pick | Buttons) -> str | None:
        answer: Future[str | None] = Future()
        worker = get_current_worker()
        hand_over(self, self._ask, dialog, answer)
        while not wait([answer], _LOOK_S).done:
            if worker.is_cancelled:  # the app is being left
                return None
        return answer.result()

    def _ask(self, dialog: Choose | Pick | Buttons, answer: Future[str | None]) -> None:
        """Show a dialog; as long as it waits for the user, nothing is said to be at work."""

        def answered(given: str | None) -> None:
            self.under_way += 1
            self.set_timer(SLOW_S, self.tell_status)
            answer.set_result(given)

        self.under_way -= 1
        self.tell_status()
        self.app.push_screen(dialog, answered)


def _asked(view: TurnView) -> str:
    return " ".join(view.user[:_QUESTION_CHARS].split()) or "(goes on)"


def _turns_of(found: Comparison) -> list[tuple[str, str]]:
    """The turns of the second one, by the numbers that ``merge`` takes."""
    views = [pair.b for pair in found.turns if pair.b is not None]
    return [(str(view.number), f"{view.number}  {_asked(view)}") for view in views]


_FORMATS = (
    ("markdown", "Markdown"),
    ("html", "a page for a browser"),
    ("json", "JSON"),
    ("text", "plain text"),
    ("bundle", "a bundle: everything, for another Holdfast"),
)


class Actions(Merging):
    """The part of the main screen that acts."""

    # -- labels ------------------------------------------------------------------------------

    def action_rename(self) -> None:
        """Give the session a title."""
        row = self.chosen
        if row is None:
            return
        library, id, before = self.app.library, row.session_id, row.title or ""

        def rename(text: str) -> Done:
            return Done(
                f"renamed to {library.title(id, text)}",
                lambda: f"called {library.title(id, before) or '(no title)'} again",
            )

        self._prompt("Title", before, rename)

    def action_tag(self) -> None:
        """Add tags, or take some away with a minus."""
        row = self.chosen
        if row is None:
            return
        id = row.session_id

        def tag(text: str) -> Done:
            words = text.split()
            wanted = [word for word in words if not word.startswith("-")]
            gone = [word[1:] for word in words if word.startswith("-") and len(word) > 1]
            before = set(self.app.library.info(id).tags)
            tags = self._tagged(id, wanted, gone)
            added, taken = set(tags) - before, before - set(tags)
            if not added and not taken:
                return Done(_told_tags(tags))
            return Done(_told_tags(tags), lambda: _told_tags(self._tagged(id, taken, added)))

        now = ", ".join(row.tags) or "none"
        self._prompt("Tags to add; -tag takes one away", "", tag, f"Now: {now}")

    def _tagged(self, id: str, wanted: Collection[str], gone: Collection[str]) -> Sequence[str]:
        library = self.app.library
        tags: Sequence[str] = library.tag(id, *wanted) if wanted else library.info(id).tags
        return library.untag(id, *gone) if gone else tags

    def action_pin(self) -> None:
        """Keep the session from every policy, or let it go again."""
        row = self.chosen
        if row is None:
            return
        library, id = self.app.library, row.session_id

        def pin() -> str:
            library.pin(id)
            return "pinned"

        def unpin() -> str:
            library.unpin(id)
            return "unpinned"

        self.act(lambda: Done(unpin(), pin) if row.pinned else Done(pin(), unpin))

    # -- copies ------------------------------------------------------------------------------

    def action_fork(self) -> None:
        """A new session from this one, up to here or to an event."""
        row = self.chosen
        if row is None:
            return

        def fork(text: str) -> Done:
            at = int(text) if text.isdecimal() else None
            made = self.app.library.fork(row.session_id, at)
            return self.made(made, f"forked into {made}")

        self._prompt("Fork up to event (empty: all of it)", "", fork)

    def action_export(self) -> None:
        """Write the session into a file."""
        row = self.chosen
        if row is None:
            return
        id = row.session_id

        def chosen(format: str | None) -> None:
            if format is None:
                return
            from holdfast.formats import format_of

            name = os.path.abspath(f"{id}{format_of(format).suffix}")

            def export(path: str) -> Done:
                self.app.library.export(id, format, to=os.path.expanduser(path))
                return Done(f"wrote {path}")

            self._prompt("Write it to", name, export)

        self.app.push_screen(Pick("Export as", _FORMATS), chosen)

    def action_compare(self) -> None:
        """Two sessions side by side."""
        pair = self._pair()
        if pair is not None:
            from holdfast.apps.tui._page_screen import CompareScreen

            self.app.push_screen(CompareScreen(self.app.library, *pair))

    def action_merge(self) -> None:
        """A new session with what two did."""
        pair = self._pair()
        if pair is None:
            return
        first, second = pair

        question = f"Which turns of {self._named(second)} come into a copy of {self._named(first)}?"
        self.act(lambda: self.merge(first, second, question))

    def _pair(self) -> tuple[str, str] | None:
        """The marked session and the chosen one, or two marked ones."""
        ids = list(self.sessions.marked)
        if len(ids) < 2 and self.chosen is not None and self.chosen.session_id not in ids:
            ids.append(self.chosen.session_id)
        if len(ids) < 2:
            self.app.notify("Mark one session with Space, then choose another.", markup=False)
            return None
        return ids[0], ids[1]

    def _named(self, session_id: str) -> str:
        row = self.app.tracking.known.get(session_id)
        return (row.title if row else None) or session_id

    # -- keeping and letting go --------------------------------------------------------------

    def action_archive(self) -> None:
        """Compress the session, or take it out of the archive."""
        row = self.chosen
        if row is None:
            return
        library, id = self.app.library, row.session_id

        def archive() -> str:
            self.app.talks.release(id)
            library.archive(id)
            return "archived; it stays readable"

        def unarchive() -> str:
            library.unarchive(id)
            return "taken out of the archive"

        self.act(lambda: Done(unarchive(), archive) if row.archived else Done(archive(), unarchive))

    def action_delete(self) -> None:
        """Put the session into the trash."""
        row = self.chosen
        if row is None:
            return
        id = row.session_id

        def bring_back() -> str:
            self.app.library.undelete(id)
            return f"{id} is back"

        def delete() -> Done:
            self.let_go(id)
            return Done("deleted", bring_back)

        def decided(answer: str | None) -> None:
            if answer == "yes":
                self.act(delete)

        answers = (("y", "Yes", "yes"), ("n", "No", "no"))
        dialog = Buttons("Put this session into the trash?", answers, row.title or id)
        self.app.push_screen(dialog, decided)

    # -- other screens -----------------------------------------------------------------------

    def action_search(self) -> None:
        """Search what was said, in every session."""
        from holdfast.apps.tui._search_screen import SearchScreen

        def found(place: tuple[str, int] | None) -> None:
            if place is not None:
                self.read(place[0], place[1])

        self.app.push_screen(SearchScreen(self.app.library), found)

    def action_time(self) -> None:
        """Go through the session's past."""
        from holdfast.apps.tui._time_screen import TimeScreen

        def went(place: tuple[str, int | None] | None) -> None:
            if place is not None and place[1] is None:
                made = place[0]
                self.act(lambda: self.made(made, f"goes on from there in {made}"))
            else:
                self._went(place)

        row = self.chosen
        if row is not None:
            self.app.push_screen(
                TimeScreen(self.app.library, row.session_id, row.title or ""), went
            )

    def action_tree(self) -> None:
        """The session among its relatives."""
        from holdfast.apps.tui._tree_screen import TreeScreen

        row = self.chosen
        if row is not None:
            self.app.push_screen(
                TreeScreen(self.app.library, row.session_id, row.title or ""), self._went
            )

    def _went(self, place: tuple[str, int | None] | None) -> None:
        if place is not None:
            self.read(*place)

    def action_analytics(self) -> None:
        """What all sessions used."""
        from holdfast.apps.tui._page_screen import StatsScreen

        self.app.push_screen(StatsScreen(self.app.library))

    def action_help(self) -> None:
        """What every key does."""
        from holdfast.apps.tui._help_screen import HelpScreen

        self.app.push_screen(HelpScreen())

    def action_jump(self) -> None:
        """To an event, a turn or a time."""
        id = self.conversation.session_id
        if id is None:
            return

        def jump(text: str) -> Done:

            seq = find_seq(self.app.library, id, text)
            hand_over(self, self.read, id, seq)
            return Done("")

        self._prompt("Jump to", "", jump, "120 (event), t7 (turn), 14:30, 2026-05-01, 3d")

    # -- how they are done -------------------------------------------------------------------

    def _prompt(
        self, question: str, value: str, act: Callable[[str], Done], detail: str = ""
    ) -> None:
        def answered(text: str | None) -> None:
            if text is not None:
                self.act(lambda: act(text))

        self.app.push_screen(Prompt(question, value, detail), answered)


def _told_tags(tags: Sequence[str]) -> str:
    return f"tags: {', '.join(tags) or 'none'}"


# From what a user typed to an event: a number, a turn, or a time. Blocking.


_TURN = re.compile(r"t(?:urn)?\s*(-?\d+)\Z")
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?\Z")


def find_seq(library: Holdfast, session_id: str, text: str) -> int:
    """The event that is meant: ``120``, ``t7``, ``t-1``, ``14:30``, ``2026-05-01``, ``3d``.

    Raises UsageError for what is none of these, and NotFound for a turn that there is not.
    """
    wanted = text.strip().lower().lstrip("#")
    reader = Reader(library, session_id)
    if wanted.isdecimal():
        return min(int(wanted), max(reader.newest_seq(), 0))
    if found := _TURN.match(wanted):
        seq = reader.seq_of_turn(int(found[1]))
        if seq is None:
            raise NotFound(f"there is no turn {found[1]}", session_id=session_id)
        return seq
    seq = reader.seq_at(_moment(library, session_id, wanted))
    if seq is None:
        raise NotFound("nothing has happened in this session yet", session_id=session_id)
    return seq


def _moment(library: Holdfast, session_id: str, text: str) -> int:
    """A time of day is that of the session's last day."""
    if found := _CLOCK.match(text):
        last = library.last_modified(session_id)
        day = datetime.now().astimezone() if last is None else last.astimezone()
        hour, minute, second = (int(part or 0) for part in found.groups())
        start = day.replace(hour=0, minute=0, second=0, microsecond=0)
        asked = start + timedelta(hours=hour, minutes=minute, seconds=second)
        return int(asked.timestamp() * 1000)
    try:
        moment = moment_of(text)
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"{text[:40]!a} is no event, turn or time", remedy="Such as 120, t7, 14:30, 2026-05-01."
        ) from None
    return int(moment.timestamp() * 1000)
