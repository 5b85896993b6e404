"""The terminal app as a whole: its themes, its commands, and what its screens share."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from rich.terminal_theme import TerminalTheme
from textual import events
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.screen import Screen
from textual.theme import Theme

from holdfast.apps.render.failures import told
from holdfast.apps.tui._dialogs import Buttons
from holdfast.apps.tui._main_screen import MainScreen
from holdfast.apps.tui._safe import paragraphs
from holdfast.apps.tui._sessions import SessionPages, Start
from holdfast.apps.tui._talks import AppTalks
from holdfast.apps.tui._workers import hand_over, is_there
from holdfast.model import SessionMetadata
from holdfast.storage import shown_url

if TYPE_CHECKING:
    from holdfast.agent import AgentMaker, PermissionRequest, Question, Scope
    from holdfast.library import Holdfast


# Which session the app is on: its id, whether it was restored, and how many messages it has.


@dataclass
class Tracking:
    """The front end's own view of the current session. Nothing in it is a truth: logs are."""

    session_id: str | None = None
    is_restored: bool = False
    message_count: int = 0
    known: dict[str, SessionMetadata] = field(default_factory=dict)
    """Rows that were shown last, so that a status line needs no question."""

    def start_session(self, id: str) -> None:
        """A session begins here."""
        self.session_id, self.is_restored, self.message_count = id, False, 0

    def restore_session(self, id: str, count: int) -> None:
        """A session that was there before is taken up again."""
        self.session_id, self.is_restored, self.message_count = id, True, count

    def increment_message_count(self) -> None:
        """Someone said something."""
        self.message_count += 1

    def name_of(self, id: str) -> str:
        """A session's title; its id where none is known."""
        row = self.known.get(id)
        return (row.title if row else None) or id

    def clear(self) -> None:
        """No session."""
        self.session_id, self.is_restored, self.message_count = None, False, 0


# The colours of the app: told apart with any sight of colours, and readable on their ground.
#
# Words and signs say the same everywhere, so nothing depends on a colour alone.


DARK = Theme(
    name="holdfast-dark",
    primary="#56b4e9",
    secondary="#009e73",
    accent="#e69f00",
    warning="#f0e442",
    error="#d55e00",
    success="#56b4e9",
    foreground="#e6e6e6",
    background="#15181c",
    surface="#1c2026",
    panel="#262c34",
    dark=True,
    variables={"faint": "#a3adb8", "block-cursor-foreground": "#0c1116"},
)
LIGHT = Theme(
    name="holdfast-light",
    primary="#0072b2",
    secondary="#00664a",
    accent="#7d4a00",
    warning="#7a6a00",
    error="#b34700",
    success="#0072b2",
    foreground="#1a1a1a",
    background="#fafafa",
    surface="#f0f1f3",
    panel="#e2e5ea",
    dark=False,
    variables={"faint": "#545d69", "block-cursor-foreground": "#ffffff"},
)


def _ansi(ground: str, letters: str, *colours: str) -> TerminalTheme:
    """The sixteen colours of pages and code that name one: black to white, bright as they are."""
    triples = [_triple(colour) for colour in colours]
    return TerminalTheme(_triple(ground), _triple(letters), triples, triples)


