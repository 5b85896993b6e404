"""The panes of the main screen, each in an app that has nothing else."""

from __future__ import annotations

from textual import on
from textual.app import App
from textual.widgets import Input

from holdfast.apps.tui._app import DARK
from holdfast.apps.tui._conversation import ConversationPane
from holdfast.apps.tui._list_pane import ListPane
from holdfast.apps.tui._sessions import SessionPages
from holdfast.errors import NotFound


class Frame(App[None]):
    """An app of one pane, which writes down what the pane tells it."""

    def __init__(self, pane):
        super().__init__()
        self.pane = pane
        self.told = []
        self.register_theme(DARK)
        self.theme = DARK.name

    def compose(self):
        """Nothing but the pane."""
        yield self.pane

    @on(ListPane.Changed)
    def _changed(self):
        self.told.append(" ".join(self.pane.summary))

    @on(ListPane.AskFailed)
    def _failed(self, event):
        self.told.append(str(event.error))

    @on(Input.Submitted)
    def _sent(self, event):
        self.told.append(event.value)


async def until(pilot, is_so):
    """Let the app go on until something holds."""
    while not is_so():
        await pilot.pause(0.02)


async def test_the_list_pane_needs_no_screen_around_it(hf, trip, fill):
    """It lists, filters and sorts, tells how many there are, and keeps the rows that came."""
    fill(3)
    known = {}
    pane = ListPane(SessionPages(hf), known)
    app = Frame(pane)
    async with app.run_test() as pilot:
        pane.begin()
        await until(pilot, lambda: app.told[-1:] == ["4 sessions by updated"])
        assert sorted(known) == ["note-000", "note-001", "note-002", trip]
        pane.open_filter()
        await pilot.press(*"lisbon", "enter")
        await until(pilot, lambda: "1 session by updated" in app.told)
        assert pane.sessions.chosen.session_id == trip
        assert app.focused is pane.sessions
        pane.close_filter()
        pane.sort_by_next()
        await until(pilot, lambda: app.told[-1:] == ["4 sessions by created"])
        assert not pane.is_filtering


async def test_the_list_pane_tells_when_it_could_not_ask(hf, monkeypatch):
    """A store that fails is the business of whoever has the pane."""

    def fail(*_, **__):
        raise NotFound("there is no such store")

    monkeypatch.setattr(hf, "list", fail)
    pane = ListPane(SessionPages(hf), {})
    app = Frame(pane)
    async with app.run_test() as pilot:
        pane.begin()
        await until(pilot, lambda: app.told)
        assert "no such store" in app.told[0]


async def test_the_conversation_pane_needs_no_screen_around_it(hf, trip):
    """It reads a session; a line that is sent goes up, and comes back with the arrow key."""
    pane = ConversationPane(hf)
    app = Frame(pane)
    async with app.run_test() as pilot:
        pane.read(trip)
        await until(pilot, lambda: pane.view.loaded[1] > 0)
        assert app.focused is pane.view
        pane.open_line()
        await pilot.press(*"hello", "enter")
        await until(pilot, lambda: app.told == ["hello"])
        line = app.focused
        assert line.value == ""
        await pilot.press("up")
        assert line.value == "hello"
        pane.close_line()
        assert not pane.is_line_open
