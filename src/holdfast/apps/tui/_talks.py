"""Talking on sessions: every answer runs in one thread beside the app, and goes on by itself.

One loop serves all of them, so that leaving a session for another never ends its answer.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.agent import Host
from holdfast.errors import HoldfastError, UsageError

if TYPE_CHECKING:
    from holdfast.agent import Agent, AgentMaker, HostedTurn, PermissionRequest, RunResult, Scope

_STOP_S = 10


class AppTalks:
    """The agents of this app, by session. All methods may be called from the app's own loop.

    ``make`` gives the maker of agents, and ``tell`` is called in the thread: with the session, what
    happened ("began", "piece", "question", "settled", "ended", "failed") and the text, question or
    error that belongs to it.
    """

    def __init__(
        self,
        make: Callable[[Callable[[PermissionRequest], Any]], AgentMaker],
        tell: Callable[[str, str, Any], None],
    ) -> None:
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
        """Whether an answer of that session is under way."""
        return self._host.turn(session_id) is not None

    def say(self, session_id: str, text: str | None, *, new: bool = False) -> None:
        """Give a message to the agent of a session, or let it go on; what comes is told."""
        loop = self._running_loop()
        loop.call_soon_threadsafe(self._start, session_id, text, new)

    def stop(self, session_id: str) -> bool:
        """End an answer; what was said is kept. False if there is none."""
        turn = self._host.turn(session_id)
        if turn is None or self._loop is None:
            return False
        self._loop.call_soon_threadsafe(turn.cancel)
        return True

    def decide(self, session_id: str, question_id: str, scope: Scope | None) -> None:
        """Let a tool run for that long, or not at all; harmless once nobody waits for it."""
        turn = self._host.turn(session_id)
        if turn is not None and self._loop is not None:
            allow = scope is not None
            answer = partial(turn.answer, question_id, approved=allow, scope=scope or "once")
            self._loop.call_soon_threadsafe(answer)

    def keep(self, session_id: str | None) -> None:
        """This session is looked at; others are given back as soon as they rest."""
        self._kept = session_id
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._tidy)

    def release(self, session_id: str) -> None:
        """Give a session that rests back, and wait for it. Blocking."""
        self._close(session_id)

    def close(self) -> None:
        """Stop every answer, give every session back, and end the thread. Blocking."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self._loop = None
        asyncio.run_coroutine_threadsafe(self._end(), loop).result(_STOP_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_STOP_S)
        loop.close()

    # -- in the thread -----------------------------------------------------------------------

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="holdfast-talks", daemon=True
            )
            self._thread.start()
        return self._loop

    def _start(self, session_id: str, text: str | None, new: bool) -> None:  # noqa: FBT001 - called by the loop, without names
        try:
            turn = self._host.begin(
                session_id, lambda turn: self._answer(turn, session_id, text, new=new)
            )
        except UsageError:
            self._tell(session_id, "failed", "an answer is under way; stop it first")
            return
        task = asyncio.get_running_loop().create_task(self._pass_on(session_id, turn))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _pass_on(self, session_id: str, turn: HostedTurn) -> None:
        async for name, value in turn.listen():
            match name:
                case "done":
                    waits = value.suspended is not None
                    self._tell(session_id, "ended", "waits for someone" if waits else "")
                case "cancelled":
                    self._tell(session_id, "ended", "stopped; what was said is kept")
                case _:
                    self._tell(session_id, name, value)
                    if name == "question":
                        # An answer that is stopped takes its questions back.
                        settled = partial(self._tell, session_id, "settled", value)
                        value.answer.add_done_callback(lambda _, tell=settled: tell())
        self._tidy()

    async def _answer(
        self, turn: HostedTurn, session_id: str, text: str | None, *, new: bool
    ) -> RunResult:
        maker = await self._ready_maker()

        def make() -> Agent:
            return maker.make(maker.agent_for(session_id), session_id, load=not new)

        async with self._host.ause(session_id, make) as agent:
            turn.tell("began", agent)
            return await turn.stream(agent.run_stream(text))

    async def _ready_maker(self) -> AgentMaker:
        """The maker, with its model loaded once; its connections live in this loop."""
        async with self._making:
            if self._maker is None:
                maker = await asyncio.to_thread(self._make, self._permit)
                model = await asyncio.to_thread(lambda: maker.model)
                await model.__aenter__()
                self._maker = maker
            return self._maker

    async def _permit(self, request: PermissionRequest) -> Any:
        turn = self._host.turn(request.session_id)
        # Not under the id of the call, which a model may give twice.
        return turn is not None and await turn.ask(request, id=secrets.token_hex(8))

    def _tidy(self) -> None:
        for session_id in self._host.held():
            if session_id != self._kept and not self.is_running(session_id):
                self._close(session_id)

    def _close(self, session_id: str) -> None:
        """Give back what rests."""
        try:
            self._host.let_go(session_id)
        except HoldfastError as error:
            self._tell(session_id, "failed", error)

    async def _end(self) -> None:
        await self._host.aclose()
        await asyncio.gather(*self._telling)
        if self._maker is not None:
            await self._maker.model.__aexit__(None, None, None)
