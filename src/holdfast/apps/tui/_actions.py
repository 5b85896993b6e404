"""What can be done to a session: each asks if it must, works in a thread, and tells what it did."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from textual import work

from holdfast.apps.tui._dialogs import Buttons, Pick, Prompt
from holdfast.apps.tui._handing import hand_over
from holdfast.apps.tui._main_parts import SLOW_S
from holdfast.apps.tui._merging import Merging
from holdfast.errors import HoldfastError, NotFound

__all__ = ["Actions"]

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
        if row is not None:
            self._prompt(
                "Title",
                row.title or "",
                lambda text: f"renamed to {self.app.library.title(row.session_id, text)}",
            )

    def action_tag(self) -> None:
        """Add tags, or take some away with a minus."""
        row = self.chosen
        if row is None:
            return
        id = row.session_id

        def tag(text: str) -> str:
            words = text.split()
            wanted = [word for word in words if not word.startswith("-")]
            gone = [word[1:] for word in words if word.startswith("-") and len(word) > 1]
            tags = self.app.library.tag(id, *wanted) if wanted else []
            tags = self.app.library.untag(id, *gone) if gone else tags
            return f"tags: {', '.join(tags) or 'none'}"

        now = ", ".join(row.tags) or "none"
        self._prompt("Tags to add; -tag takes one away", "", tag, f"Now: {now}")

    def action_pin(self) -> None:
        """Keep the session from every policy, or let it go again."""
        row = self.chosen
        if row is None:
            return
        library, id = self.app.library, row.session_id

        def pin() -> str:
            if row.pinned:
                library.unpin(id)
                return "unpinned"
            library.pin(id)
            return "pinned"

        self._do(pin)

    # -- copies ------------------------------------------------------------------------------

    def action_fork(self) -> None:
        """A new session from this one, up to here or to an event."""
        row = self.chosen
        if row is None:
            return

        def fork(text: str) -> str:
            at = int(text) if text.isdecimal() else None
            made = self.app.library.fork(row.session_id, at)
            hand_over(self, self.read, made)
            return f"forked into {made}"

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

            def export(path: str) -> str:
                self.app.library.export(id, format, to=os.path.expanduser(path))
                return f"wrote {path}"

            self._prompt("Write it to", name, export)

        self.app.push_screen(Pick("Export as", _FORMATS), chosen)

    def action_compare(self) -> None:
        """Two sessions side by side."""
        pair = self._pair()
        if pair is not None:
            from holdfast.apps.tui._compare_screen import CompareScreen

            self.app.push_screen(CompareScreen(self.app.library, *pair))

    def action_merge(self) -> None:
        """A new session with what two did."""
        pair = self._pair()
        if pair is None:
            return
        first, second = pair

        question = f"Which turns of {self._named(second)} come into a copy of {self._named(first)}?"
        self._do(lambda: self.merge(first, second, question))

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
        library, talks = self.app.library, self.app.talks

        def archive() -> str:
            talks.release(row.session_id)
            if row.archived:
                library.unarchive(row.session_id)
                return "taken out of the archive"
            library.archive(row.session_id)
            return "archived; it stays readable"

        self._do(archive)

    def action_delete(self) -> None:
        """Put the session into the trash."""
        row = self.chosen
        if row is None:
            return
        id = row.session_id

        def delete() -> str:
            self.app.talks.release(id)
            self.app.library.delete(id)
            self.app.deleted.append(id)
            hand_over(self, self._gone, id)
            return "deleted; U brings it back"

        def decided(answer: str | None) -> None:
            if answer == "yes":
                self._do(delete)

        answers = (("y", "Yes", "yes"), ("n", "No", "no"))
        dialog = Buttons("Put this session into the trash?", answers, row.title or id)
        self.app.push_screen(dialog, decided)

    def _gone(self, id: str) -> None:
        if self.conversation.session_id == id:
            self.conversation.read(None)
            self.remove_class("-reading")
            self.sessions.focus()
        rows = [row for row in self.sessions.rows if row.session_id != id]
        self.sessions.put(rows)

    def action_undo(self) -> None:
        """Bring back what was deleted last."""

        def undo() -> str:
            ids = self.app.deleted
            if not ids:
                raise NotFound(
                    "nothing was deleted here", remedy="`holdfast undelete` has the rest."
                )
            self.app.library.undelete(ids[-1])
            return f"{ids.pop()} is back"

        self._do(undo)

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

        row = self.chosen
        if row is not None:
            self.app.push_screen(
                TimeScreen(self.app.library, row.session_id, row.title or ""), self._went
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
        from holdfast.apps.tui._stats_screen import StatsScreen

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

        def jump(text: str) -> str:
            from holdfast.apps.tui._jumping import find_seq

            seq = find_seq(self.app.library, id, text)
            hand_over(self, self.read, id, seq)
            return ""

        self._prompt("Jump to", "", jump, "120 (event), t7 (turn), 14:30, 2026-05-01, 3d")

    # -- how they are done -------------------------------------------------------------------

    def _prompt(
        self, question: str, value: str, act: Callable[[str], str], detail: str = ""
    ) -> None:
        def answered(text: str | None) -> None:
            if text is not None:
                self._do(lambda: act(text))

        self.app.push_screen(Prompt(question, value, detail), answered)

    def _do(self, act: Callable[[], str]) -> None:
        """Do it beside the app; say what came of it, and look at the list again."""
        self.under_way += 1
        self.set_timer(SLOW_S, self.tell_status)
        self._act(act)

    @work(thread=True, group="act")
    def _act(self, act: Callable[[], str]) -> None:
        try:
            told: Any = act()
        except (HoldfastError, OSError, ValueError) as error:
            hand_over(self, self._did, error)
            return
        hand_over(self, self._did, told)

    def _did(self, came: str | Exception) -> None:
        self.under_way -= 1
        if isinstance(came, Exception):
            self.tell_failure(came)
        else:
            if came:
                self.tell(came)
            self.refresh_list()
        self.tell_status()
