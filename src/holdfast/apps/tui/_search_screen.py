"""Search in everything that was said; a hit leads to its place."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.strip import Strip
from textual.timer import Timer
from textual.widgets import Input, Static

from holdfast.apps.render.search import FoundSession, gather, parents_in
from holdfast.apps.render.words import ago, counted
from holdfast.apps.tui._entry_lines import first_line
from holdfast.apps.tui._safe import content, cut, styled
from holdfast.apps.tui._widgets import KeyBar, LineView, TextLine, ask_beside
from holdfast.catalog import Hit
from holdfast.errors import HoldfastError
from holdfast.library import Holdfast
from holdfast.session import now_ms

_TYPING_S = 0.2
_HITS_MAX = 200
_HIT_LINES = 3


class HitList(LineView):
    """Each hit on three lines: where, what, and a space."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"hits--cursor"}
    DEFAULT_CSS = """
    HitList { padding: 0 1; }
    HitList > .hits--cursor {
        background: $block-cursor-background; color: $block-cursor-foreground; text-style: bold;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.can_focus = False  # the keys stay with the query
        self.hits: list[Hit] = []
        self._also: dict[tuple[str, int], str] = {}  # the sessions that have the same words
        self.cursor = 0

    def put(self, found: list[FoundSession]) -> None:
        """Show other hits; one that was chosen stays so: what is typed last is answered after keys were pressed."""
        hits = [hit for one in found for hit in one.hits]
        self._also = {
            (one.session_id, one.hits[0].seq): f"  also in {', '.join(one.also_in.values())}"
            for one in found
            if one.also_in
        }
        chosen = [(hit.session_id, hit.seq) for hit in self.hits[self.cursor : self.cursor + 1] if self.cursor]
        places = [(hit.session_id, hit.seq) for hit in hits]
        self.hits, self.cursor = hits, next((places.index(place) for place in chosen if place in places), 0)
        self.draw()
        if self.cursor:
            self.move(0)
        else:
            self.scroll_home(animate=False)

    def draw(self) -> None:
        width, now = self.scrollable_content_region.width, now_ms()
        self.show([line for hit in self.hits for line in self._hit_lines(hit, width, now)])

    def move(self, by: int) -> None:
        self.cursor = min(max(self.cursor + by, 0), max(len(self.hits) - 1, 0))
        top = self.cursor * _HIT_LINES
        if top < self.scroll_offset.y:
            self.scroll_to(y=top, animate=False, immediate=True)
        elif top + _HIT_LINES > self.scroll_offset.y + self.size.height:
            self.scroll_to(y=top + _HIT_LINES - self.size.height, animate=False, immediate=True)
        self.refresh()

    def line_at(self, number: int) -> Strip:
        """Return a line; the lines of the hit under the cursor are highlighted."""
        line = super().line_at(number)
        if self.hits and number // _HIT_LINES == self.cursor and number % _HIT_LINES < 2:
            look = self.component("hits--cursor")
            width = self.scrollable_content_region.width
            # Its words alone: their own colours are for another ground.
            return Strip([Segment(line.text, look)]).adjust_cell_length(width, look)
        return line

    def on_resize(self) -> None:
        self.draw()

    def _hit_lines(self, hit: Hit, width: int, now: int) -> list[Strip]:
        where = f"  {hit.role}{f' {hit.tool}' if hit.tool else ''}  #{hit.seq}  {ago(hit.timestamp, now)}"
        where += self._also.get((hit.session_id, hit.seq), "")
        title = cut(hit.title or hit.session_id, max(width - cell_len(where), 20))
        # The words around, with those that were found marked.
        marks = (
            (part.replace("\n", " "), "bold underline" if is_found else "") for part, is_found in hit.snippet.parts()
        )
        heading, snippet = styled((title, "bold"), (where, "dim")), styled(("  ", ""), *marks)
        return [*first_line(heading, width), *first_line(snippet, width), Strip.blank(0)]


class SearchScreen(Screen[tuple[str, int] | None]):
    """A line to type in, and below it what was found; gives the session and event chosen."""

    DEFAULT_CSS = """
    SearchScreen #query { border: round $accent; height: 3; }
    SearchScreen Input > .input--placeholder { color: $faint; }
    SearchScreen #found { height: 1; padding: 0 1; color: $faint; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Go there"),
        Binding("down", "move(1)", "Next hit", priority=True),
        Binding("up", "move(-1)", "Hit before", priority=True),
        Binding("pageup", "move(-8)", "Page up", show=False, priority=True),
        Binding("pagedown", "move(8)", "Page down", show=False, priority=True),
        Binding("escape", "leave", "Back"),
    ]

    named_keys: ClassVar[dict[str, str]] = {
        "submit": "Go there",
        "move(1)": "Next hit",
        "move(-1)": "Hit before",
        "leave": "Back",
    }

    def __init__(self, library: Holdfast) -> None:
        super().__init__()
        self._library = library
        self._delay: Timer | None = None
        self._is_asking = False
        self._takes_first = False

    def compose(self) -> ComposeResult:
        yield TextLine(placeholder='words, "a phrase", begin*, -without, a OR b', id="query")
        yield Static("", id="found")
        yield HitList()
        yield KeyBar()

    @on(Input.Changed, "#query")
    def _typed(self, event: Input.Changed) -> None:
        if self._delay is not None:
            self._delay.stop()
        self._is_asking, self._takes_first = True, False
        self._delay = self.set_timer(_TYPING_S, lambda: self._ask(event.value))

    def _ask(self, query: str) -> None:
        if not query.strip():
            self._show([], "")
            return
        library = self._library
        self.query_one("#found", Static).update(content("searching …"))

        def ask() -> tuple[list[Hit], list[FoundSession]]:
            hits = library.search(query, limit=_HITS_MAX + 1)
            return hits, gather(hits[:_HITS_MAX], parents_in(library))

        def found(came: tuple[list[Hit], list[FoundSession]]) -> None:
            hits, shown = came
            is_cut, sessions = len(hits) > _HITS_MAX, len({hit.session_id for hit in hits[:_HITS_MAX]})
            many = f"more than {_HITS_MAX} hits" if is_cut else counted(len(hits), "hit")
            once = "; what forks share is shown once" if len(shown) < sessions else ""
            self._show(shown, f"{many} in {counted(sessions, 'session')}{once}")

        def failed(error: HoldfastError) -> None:
            self._show([], str(error))

        ask_beside(self, ask, found, failed, group="search")

    def _show(self, found: list[FoundSession], told: str) -> None:
        self._is_asking = False
        self.query_one("#found", Static).update(content(told))
        self.query_one(HitList).put(found)
        if self._takes_first:
            self.action_take()

    def action_move(self, by: int) -> None:
        self.query_one(HitList).move(by)

    @on(LineView.Clicked)
    def _clicked(self, event: LineView.Clicked) -> None:
        """Choose with the first click, open with the second."""
        hits, number = self.query_one(HitList), event.line // _HIT_LINES
        if hits.hits and number == hits.cursor:
            self.action_take()
        elif number < len(hits.hits):
            hits.move(number - hits.cursor)

    @on(Input.Submitted, "#query")
    def action_take(self) -> None:
        """Go to the hit; to the first one as soon as it is found."""
        hits = self.query_one(HitList)
        if self._is_asking:
            self._takes_first = True
        elif hits.hits:
            hit = hits.hits[hits.cursor]
            self.dismiss((hit.session_id, hit.seq))

    def action_leave(self) -> None:
        self.dismiss(None)