def _triple(colour: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(colour)
    return red, green, blue


DARK_ANSI = _ansi(
    "15181c",
    "e6e6e6",
    *("8f99a5", "ff8c5a", "2fc79a", "f0e442", "6fb7ff", "e59ac6", "56b4e9", "e6e6e6"),
)
LIGHT_ANSI = _ansi(
    "fafafa",
    "1a1a1a",
    *("1a1a1a", "b34700", "00664a", "7a5200", "0055a5", "9a2f6c", "005f8a", "545d69"),
)


# Keys in their order: each goes where the one before it led.
#
# Over a slow line, or on a busy machine, several keys arrive at once. Textual hands all of them to
# what has the focus at that moment, so that of ``c``, ``d`` and ``y`` the last two would not be
# words to say, but a session deleted. Here a key waits until the one before it has been acted upon.


_SETTLE_S = 10.0  # longer than any screen takes to appear, on a busy machine too; no key is lost


class KeyOrder(App[None]):
    """An app that takes keys and pasted text one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self._pressed: deque[events.Event] = deque()
        self._settling: asyncio.Task[None] | None = None

    async def on_event(self, event: events.Event) -> None:
        """Keep a key back while another is under way; everything else is as ever."""
        if not isinstance(event, events.Key | events.Paste) or event.is_forwarded:
            await super().on_event(event)
        elif self._settling is not None:
            self._pressed.append(event)
        else:
            where = self.focused or self.screen
            await super().on_event(event)
            self._settling = asyncio.create_task(self._go_on(where))

    async def _go_on(self, where: DOMNode) -> None:
        """Wait until a key was acted upon; then the next, as long as there are some."""
        try:
            await self._settled(where)
            while self._pressed and self.is_running:
                where = self.focused or self.screen
                await super().on_event(self._pressed.popleft())
                await self._settled(where)
        finally:
            self._settling = None

    async def _settled(self, where: DOMNode) -> None:
        """When a key has risen from ``where`` to the app, and what it led to has the focus."""
        rise = [*where.ancestors_with_self]
        try:
            async with asyncio.timeout(_SETTLE_S):
                # Once for the key, and once for the message that a widget made of it. What was
                # asked of the app then comes next; a new screen has its focus when it can listen.
                for node in (*rise, *rise, self):
                    await _turn_of(node)
                if self.is_running and self.screen_stack:
                    await _turn_of(self.screen)
        except TimeoutError:
            return


async def _turn_of(node: DOMNode) -> None:
    """Wait until a node has dealt with all that it was sent before."""
    done = asyncio.Event()
    is_going = node._pruning  # noqa: SLF001 - it will not come to what it is sent now
    if not is_going and node.call_later(done.set):
        await done.wait()


_ANSWERS = (
    ("y", "Yes, once", "once"),
    ("s", "This session", "session"),
    ("a", "Always", "always"),
    ("n", "No", "no"),
)
_SCOPES: dict[str | None, Scope] = {"once": "once", "session": "session", "always": "always"}
_ARGUMENT_CHARS = 2_000
_NAME_CHARS = 40
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
        self._agent_options = {"place": place, "model": model, "agent": agent}
        self.talks = AppTalks(self._make_agents, self._heard)
        self._asked: dict[str, Buttons] = {}
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
        pages = SessionPages(self.library) if self._start is None else self._start.pages
        self._main = MainScreen(pages, session_id=self._first_id)
        return self._main

    def started(self) -> None:
        """The list is shown, or the app is left before it was."""
        if self._start is not None:
            self._start.end()

    async def on_unmount(self) -> None:
        """Answers that still run are stopped, and kept."""
        self.started()
        await asyncio.to_thread(self.talks.close)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Every action by its name."""
        main = self._main
        if main is not None and screen is main:
            for title, name in _ACTIONS.items():
                does, binding, action = main.command(name)
                yield SystemCommand(title, f"{does} ({self.get_key_display(binding)})", action)
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
        from holdfast.agent import plain_text

        self.talks.keep(session_id)
        self.tracking.increment_message_count()
        self.talks.say(session_id, plain_text(text), new=session_id in self.fresh)

    def _make_agents(self, permission: Callable[[PermissionRequest], Any]) -> AgentMaker:
        from holdfast.agent import AgentMaker

        options: dict[str, Any] = {**self._agent_options, "warn": self._warn}
        return AgentMaker(self.library, permission=permission, **options)

    def _warn(self, text: str) -> None:
        """Called in the thread of the answers."""
        if self._main is not None:
            hand_over(self._main, self.tell, text)

    def ask_permission(self, question: Question) -> None:
        """Ask whether a tool may be used; the answer that waits goes on with it."""
        request = question.request

        def decided(found: str | None) -> None:
            self.talks.decide(request.session_id, question.id, _SCOPES.get(found))

        arguments = "\n".join(f"{name} = {value!r}" for name, value in request.args.items())
        dialog = self._asked[question.id] = Buttons(
            f"May the agent use {request.tool}?",
            _ANSWERS,
            f"{self.short_name(request.session_id)}\n{arguments[:_ARGUMENT_CHARS]}",
        )
        self.push_screen(dialog, decided)

    def _settled(self, question: Question) -> None:
        """It is answered, or an answer that was stopped asks no more."""
        dialog = self._asked.pop(question.id, None)
        if dialog is not None and dialog in self.screen_stack[-1:]:
            dialog.dismiss(None)

    def short_name(self, session_id: str) -> str:
        """A session's title or id, harmless and short enough for a dialog."""
        return paragraphs(self.tracking.name_of(session_id))[:_NAME_CHARS]

    def _heard(self, session_id: str, what: str, detail: Any) -> None:
        """Called in the thread of the answers; what it leads to happens on the app's loop."""
        if self.is_running and what != "piece":
            self.call_later(self._pass_on, session_id, what, detail)

    def _pass_on(self, session_id: str, what: str, detail: Any) -> None:
        if self._main is None or not is_there(self._main):
            return
        if what == "question":
            self.ask_permission(detail)
        elif what == "settled":
            self._settled(detail)
        else:
            self._main.heard(session_id, what, detail)
