"""A session among its relatives: where it came from, and what was forked from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual import on
from textual.binding import Binding, BindingType
from textual.strip import Strip

from holdfast.apps.render.tree import forest
from holdfast.apps.render.words import ago, counted
from holdfast.apps.tui._lines import LineView
from holdfast.apps.tui._page_screen import PageScreen
from holdfast.apps.tui._safe import lay_out, styled
from holdfast.errors import HoldfastError
from holdfast.model import SessionMetadata
from holdfast.session import now_ms

if TYPE_CHECKING:
    from holdfast.library import Holdfast

_SHOWN_MAX = 500


class TreeScreen(PageScreen[tuple[str, int | None] | None]):
    """The whole tree that a session belongs to; gives the one that was chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, priority=True),
        Binding("down,j", "move(1)", "Down", show=False, priority=True),
        Binding("enter", "take", "Go there"),
    ]

    def __init__(self, library: Holdfast, session_id: str, name: str = "") -> None:
        super().__init__(library, f"Branches  ·  {name or session_id}")
        self._session_id = session_id
        self._ids: list[str] = []
        self._cursor = 0

    def make(self, width: int) -> list[Strip]:
        """One line for each session of the family."""
        rows = family(self.library, self._session_id)
        ordered = list(forest(rows))
        ids = [row.session_id for _, row in ordered]
        if ids != self._ids:
            self._cursor = ids.index(self._session_id)
        self._ids, now = ids, now_ms()
        lines = []
        for number, (mark, row) in enumerate(ordered):
            here = "▶ " if number == self._cursor else "  "
            text = styled(
                (here + mark, "bold"),
                (
                    row.title or row.session_id,
                    "bold reverse" if row.session_id == self._session_id else "",
                ),
                (f"  {counted(row.message_count, 'message')}  {ago(row.updated_at, now)}", "dim"),
                (f"  {row.session_id}", "dim"),
            )
            text.truncate(width, overflow="ellipsis")
            lines += lay_out(text, width)[:1] or [Strip([Segment("")])]
        return lines

    def action_move(self, by: int) -> None:
        """So many lines on."""
        self._cursor = min(max(self._cursor + by, 0), max(len(self._ids) - 1, 0))
        self.page.scroll_to(y=max(self._cursor - self.page.size.height // 2, 0), animate=False)
        self.draw()

    @on(LineView.Clicked)
    def _clicked(self, event: LineView.Clicked) -> None:
        """The first click chooses, a second one goes there."""
        if event.line >= len(self._ids):
            return
        if event.line == self._cursor:
            self.action_take()
        else:
            self.action_move(event.line - self._cursor)

    def action_take(self) -> None:
        """Read that one."""
        if self._ids:
            self.dismiss((self._ids[self._cursor], None))


def family(library: Holdfast, session_id: str) -> list[SessionMetadata]:
    """The session, its forebears, and all that came from the oldest of them. Blocking."""
    lineage = library.lineage(session_id)
    known = [one.session_id for one in lineage.parents if one.exists]
    waiting = [known[-1] if known else session_id]
    found: dict[str, SessionMetadata] = {}
    while waiting and len(found) < _SHOWN_MAX:
        id = waiting.pop()
        if id in found:
            continue
        try:
            found[id] = library.info(id)
        except HoldfastError:
            found[id] = SessionMetadata(session_id=id, state="unreadable")
        waiting += [row.session_id for row in library.list(_SHOWN_MAX, parent=id)]
    if session_id not in found:
        found[session_id] = library.info(session_id)
    return list(found.values())
