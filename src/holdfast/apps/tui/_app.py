"""The terminal app as a whole: its themes, its commands, and what its screens share."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from rich.terminal_theme import TerminalTheme
from textual import events
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.dom import DOMNode
from textual.screen import Screen
from textual.theme import Theme

from holdfast.agent import Host
from holdfast.apps.render.failures import told
from holdfast.apps.render.markdown import paragraphs
from holdfast.apps.render.questions import person
from holdfast.apps.tui._dialogs import Buttons
from holdfast.apps.tui._main_screen import MainScreen
from holdfast.apps.tui._sessions import SessionPages, Start
from holdfast.apps.tui._widgets import ask_beside, hand_over, is_there
from holdfast.errors import HoldfastError, UsageError
from holdfast.model import SessionMetadata
from holdfast.storage import shown_url

if TYPE_CHECKING:
    from holdfast.agent import Agent, AgentMaker, HostedTurn, RunResult
    from holdfast.library import Holdfast
    from holdfast.library.answers.turns import ToolQuestion


@dataclass
class Tracking:
    """The front end's own view of the current session. Nothing in it is a truth: logs are."""

    session_id: str | None = None
    is_restored: bool = False
    message_count: int = 0
    known: dict[str, SessionMetadata] = field(default_factory=dict)  # as shown last: a status line needs no question

    def start_session(self, id: str) -> None:
        self.session_id, self.is_restored, self.message_count = id, False, 0

    def restore_session(self, id: str, count: int) -> None:
        self.session_id, self.is_restored, self.message_count = id, True, count

    def increment_message_count(self) -> None:
        self.message_count += 1

    def name_of(self, id: str) -> str:
        """Return a session's title; its id where none is known."""
        row = self.known.get(id)
        return (row.title if row else None) or id

    def clear(self) -> None:
        self.session_id, self.is_restored, self.message_count = None, False, 0


# The colours of the app: told apart with any sight of colours, and readable on their ground. Words and signs say the
# same everywhere, so nothing depends on a colour alone. Of each the dark theme's, then the light one's.
_COLOURS = {
    "primary": ("#56b4e9", "#0072b2"),
    "secondary": ("#009e73", "#00664a"),
    "accent": ("#e69f00", "#7d4a00"),
    "warning": ("#f0e442", "#7a6a00"),
    "error": ("#d55e00", "#b34700"),
    "success": ("#56b4e9", "#0072b2"),
    "foreground": ("#e6e6e6", "#1a1a1a"),
    "background": ("#15181c", "#fafafa"),
    "surface": ("#1c2026", "#f0f1f3"),
    "panel": ("#262c34", "#e2e5ea"),
}
_VARIABLES = {"faint": ("#a3adb8", "#545d69"), "block-cursor-foreground": ("#0c1116", "#ffffff")}


def _theme(name: str, side: int) -> Theme:
    colours: dict[str, Any] = {part: pair[side] for part, pair in _COLOURS.items()}
    variables = {part: pair[side] for part, pair in _VARIABLES.items()}
    return Theme(name=name, dark=not side, variables=variables, **colours)


DARK, LIGHT = _theme("holdfast-dark", 0), _theme("holdfast-light", 1)


def _ansi(colours: str) -> TerminalTheme:
    """Return the background, the foreground and the sixteen ANSI colours, from black to white."""
    ground, letters, *named = [Color.parse(f"#{colour}").rgb for colour in colours.split()]
    return TerminalTheme(ground, letters, named, named)


DARK_ANSI = _ansi("15181c e6e6e6  8f99a5 ff8c5a 2fc79a f0e442 6fb7ff e59ac6 56b4e9 e6e6e6")
LIGHT_ANSI = _ansi("fafafa 1a1a1a  1a1a1a b34700 00664a 7a5200 0055a5 9a2f6c 005f8a 545d69")

_SETTLE_S = 10.0  # longer than any screen takes to appear, on a busy machine too; no key is lost


