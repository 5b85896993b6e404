"""What can be done to a session: each asks if it must, works in a thread, and tells what it did."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence

from holdfast.apps.tui._dialogs import Buttons, Pick, Prompt
from holdfast.apps.tui._handing import hand_over
from holdfast.apps.tui._merging import Merging
from holdfast.apps.tui._undoing import Done

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
            from holdfast.apps.tui._compare_screen import CompareScreen

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

        def jump(text: str) -> Done:
            from holdfast.apps.tui._jumping import find_seq

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
