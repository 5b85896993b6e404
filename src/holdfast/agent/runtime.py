"""The runtime: many conversations of one agent, each on its session."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
import time
from collections.abc import Awaitable, Callable, Hashable
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Self

from holdfast.agent._options import check_library, check_whole
from holdfast.agent._sync import sync_twin, twin
from holdfast.agent.host import IDLE_MS, Host
from holdfast.errors import HoldfastError, UsageError
from holdfast.library import Holdfast
from holdfast.library import open as open_library
from holdfast.model import Event, Notice
from holdfast.session import Clock, Patience, Session, Subscriber, check_wait, in_event_loop, is_due, now_ms

CLI_SESSION = "cli_session"
EXIT_WORDS = frozenset(["exit", ";"])

Handler = Callable[[str, str, Session], Any]
Read = Callable[[], str | Awaitable[str]]


class Wakes:
    """The sessions that are worth another try: after each failure the wait grows."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, first_s: float = 5, most_s: float = 3600
    ) -> None:
        self._clock, self._first_s, self._most_s = clock, first_s, most_s
        self._failed: dict[Hashable, tuple[int, float]] = {}

    def is_time(self, key: Hashable) -> bool:
        """Return whether to try it now."""
        return key not in self._failed or self._clock() >= self._failed[key][1]

    def note(self, key: Hashable, *, failed: bool) -> None:
        """Record how a try ended."""
        tries = self._failed.pop(key, (0, 0.0))[0]
        if failed:
            self._failed[key] = tries + 1, self._clock() + min(self._first_s * 2.0**tries, self._most_s)


