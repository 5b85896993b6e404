"""Talking to an agent: which model and which session, and its answers as they come."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import re
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.agent import EXIT_WORDS, AgentMaker, Host, Kit, ModelChoice, plain_text
from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli.chat import Wishes
from holdfast.apps.render.page import Span
from holdfast.apps.render.words import ago, counted
from holdfast.apps.watched import watch
from holdfast.errors import HoldfastError, UsageError
from holdfast.model import Event, Notice
from holdfast.session import Session, in_thread, now_ms

if TYPE_CHECKING:
    from holdfast.agent import Agent, HostedTurn, RunResult, RunStream
    from holdfast.apps.cli._answer import AnswerView

_SPIN_S = 0.1
_HERE = "here"  # a talk has one session at a time, which may have no id yet


class Talker:
    """One agent on its session, and the screen that shows what it says."""

    def __init__(self, app: App, wishes: Wishes, permission: str | None = None, *, late: bool = False) -> None:
        """Raises UsageError for a model that cannot be had; with ``late`` the first turn does."""
        self.app = app
        self._view: AnswerView | None = None
        self.typing: Typing | None = None
        """The input typed during an answer; None without a terminal."""
        watch(app.library, has_screen=True)
        self._make_maker = partial(_maker, app, wishes, permission, self._warn)
        self._maker = self._make_maker(wishes.model)
        self.choice: ModelChoice = self._maker.choice
        session_id = _wanted_session(app, wishes)
        self.agent_id = self._maker.agent_for(session_id)
        if not late:
            self._maker.model  # noqa: B018 - what is wrong with it is told before a session is opened
        self._host: Host[str, Agent] = Host(idle_ms=None)
        self._host.keep(_HERE, self._maker.make(self.agent_id, session_id, load=not wishes.new))
        # The model's connections live in this loop; they are closed in it too.
        self._runner = asyncio.Runner()
        self._entered: Any = None
        self._unsubscribe = app.library.subscribe(self._show_event)

    @property
    def agent(self) -> Agent:
        """The agent that answers now."""
        agent = self._host.get(_HERE)
        assert agent is not None, "the talk is over"
        return agent

    @property
    def session(self) -> Session | None:
        """The session, if there is one yet: it begins with the first message."""
        return self.agent.session

    def switch(self, session_id: str) -> None:
        """Go on with another session; if that one cannot be opened, with the same as before."""
        if self.session is not None and self.session.id == session_id:
            return
        agent_id = self._maker.agent_for(session_id)
        self._take(self._maker.make(agent_id, session_id, load=True))
        self.agent_id = agent_id
        self.agent.save()  # from now on this is where the next chat goes on

    def begin(self) -> None:
        """Leave the session; the next message begins a new one, with its own instructions."""
        self._take(self._maker.make(self.agent_id, None, load=False))

    def answer(self, prompt: str | list[dict[str, Any]] | None, view: AnswerView | None = None) -> RunResult:
        """Show the answer word by word. Ctrl-C ends it: KeyboardInterrupt, and all is recorded."""
        self._view = view
        try:
            result = self._turn(lambda _: self._stream(prompt))
        finally:
            self._view = None
            self.app.out.end_stream()
            if view is not None:
                view.end()
        return result

    def tell_pause(self, result: RunResult) -> None:
        """Say why a run has not finished, if it has not."""
        if result.pause:
            self.app.err.line(Span(f"The agent {result.pause}.", "warning"))

    def use_model(self, name: str) -> None:
        """Go on with another model, in the same session. Raises UsageError for one that cannot be had."""
        maker = self._make_maker(name)
        maker.model  # noqa: B018 - what is wrong with it is found before anything changes
        session_id = None if self.session is None else self.session.id
        # A session is open once: the agent before gives it back first.
        self._host.let_go(_HERE)
        self._host.keep(_HERE, maker.make(self.agent_id, session_id, load=session_id is not None))
        if self._entered is not None:
            self._runner.run(self._entered.__aexit__(None, None, None))
        self._maker, self._entered, self.choice = maker, None, maker.choice

    def prepare(self) -> None:
        """Load the model in the background while the user types; the first turn reports a failure."""

        def load() -> None:
            with contextlib.suppress(HoldfastError):
                self._maker.model  # noqa: B018 - made once, for all

        threading.Thread(target=load, name="model", daemon=True).start()

    def ask_quietly(self, prompt: str) -> RunResult:
        """Return the answer, without showing it."""

        async def ask() -> RunResult:
            await self._enter()
            return await self.agent.run(prompt)

        return self._turn(lambda _: ask())

    def tell_session(self) -> None:
        """Say which session this is, and how much of it there is."""
        session = self.session
        if session is None or not session.restored:
            of = "" if self.agent_id == Kit.agent_id else f" of agent {self.agent_id}"
            self.app.err.line(Span("New session", "good"), f"{of}, stored in {_as_typed(self.app.where)}")
            return
        state = session.live_state
        title = f" “{session.title}”" if session.title else ""
        many = counted(state.message_count, "message")
        when = ago(state.updated_at, now_ms()) or "at an unknown time"
        self.app.err.line(Span("Restored session ", "good"), self.app.name(session.id), f"{title} ({many}, {when})")

    def close(self) -> None:
        """Give the session back."""
        self._unsubscribe()
        try:
            self._host.close()
        finally:
            if self._entered is not None:
                self._runner.run(self._entered.__aexit__(None, None, None))
            self._runner.close()

    # -- inside ------------------------------------------------------------------------------
    def _warn(self, message: str) -> None:
        """Tell of something, which may be in the middle of an answer."""
        if self._view is None:
            self.app.warn(message)
        else:
            self._view.make_room(lambda: self.app.warn(message))

    def _take(self, agent: Agent) -> None:
        """Go on with another agent. It is made before this, so that a failure changes nothing."""
        try:
            self._host.let_go(_HERE)
        finally:
            self._host.keep(_HERE, agent)

    def _turn(self, work: Callable[[HostedTurn], Awaitable[RunResult]]) -> RunResult:
        async def run() -> RunResult:
            result: RunResult = await self._host.begin(_HERE, work).finish()
            return result

        # Ctrl-C cancels what the runner runs, and with it the turn; then it is KeyboardInterrupt.
        return self._runner.run(run())

    async def _enter(self) -> None:
        """Hold the model's connections; the first time it may have to be loaded."""
        if self._entered is None:
            model = await in_thread(lambda: self._maker.model, name="model")
            await model.__aenter__()
            self._entered = model

    async def _stream(self, prompt: str | list[dict[str, Any]] | None) -> RunResult:
        # Shown by the turn itself: a listener would be late for the line of a tool that is called.
        spinning = asyncio.ensure_future(_spin(self._view)) if self._view is not None else None
        stream = self.agent.run_stream(prompt)
        heard = contextlib.nullcontext() if self.typing is None else self.typing.heard_by(stream, self._view)
        try:
            with heard:
                await self._enter()
                async with stream:
                    async for piece in stream:
                        (self.app.out.stream if self._view is None else self._view.piece)(piece)
            return stream.result
        finally:
            if spinning is not None:
                spinning.cancel()

    def _show_event(self, session_id: str, what: Event | Notice) -> None:
        """Tell of tools while they run."""
        if not isinstance(what, Event):
            return
        if self._view is not None:
            _show(self._view, what)
        elif what.type in ("tool_call", "tool_result"):
            self.app.out.end_stream()
            self.app.err.line(Span(_line_of(what), "faint"))
        elif what.type == "user":
            self.app.out.end_stream()


