"""Talking on sessions: every answer runs in one thread beside the app, and goes on by itself.

One loop serves all of them, so that leaving a session for another never ends its answer.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.agent import Agent, AgentMaker, PermissionRequest

_STOP_S = 10


class Talks:
    """The agents of this app, by session. All methods may be called from the app's own loop.

    ``make`` gives the maker of agents, ``ask`` a future for the decision on a tool, and ``tell`` is
    called in the thread: with the session, what happened ("began", "piece", "ended", "failed") and
    the text or error that belongs to it.
    """

    def __init__(
        self,
        make: Callable[[Callable[[PermissionRequest], Any]], AgentMaker],
        ask: Callable[[PermissionRequest], Future[Any]],
        tell: Callable[[str, str, Any], None],
    ) -> None:
        self._make = make
        self._ask = ask
        self._tell = tell
        self._maker: AgentMaker | None = None
        self._agents: dict[str, Agent] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
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
        return session_id in self._tasks

    def say(self, session_id: str, text: str | None, *, new: bool = False) -> None:
        """Give a message to the agent of a session, or let it go on; what comes is told."""
        loop = self._running_loop()
        loop.call_soon_threadsafe(self._start, session_id, text, new)

    def stop(self, session_id: str) -> bool:
        """End an answer; what was said is kept. False if there is none."""
        task = self._tasks.get(session_id)
        if task is None or self._loop is None:
            return False
        self._loop.call_soon_threadsafe(task.cancel)
        return True

    def keep(self, session_id: str | None) -> None:
        """This session is looked at; others are given back as soon as they rest."""
        self._kept = session_id
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._tidy)

    def release(self, session_id: str) -> None:
        """Give a session that rests back, and wait for it. Blocking."""
        if self._loop is not None and session_id in self._agents:
            asyncio.run_coroutine_threadsafe(self._release(session_id), self._loop).result(_STOP_S)

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
        if session_id in self._tasks:
            self._tell(session_id, "failed", "an answer is under way; stop it first")
            return
        task = asyncio.get_running_loop().create_task(self._answer(session_id, text, new=new))
        self._tasks[session_id] = task

    async def _answer(self, session_id: str, text: str | None, *, new: bool) -> None:
        what: tuple[str, Any]
        try:
            what = "ended", await self._streamed(session_id, text, new=new)
        except asyncio.CancelledError:
            what = "ended", "stopped; what was said is kept"
        except Exception as error:  # noqa: BLE001 - told to the user, whatever a provider raises
            what = "failed", error
        # Whoever is told asks at once whether it still runs.
        self._tasks.pop(session_id, None)
        self._tell(session_id, *what)
        self._tidy()

    async def _streamed(self, session_id: str, text: str | None, *, new: bool) -> str:
        """Tell an answer piece by piece; what there is to say of its end."""
        agent = await self._agent(session_id, new=new)
        self._tell(session_id, "began", agent)
        async with agent.run_stream(text) as stream:
            async for piece in stream:
                self._tell(session_id, "piece", piece)
        return "waits for someone" if stream.result.suspended is not None else ""

    async def _agent(self, session_id: str, *, new: bool) -> Agent:
        agent = self._agents.get(session_id)
        if agent is None:
            maker = await self._ready_maker()
            agent = await asyncio.to_thread(_make_agent, maker, session_id, new=new)
            self._agents[session_id] = agent
        return agent

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
        return await asyncio.wrap_future(self._ask(request))

    def _tidy(self) -> None:
        for session_id in list(self._agents):
            if session_id != self._kept and session_id not in self._tasks:
                self._close(session_id)

    async def _release(self, session_id: str) -> None:
        if session_id not in self._tasks:
            self._close(session_id)

    def _close(self, session_id: str) -> None:
        agent = self._agents.pop(session_id, None)
        if agent is None:
            return
        try:
            agent.close()
        except HoldfastError as error:
            self._tell(session_id, "failed", error)

    async def _end(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for session_id in list(self._agents):
            self._close(session_id)
        if self._maker is not None:
            await self._maker.model.__aexit__(None, None, None)


def _make_agent(maker: AgentMaker, session_id: str, *, new: bool) -> Agent:
    return maker.make(maker.agent_for(session_id), session_id, load=not new)
