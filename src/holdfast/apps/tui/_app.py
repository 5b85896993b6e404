"""The terminal app as a whole: its themes, its commands, and what its screens share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from holdfast.apps.shown.failure import told
from holdfast.apps.tui._handing import hand_over, is_there
from holdfast.apps.tui._key_order import KeyOrder
from holdfast.apps.tui._main_screen import MainScreen
from holdfast.apps.tui._safe import paragraphs
from holdfast.apps.tui._shelf import Shelf
from holdfast.apps.tui._talks import Talks
from holdfast.apps.tui._themes import DARK, DARK_ANSI, LIGHT, LIGHT_ANSI
from holdfast.apps.tui._tracking import Tracking
from holdfast.storage import shown_url

if TYPE_CHECKING:
    from holdfast.agent import PermissionRequest
    from holdfast.apps.talk.making import AgentMaker
    from holdfast.apps.tui._starting import Start
    from holdfast.apps.tui._undoing import Done
    from holdfast.library import Holdfast

__all__ = ["SessionsApp"]

_ACTIONS = {
    "Filter the list": "filter",
    "Sort by the next column": "sort",
    "Search everything": "search",
    "Talk on this session": "talk",
    "New session": "new",
    "Stop the answer": "stop",
    "Rename": "rename",
    "Tags": "tag",
    "Pin or unpin": "pin",
    "Fork": "fork",
    "Export": "export",
    "Archive or take out of the archive": "archive",
    "Compare side by side": "compare",
    "Merge": "merge",
    "Time travel": "time",
    "Branches": "tree",
    "Analytics": "analytics",
    "Jump to an event, turn or time": "jump",
    "Delete": "delete",
    "Undo what was done last": "undo",
    "Keys": "help",
}


class SessionsApp(KeyOrder):
    """Browse, read, search and talk. ``session_id`` is opened at once.

    The library is the caller's, who closes it. A ``start`` is ended when the list is shown.
    """

    TITLE = "Holdfast"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+t", "theme", "Light or dark", show=False),
        Binding("ctrl+q", "quit", "Quit", show=False, priority=True),
    ]

    def __init__(
        self,
        library: Holdfast,
        *,
        place: str | None = None,
        session_id: str | None = None,
        model: str | None = None,
        agent: str | None = None,
        light: bool = False,
        start: Start | None = None,
    ) -> None:
        super().__init__()
        self.library = library
        self._start = start
        self.tracking = Tracking()
        self.fresh: set[str] = set()
        """Sessions that were begun here and in which nothing was said yet."""
        self.done: list[Done] = []
        """What can be undone, the last at the end."""
        self.acting = Lock()
        self.talking_on: str | None = None
        self.talks = Talks(self._maker(place, model, agent), self._ask, self._heard)
        self._first_id = session_id
        self._main: MainScreen | None = None
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        # The theme that is set after them reads the style sheets anew; once is enough.
        self.set_reactive(App.ansi_theme_dark, DARK_ANSI)
        self.set_reactive(App.ansi_theme_light, LIGHT_ANSI)
        self.theme = LIGHT.name if light else DARK.name

    @property
    def where(self) -> str:
        """The store's place as people write it."""
        store = self.library.store
        return str(getattr(store, "path", shown_url(store.url)))

    @property
    def durability(self) -> str:
        """What becomes of what is said, in words."""
        able = self.library.store.capabilities
        if not able.stores:
            return "nothing is kept"
        if able.syncs:
            return "synced"
        return "survives a crash" if able.survives_kill else "in memory only"

    def get_default_screen(self) -> Screen[Any]:
        """The list comes first."""
        shelf = Shelf(self.library) if self._start is None else self._start.shelf
        self._main = MainScreen(shelf, session_id=self._first_id)
        return self._main

    def started(self) -> None:
        """The list is shown, or the app is left before it was."""
        if self._start is not None:
            self._start.end()

    async def on_unmount(self) -> None:
        """Answers that still run are stopped, and kept."""
        import asyncio

        self.started()
        await asyncio.to_thread(self.talks.close)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Every action by its name."""
        main = self._main
        if main is not None and screen is main:
            for title, name in _ACTIONS.items():
                action: Callable[[], None] = getattr(main, f"action_{name}")
                does = (action.__doc__ or "").partition("\n")[0]
                keys = self.get_key_display(main.binding_of(name))
                yield SystemCommand(title, f"{does} ({keys})", action)
        yield SystemCommand("Light or dark", "The other theme. (^t)", self.action_theme)
        yield SystemCommand("Quit", "Leave the app. (q)", self.exit)

    def action_theme(self) -> None:
        """The other theme."""
        self.theme = DARK.name if self.theme == LIGHT.name else LIGHT.name

    # -- telling -----------------------------------------------------------------------------

    def tell(self, text: str) -> None:
        """Say what was done."""
        self.notify(paragraphs(text), markup=False)

    def tell_failure(self, error: object) -> None:
        """Say what went wrong, and what to do about it."""
        if isinstance(error, BaseException):
            text = "\n".join(filter(None, told(error)))
        else:
            text = str(error)
        self.notify(paragraphs(text), severity="error", timeout=8, markup=False)

    # -- talking -----------------------------------------------------------------------------

    def say(self, session_id: str, text: str) -> None:
        """Give a message to the agent of a session."""
        from holdfast.apps.talk.before import recordable

        self.talks.keep(session_id)
        self.tracking.increment_message_count()
        self.talks.say(session_id, recordable(text), new=session_id in self.fresh)

    def _maker(
        self, place: str | None, model: str | None, agent: str | None
    ) -> Callable[[Callable[[PermissionRequest], Any]], AgentMaker]:
        def make(permission: Callable[[PermissionRequest], Any]) -> AgentMaker:
            from holdfast.apps.talk.before import needs_agent
            from holdfast.apps.talk.making import AgentMaker

            with needs_agent():
                return AgentMaker(
                    self.library,
                    place,
                    model=model,
                    agent=agent,
                    permission=permission,
                    warn=self._warn,
                )

        return make

    def _warn(self, text: str) -> None:
        """Called in the thread of the answers."""
        if self._main is not None:
            hand_over(self._main, self.tell, text)

    def _ask(self, request: PermissionRequest) -> Future[Any]:
        answer: Future[Any] = Future()
        if self._main is None or not is_there(self._main):
            answer.set_result(False)
        else:
            self.call_later(self._main.ask_permission, request, answer)
        return answer

    def _heard(self, session_id: str, what: str, detail: Any) -> None:
        """Called in the thread of the answers; what it leads to happens on the app's loop."""
        if self.is_running and what != "piece":
            self.call_later(self._pass_on, session_id, what, detail)

    def _pass_on(self, session_id: str, what: str, detail: Any) -> None:
        if self._main is not None and is_there(self._main):
            self._main.heard(session_id, what, detail)