# Words that are typed while an answer comes.
_ESCAPE_S = 0.05  # what follows an Escape so soon belongs to it: arrows and such are keys of several characters
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?]*[@-~]|O.|[^\x1b])", re.DOTALL)


class Typing:
    """Input during an answer: a line is a message to the agent, Escape stops the current step for it.

    A command, and what the agent cannot hear any more, is ``held`` for after the answer; ``begun`` is a line that was
    not finished by then. Without ``keys`` the terminal has a line until Enter and shows it itself.
    """

    def __init__(self, *, keys: bool, keep: Callable[[str], Any]) -> None:
        self.held: list[str] = []
        self.begun = ""
        self._keys = keys
        self._keep = keep
        self._fd = sys.stdin.fileno()
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._stream: RunStream | None = None
        self._view: AnswerView | None = None
        self._escape: asyncio.TimerHandle | None = None
        self._mode: list[Any] | None = None

    @contextlib.contextmanager
    def heard_by(self, stream: RunStream, view: AnswerView | None) -> Iterator[None]:
        """Let that run hear what is typed."""
        self._stream, self._view = stream, view
        self._begin()
        try:
            yield
        finally:
            self._end()
            self.held += stream.unsaid  # it failed before it could hear
            self._stream = self._view = None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Treat typed input as the answer to a question during the block."""
        if self._stream is None:
            yield
            return
        self._end()
        try:
            yield
        finally:
            self._begin()

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            loop.add_reader(self._fd, self._read)
        except NotImplementedError:  # a loop that cannot wait for a terminal: what is typed is read after the answer
            return
        if self._keys:
            import termios

            self._mode = termios.tcgetattr(self._fd)
            self._take_keys()
            # After Ctrl-Z the shell may have changed the terminal's settings.
            loop.add_signal_handler(signal.SIGCONT, self._take_keys)

    def _take_keys(self) -> None:
        import termios

        mode = termios.tcgetattr(self._fd)
        # Key by key, unseen, as they are drawn below the answer; Ctrl-C stays what it is.
        mode[3] &= ~(termios.ICANON | termios.ECHO)
        termios.tcsetattr(self._fd, termios.TCSANOW, mode)

    def _end(self) -> None:
        with contextlib.suppress(NotImplementedError):
            asyncio.get_running_loop().remove_reader(self._fd)
        if self._escape is not None:
            self._escape.cancel()
            self._escape = None
        if self._mode is not None:
            import termios

            asyncio.get_running_loop().remove_signal_handler(signal.SIGCONT)
            with contextlib.suppress(termios.error):  # the terminal has gone
                termios.tcsetattr(self._fd, termios.TCSANOW, self._mode)
            self._mode = None

    def _read(self) -> None:
        data = os.read(self._fd, 4096)
        if not data:  # the terminal is gone, or its line was ended: no more is heard of it here
            self._end()
            self.held.append("/exit")
            return
        text = self._decode(data)
        if self._escape is not None:
            self._escape.cancel()
            self._escape, text = None, f"\x1b{text}"
        keys = _SEQUENCE.sub("", text)
        # Pasted text comes at once: its lines are one message.
        for number, key in enumerate(keys, 1):
            self._take(key, inside=number < len(keys))
        self._show()

    def _take(self, key: str, *, inside: bool = False) -> None:
        if key in "\r\n" and not inside:
            self._say()
        elif key in "\x7f\b":
            self.begun = self.begun[:-1]
        elif key == "\x15":  # Ctrl-U
            self.begun = ""
        elif key == "\x04":  # Ctrl-D leaves, after the answer
            self.held.append("/exit")
        elif key == "\x1b" and not inside:
            self._escape = asyncio.get_running_loop().call_later(_ESCAPE_S, self._stop_and_say)
        elif key in "\t\r\n" or key.isprintable():
            self.begun += key.replace("\r", "\n")

    def _stop_and_say(self) -> None:
        self._escape = None
        self._say(interrupt=True)
        self._show()

    def _say(self, *, interrupt: bool = False) -> None:
        text, self.begun = plain_text(self.begun).strip(), ""
        if not text or self._stream is None:
            return
        if text.startswith("/") or text in EXIT_WORDS:
            self.held.append(text)
            return
        try:
            self._stream.steer(text, interrupt=interrupt)
        except UsageError:  # it has ended: the next turn hears it
            self.held.append(text)
            return
        self._keep(text)
        if self._view is not None:
            self._view.asked(text)

    def _show(self) -> None:
        if self._view is not None:
            self._view.type(self.begun)


def _maker(
    app: App, wishes: Wishes, permission: str | None, warn: Callable[[str], None], model: str | None
) -> AgentMaker:
    return AgentMaker(app.library, app.place, model=model, agent=wishes.agent, permission=permission, warn=warn)


async def _spin(view: AnswerView) -> None:
    while True:
        view.spin()
        await asyncio.sleep(_SPIN_S)


def _show(view: AnswerView, event: Event) -> None:
    data = event.data
    if event.type == "tool_call":
        view.begins(str(data.get("id")), str(data.get("tool")), data.get("params"))
    elif event.type == "tool_result":
        view.ends(str(data.get("toolCallId")), data.get("result"), failed=bool(data.get("is_error")))
    elif event.type == "permission":
        view.decided(str(data.get("call")), str(data.get("tool") or "a call"))
    elif event.type == "user":
        # What is said from now on answers it. (The last words of a message may come after its `assistant` event.)
        view.settle()
    elif event.type == "delta" and data.get("kind") == "thinking":
        view.thinks()


def _line_of(event: Event) -> str:
    """Return a call, or what came of it, as a line of its own."""
    from holdfast.apps.cli._answer import call_words, outcome_words

    data = event.data
    if event.type == "tool_call":
        return f"→ {call_words(str(data.get('tool')), data.get('params'))}"
    is_failed = bool(data.get("is_error"))
    return f"{'✗' if is_failed else '✓'} {outcome_words(data.get('result'), failed=is_failed)}"


def _as_typed(path: str) -> str:
    """Return a path below the home as people write it."""
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if path.startswith(f"{home}{os.sep}") else path


def _wanted_session(app: App, wishes: Wishes) -> str | None:
    """Return the id that is asked for; None for the agent's current one, or a new one."""
    if wishes.session is None:
        return None
    if not wishes.new:
        return choose(app.library, wishes.session)
    if app.library.exists(wishes.session):
        remedy = "Leave --new out to go on with it, or choose another id."
        raise UsageError(f"there is a session {wishes.session} already", remedy=remedy)
    return wishes.session
