"""Talking to an agent: which model and which session, and its answers as they come."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.agent import AgentMaker, Host, ModelChoice
from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli.chat import Wishes
from holdfast.apps.render.page import Span
from holdfast.apps.render.words import ago, counted
from holdfast.apps.watched import watch
from holdfast.errors import HoldfastError, UsageError
from holdfast.model import Event, Notice
from holdfast.replay import as_text
from holdfast.session import Session, in_thread, now_ms

if TYPE_CHECKING:
    from holdfast.agent import Agent, HostedTurn, PermissionRequest, RunResult
    from holdfast.apps.cli._answer import AnswerView

_CALL_CHARS = 100
_SPIN_S = 0.1
_HERE = "here"  # a talk has one session at a time, which may have no id yet


class Talker:
    """One agent on its session, and the screen that shows what it says."""

    def __init__(
        self,
        app: App,
        wishes: Wishes,
        permission: Callable[[PermissionRequest], Any] | None = None,
        *,
        late: bool = False,
    ) -> None:
        """Raises UsageError for a model that cannot be had; with ``late`` the first turn does."""
        self.app = app
        self._view: AnswerView | None = None
        watch(app.library, has_screen=True)
        self._make_maker = partial(_maker, app, wishes, permission)
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

    def begin(self) -> None:
        """Leave the session; the next message begins a new one, with its own instructions."""
        self._take(self._maker.make(self.agent_id, None, load=False))

    def answer(self, prompt: str | list[dict[str, Any]] | None, view: AnswerView | None = None) -> RunResult:
        """Show the answer word by word. Ctrl-C ends it: KeyboardInterrupt, and all is recorded."""
        self._view = view
        try:
            return self._turn(lambda _: self._stream(prompt))
        finally:
            self._view = None
            self.app.out.end_stream()
            if view is not None:
                view.settle()

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
        """Make the model in the background, while somebody types; what goes wrong is told by the first turn."""

        def load() -> None:
            with contextlib.suppress(HoldfastError):
                self._maker.model  # noqa: B018 - made once, for all

        threading.Thread(target=load, name="model", daemon=True).start()

    def ask_quietly(self, prompt: str) -> RunResult:
        """The answer, without showing it."""
        return self._turn(lambda _: self.agent.run(prompt))

    def tell_session(self) -> None:
        """Say which session this is, and how much of it there is."""
        session = self.session
        if session is None or not session.restored:
            self.app.err.line(Span("New session", "good"), f" of {self.agent_id}, kept in {self.app.where}")
            return
        state = session.live_state
        title = f" {session.title!r}" if session.title else ""
        many = counted(state.message_count, "message")
        when = ago(state.updated_at, now_ms()) or "at an unknown time"
        self.app.err.line(Span("Restored session ", "good"), Span(session.id, "name"), f"{title} ({many}, {when})")

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
    def _take(self, agent: Agent) -> None:
        """Go on with another agent. It is made before this, so that a failure changes nothing."""
        try:
            self._host.let_go(_HERE)
        finally:
            self._host.keep(_HERE, agent)

    def _turn(self, work: Callable[[HostedTurn], Awaitable[RunResult]]) -> RunResult:
        async def run() -> RunResult:
            if self._entered is None:
                model = await in_thread(lambda: self._maker.model, name="model")
                await model.__aenter__()
                self._entered = model
            result: RunResult = await self._host.begin(_HERE, work).finish()
            return result

        # Ctrl-C cancels what the runner runs, and with it the turn; then it is KeyboardInterrupt.
        return self._runner.run(run())

    async def _stream(self, prompt: str | list[dict[str, Any]] | None) -> RunResult:
        # Shown by the turn itself: a listener would be late for the line of a tool that is called.
        spinning = asyncio.ensure_future(_spin(self._view)) if self._view is not None else None
        try:
            async with self.agent.run_stream(prompt) as stream:
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
        elif what.type == "tool_call":
            self.app.out.end_stream()
            shown = as_text(what.data.get("params"))[:_CALL_CHARS]
            self.app.err.line(Span(f"→ {what.data.get('tool')} {shown}", "faint"))


def _maker(
    app: App, wishes: Wishes, permission: Callable[[PermissionRequest], Any] | None, model: str | None
) -> AgentMaker:
    return AgentMaker(app.library, app.place, model=model, agent=wishes.agent, permission=permission, warn=app.warn)


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
    elif event.type == "delta" and data.get("kind") == "thinking":
        view.thinks()


def _wanted_session(app: App, wishes: Wishes) -> str | None:
    """The id that is asked for; None for the agent's current one, or a new one."""
    if wishes.session is None:
        return None
    if not wishes.new:
        return choose(app.library, wishes.session)
    if app.library.exists(wishes.session):
        remedy = "Leave --new out to go on with it, or choose another id."
        raise UsageError(f"there is a session {wishes.session} already", remedy=remedy)
    return wishes.session