class Runtime(Host[str, Session]):
    """Sessions by id, and the delivery of users' input to the agent.

    ``agent`` is an Agent, or a function ``(text, source, session)`` that returns the answer. A session unused
    for ``idle_ms`` is closed, with nothing lost; the next use of its id opens it again. One that another
    process has is waited for, up to ``wait_ms``. Events are published through ``Holdfast.subscribe``; there
    is no second bus. Methods that are not async may be called from any thread.
    """

    def __init__(
        self,
        agent: Any,
        hf: Holdfast | None = None,
        *,
        idle_ms: int = IDLE_MS,
        wait_ms: float = 0,
        clock: Clock = now_ms,
    ) -> None:
        check_whole(0, idle_ms=idle_ms)
        check_wait(wait_ms)
        check_library(hf)
        super().__init__(idle_ms=idle_ms, clock=clock)
        self.agent = agent
        self._answers = _answering(agent)
        self.hf = hf or open_library()
        self._owns_hf = hf is None
        self._wait_ms = wait_ms
        self._wakes = Wakes()
        self._stops: list[Callable[[], None]] = []

    def session(self, id: str) -> Session:
        """Return the session of that id, created or resumed; the same object while it is in memory."""
        # Waiting here would block the loop, and with it the holder of the session.
        patience = None if in_event_loop() else self._patience(id)
        with self.use(id, self._opener(id), patience) as session:
            return session

    # The name that earlier runtimes used.
    _get_or_create_session = session

    @property
    def sessions(self) -> dict[str, Session]:
        """Return the sessions that are in memory, by id."""
        return self.kept()

    def put_away_idle(self) -> list[str]:
        """Close the sessions that were idle for too long; return their ids. One in use stays."""
        return self.give_back_idle()

    async def process_user_input(self, text: str, source: str = "user", session: Session | str = CLI_SESSION) -> str:
        """Give the agent a user's input; return its answer.

        The input is recorded, with ``source``, before anything is done about it. A session that was closed
        meanwhile is opened again. Raises the errors of the agent and the store; the session stays usable.
        """
        id = session if isinstance(session, str) else session.id
        async with self.ause(id, self._opener(id), self._patience(id)) as opened:
            return await self._answers(text, source, opened)

    process_user_input_sync = sync_twin(process_user_input)

    async def input_loop(
        self,
        read: Read | None = None,
        write: Callable[[str], Any] | None = None,
        *,
        session_id: str = CLI_SESSION,
        source: str = "cli",
    ) -> int:
        """Answer line after line until an exit word or the end; return how many were answered.

        ``read`` returns a line and raises EOFError at the end; by default lines come from standard
        input. A failure is printed and the loop goes on.
        """
        write = write or partial(print, flush=True)
        session = self.session(session_id)
        answered = 0
        while True:
            try:
                line = await asyncio.to_thread(_read_line) if read is None else read()
                text = (await line if inspect.isawaitable(line) else line).strip()
            except EOFError:
                return answered
            if text in EXIT_WORDS:
                return answered
            if not text:
                continue
            try:
                write(await self.process_user_input(text, source, session))
            except HoldfastError as error:
                write(f"error: {error}\n  {error.remedy}")
            answered += 1

    input_loop_sync = sync_twin(input_loop)

    async def wake_due(self) -> list[str]:
        """Continue the sessions of this agent whose questions are answered, or whose time has come; return their ids.

        One that another process has, or that fails, is tried again later, with a longer wait after each failure, which
        is recorded. A session that waits for a tool that this agent does not have is left to another agent.
        """
        if not hasattr(self.agent, "resume"):
            raise UsageError("only an Agent goes on by itself, and this runtime has a function")
        woken = []
        mine = getattr(self.agent, "agent_id", None) or getattr(self.agent, "name", None)
        spec = getattr(self.agent, "spec", None)
        # The tools of MCP servers are known only once these run: then every session of this agent is tried.
        tools = None if spec is None or spec.servers is not None else {tool.name for tool in spec.tools}
        for id in await asyncio.to_thread(self.hf.inbox.due, mine, tools):
            if not self._wakes.is_time(id):
                continue
            failed = True
            with contextlib.suppress(HoldfastError):
                async with self.ause(id, self._opener(id), self._patience(id)) as session:
                    # Another process may have continued it while we waited.
                    if await asyncio.to_thread(is_due, session):
                        await self.agent.resume(id, answers={}, session=session)
                        woken.append(id)
                failed = False
            self._wakes.note(id, failed=failed)
        return woken

    wake_due_sync = sync_twin(wake_due)

    asession, aput_away_idle = twin(session), twin(put_away_idle)

    def subscribe(self, pattern: str, listener: Subscriber, *, session_id: str | None = None) -> Callable[[], None]:
        """Call ``listener(session_id, event_or_notice)`` for types such as ``tool_*``; return what ends it."""

        def listen(id: str, what: Event | Notice) -> None:
            kind = what.type if isinstance(what, Event) else what.kind
            if fnmatchcase(kind, pattern) and session_id in (None, id):
                listener(id, what)

        stop = self.hf.subscribe(listen)
        self._stops.append(stop)
        return stop

    def close(self) -> None:
        """Close every session. Does nothing the second time."""
        if self._closed:
            return
        try:
            super().close()
        finally:
            # Also after a failure: a listener of a closed runtime would be called for ever.
            for stop in self._stops:
                stop()
            if self._owns_hf:
                self.hf.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    def _opener(self, id: str) -> Callable[[], Session]:
        agent_id = getattr(self.agent, "agent_id", None)
        return lambda: self.hf.session(id, agent_id=agent_id, repair="auto", wait_ms=0)

    def _patience(self, id: str) -> Patience:
        return Patience(self.hf.store, f"sessions/{id}", self._wait_ms)


def _answering(agent: Any) -> Callable[[str, str, Session], Awaitable[str]]:
    """Return how to get an answer: from an Agent, which records by itself, or from a function."""

    async def ask_agent(text: str, source: str, session: Session) -> str:
        session.append("input", {"source": source})
        return str((await agent.run(text, session=session)).output)

    async def ask_function(text: str, source: str, session: Session) -> str:
        session.user(text, source=source)
        answer = agent(text, source, session)
        said = str(await answer if inspect.isawaitable(answer) else answer)
        session.assistant(said)
        await session.abarrier()
        return said

    if hasattr(agent, "run"):
        return ask_agent
    if callable(agent):
        return ask_function
    raise UsageError(f"{agent!r} is neither an agent nor a function that answers")


def _read_line() -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line