class KeyOrder(App[None]):
    """An app that takes keys and pasted text one after the other: each goes where the one before it led.

    Over a slow line, or on a busy machine, several keys arrive at once. Textual hands all of them to what has the
    focus at that moment, so that of ``c``, ``d`` and ``y`` the last two would not be words to say, but a session
    deleted. Here a key waits until the one before it has been acted upon.
    """

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
            self._settling = asyncio.create_task(self._go_on(await self._press(event)))

    async def _press(self, event: events.Event) -> DOMNode:
        where = self.focused or self.screen
        await super().on_event(event)
        return where

    async def _go_on(self, where: DOMNode) -> None:
        """Wait until a key was acted upon; then the next, as long as there are some."""
        try:
            await self._settled(where)
            while self._pressed and self.is_running:
                await self._settled(await self._press(self._pressed.popleft()))
        finally:
            self._settling = None

    async def _settled(self, where: DOMNode) -> None:
        """Wait until a key event has reached the app from ``where``, and its result has the focus."""
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


_ANSWERS = (("y", "Yes, once", "once"), ("s", "This session", "session"), ("a", "Always", "always"), ("n", "No", "no"))
_ALLOWED = ("once", "session", "always")
_ARGUMENT_CHARS = 2_000
_NAME_CHARS = 40


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
        self.fresh: set[str] = set()  # sessions that were begun here and in which nothing was said yet
        self._agent_options = {"place": place, "model": model, "agent": agent}
        self.talks = AppTalks(self._make_agents, self._heard)
        self._asked: dict[str, ToolQuestion] = {}
        self._dialog: Buttons | None = None  # of the first of them
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
        """Return in words how safely the store keeps what is said."""
        able = self.library.store.capabilities
        if not able.stores:
            return "nothing is kept"
        return "synced" if able.syncs else "survives a crash" if able.survives_kill else "in memory only"

    def get_default_screen(self) -> Screen[Any]:
        pages = SessionPages(self.library) if self._start is None else self._start.pages
        self._main = MainScreen(self.library, pages, self.tracking.known, session_id=self._first_id)
        return self._main

    def started(self) -> None:
        """Note that the list is shown, or that the app was closed before."""
        if self._start is not None:
            self._start.end()

    async def on_unmount(self) -> None:
        """Stop running answers, which stay recorded."""
        self.started()
        await asyncio.to_thread(self.talks.close)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        if isinstance(screen, MainScreen):
            for binding, does, action in screen.commands():
                yield SystemCommand(binding.tooltip, f"{does} ({self.get_key_display(binding)})", action)
        yield SystemCommand("Light or dark", "The other theme. (^t)", self.action_theme)
        yield SystemCommand("Quit", "Leave the app. (q)", self.exit)

    def action_theme(self) -> None:
        self.theme = DARK.name if self.theme == LIGHT.name else LIGHT.name

    def tell(self, text: str) -> None:
        self.notify(paragraphs(text), markup=False)

    def tell_failure(self, error: object) -> None:
        """Say what went wrong, and what to do about it."""
        text = "\n".join(filter(None, told(error))) if isinstance(error, BaseException) else str(error)
        self.notify(paragraphs(text), severity="error", timeout=8, markup=False)

    def say(self, session_id: str, text: str, *, interrupt: bool = False) -> None:
        """Give a message to the agent of a session; one that works hears it, and may be interrupted for it."""
        from holdfast.agent import plain_text

        self.talks.keep(session_id)
        self.tracking.increment_message_count()
        self.talks.say(session_id, plain_text(text), new=session_id in self.fresh, interrupt=interrupt)

    def go_on(self, session_id: str) -> None:
        """Let the agent of a session go on with a turn that did not come to its end."""
        self.talks.keep(session_id)
        self.talks.say(session_id, None)

    def _make_agents(self) -> AgentMaker:
        from holdfast.agent import AgentMaker

        def warn(text: str) -> None:
            """Show a warning; called in the thread of the answers."""
            if self._main is not None:
                hand_over(self._main, self.tell, text)

        options: dict[str, Any] = {**self._agent_options, "warn": warn}
        return AgentMaker(self.library, permission="suspend", **options)

    def ask_permission(self, question: ToolQuestion) -> None:
        """Ask whether a tool may be used, after what is asked already; closed unanswered, it waits in the inbox."""
        self._asked[question.question] = question
        self._ask_next()

    def _ask_next(self) -> None:
        if self._dialog is not None or not self._asked:
            return
        question = next(iter(self._asked.values()))

        def decided(found: str | None) -> None:
            self._dialog = None
            if self._asked.pop(question.question, None) is not None and found is not None:
                self._decide(question, found)
            self._ask_next()

        args = question.params if isinstance(question.params, dict) else {}
        arguments = "\n".join(f"{name} = {value!r}" for name, value in args.items())
        detail = f"{self.short_name(question.session_id)}\n{arguments[:_ARGUMENT_CHARS]}"
        self._dialog = Buttons(f"May the agent use {question.tool_name}?", _ANSWERS, detail)
        self.push_screen(self._dialog, decided)

    def _decide(self, question: ToolQuestion, found: str) -> None:
        """Answer a question durably; the turn that is held for it goes on."""
        said = {"by": person(), "via": "tui", "scope": found if found in _ALLOWED else "once"}
        session_id = question.session_id

        def give() -> None:
            self.library.answer(question.question, found in _ALLOWED, session_id=session_id, **said)

        ask_beside(
            self, give, lambda _: self.talks.wake(session_id), self.tell_failure, group="answer", exclusive=False
        )

    def _settle(self, question: ToolQuestion) -> None:
        """Close the question: it was answered, here or elsewhere, or its turn has ended."""
        is_shown = next(iter(self._asked), None) == question.question
        if self._asked.pop(question.question, None) is not None and is_shown and self.screen is self._dialog:
            self._dialog.dismiss(None)

    def short_name(self, session_id: str) -> str:
        """Return a session's title or id, harmless and short enough for a dialog."""
        return paragraphs(self.tracking.name_of(session_id))[:_NAME_CHARS]

    def _heard(self, session_id: str, what: str, detail: Any) -> None:
        """Pass a message from the thread of the answers to the app's loop."""
        # Pieces are on record as they come, and the conversation follows the record.
        if self.is_running and what != "piece":
            self.call_later(self._pass_on, session_id, what, detail)

    def _pass_on(self, session_id: str, what: str, detail: Any) -> None:
        if self._main is None or not is_there(self._main):
            return
        if what == "question":
            self.ask_permission(detail)
        elif what == "settled":
            self._settle(detail)
        else:
            self._main.heard(session_id, what, detail)


_STOP_S = 10


class AppTalks:
    """The agents of this app, by session. All methods may be called from the app's own loop.

    Every answer runs in one thread beside the app, on one loop for all, so that leaving a session for another never
    ends its answer. ``make`` gives the maker of agents, and ``tell`` is called in the thread: with the session, what
    happened ("began", "piece", "question", "settled", "ended", "failed") and the text, question or error of it.
    """

    def __init__(self, make: Callable[[], AgentMaker], tell: Callable[[str, str, Any], None]) -> None:
        self._make = make
        self._tell = tell
        self._maker: AgentMaker | None = None
        self._host: Host[str, Agent] = Host(idle_ms=None)
        self._telling: set[asyncio.Task[None]] = set()
        self._making = asyncio.Lock()
        self._kept: str | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def model_name(self) -> str:
        """The model that answers; empty before it was first needed."""
        return "" if self._maker is None else self._maker.choice.name

    def is_running(self, session_id: str) -> bool:
        return self._host.turn(session_id) is not None

    def say(self, session_id: str, text: str | None, *, new: bool = False, interrupt: bool = False) -> None:
        """Give a message to the agent of a session, or let it continue; the results are published.

        A working agent sees the message before its next step; with ``interrupt`` that is now.
        """
        self._running_loop().call_soon_threadsafe(self._start, session_id, text, new, interrupt)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        # Only who talks has the thread; reading alone starts as quickly as without an agent.
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast-talks", daemon=True)
            self._thread.start()
        return self._loop

    def stop(self, session_id: str) -> bool:
        """End an answer; what was said is kept. False if there is none."""
        turn = self._host.turn(session_id)
        if turn is None or self._loop is None:
            return False
        self._loop.call_soon_threadsafe(turn.cancel)
        return True

    def wake(self, session_id: str) -> None:
        """Let a session go on that was answered: a turn that is held, else a new one if its tools are here."""
        self._running_loop().call_soon_threadsafe(lambda: self._watch(self._wake(session_id)))

    async def _wake(self, session_id: str) -> None:
        if (turn := self._host.turn(session_id)) is not None:
            turn.news.set()
            return
        try:
            maker = await self._ready_maker()
            if await asyncio.to_thread(maker.goes_on, session_id):
                self._start(session_id, None, False, False)
        except HoldfastError as error:
            self._tell(session_id, "failed", error)

    def keep(self, session_id: str | None) -> None:
        """Keep the shown session open; others are released when idle."""
        self._kept = session_id
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._tidy)

    def release(self, session_id: str) -> None:
        """Give a session that rests back, and wait for it. Blocking."""
        try:
            self._host.let_go(session_id)
        except HoldfastError as error:
            self._tell(session_id, "failed", error)

    def close(self) -> None:
        """Stop every answer, give every session back, and end the thread. Blocking."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        # None first: nothing more is handed to a loop that is about to end.
        self._loop = None
        asyncio.run_coroutine_threadsafe(self._end(), loop).result(_STOP_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_STOP_S)
        loop.close()

    def _start(self, session_id: str, text: str | None, new: bool, interrupt: bool) -> None:  # noqa: FBT001 - called by the loop, without names
        if text is not None and (working := self._host.turn(session_id)) is not None:
            self._watch(self._steer(session_id, working, text, interrupt=interrupt))
            return
        try:
            turn = self._host.begin(session_id, lambda turn: self._answer(turn, session_id, text, new=new))
        except UsageError:
            self._tell(session_id, "failed", "an answer is under way; stop it first")
            return
        self._watch(self._pass_on(session_id, turn))

    def _watch(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _steer(self, session_id: str, turn: HostedTurn, text: str, *, interrupt: bool) -> None:
        try:
            if turn.questions:  # a new message ends the waiting
                raise UsageError("a call waits for approval")
            await turn.steer(text, interrupt=interrupt)
        except UsageError:  # it has said its last word: the next turn hears it
            turn.let_go()
            await turn.wait()
            self._start(session_id, text, False, False)
        except HoldfastError as error:
            self._tell(session_id, "failed", error)

    async def _pass_on(self, session_id: str, turn: HostedTurn) -> None:
        async for name, value in turn.listen():
            match name:
                case "done":
                    self._tell(session_id, "ended", value.pause)
                case "cancelled":
                    self._tell(session_id, "ended", "stopped; what was said is kept")
                case _:
                    self._tell(session_id, name, value)
        self._tidy()

    async def _answer(self, turn: HostedTurn, session_id: str, text: str | None, *, new: bool) -> RunResult:
        maker = await self._ready_maker()

        def make() -> Agent:
            return maker.make(maker.agent_for(session_id), session_id, load=not new)

        async with self._host.ause(session_id, make) as agent:
            turn.tell("began", agent)
            return await turn.carry(agent, agent.run_stream(text), None, hold_s=math.inf)

    async def _ready_maker(self) -> AgentMaker:
        """Return the maker, with its model loaded once; its connections live in this loop."""
        # Two messages at once, in two sessions, would load the model twice.
        async with self._making:
            if self._maker is None:
                maker = await asyncio.to_thread(self._make)
                model = await asyncio.to_thread(lambda: maker.model)
                await model.__aenter__()
                self._maker = maker
            return self._maker

    def _tidy(self) -> None:
        for session_id in self._host.held():
            if session_id != self._kept and not self.is_running(session_id):
                self.release(session_id)

    async def _end(self) -> None:
        await self._host.aclose()
        await asyncio.gather(*self._telling)
        if self._maker is not None:
            # In the loop in which it was entered, where its connections live.
            await self._maker.model.__aexit__(None, None, None)
