"""Messages to an agent while it works: recorded as they come, seen by the model before its next step."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from holdfast.errors import UsageError
from holdfast.session import resolve_blobs

if TYPE_CHECKING:
    from holdfast.agent._run_log import RunLog

_LOOK_S = 0.001  # how often the end of a run checks whether a message that is being recorded has arrived


class Steering:
    """The messages to one run. Any thread may send; the rest belongs to the run's event loop."""

    def __init__(self) -> None:
        self.session_id: str | None = None
        self._guard = threading.Lock()
        self._talk: RunLog | None = None
        self.begun: Future[None] = Future()
        """Done when the run records messages, or is over."""
        self._early: list[tuple[str, bool]] = []
        self._coming = 0
        """The number of messages that are being recorded at the moment."""
        self._ended = False
        self._said: dict[int, Any] = {}
        """The messages recorded here, by event number; those of earlier processes are read from the log."""
        self._step: tuple[asyncio.AbstractEventLoop, asyncio.Timeout] | None = None

    @property
    def unsaid(self) -> list[str]:
        """Return messages sent before the run, if it never began: they are not recorded."""
        with self._guard:
            return [text for text, _ in self._early]

    @property
    def takes_words(self) -> bool:
        """True while the run is working, so that messages reach the model."""
        return self._talk is not None and not self._ended

    def say(self, text: str, *, interrupt: bool = False) -> None:
        """Record a message for the run. Raises UsageError if the run is over, and the store's errors.

        A run that has not begun yet records it when it begins.
        """
        if not isinstance(text, str) or not text.strip():
            raise UsageError("a word to a working agent is a text that is not empty")
        with self._guard:
            if self._ended:
                raise no_run()
            talk = self._talk
            if talk is None:
                self._early.append((text, interrupt))
                return
            self._coming += 1
        # Not under the guard: a listener of the session may send a message too.
        try:
            self.keep(talk, text, interrupt=interrupt)
        finally:
            with self._guard:
                self._coming -= 1
        if interrupt:
            self._interrupt()

    def begin(self, talk: RunLog, session_id: str) -> None:
        """Note that the run is working, on that session."""
        with self._guard:
            self._talk, self.session_id, early = talk, session_id, self._early
            self._early = []
        for text, interrupt in early:
            self.keep(talk, text, interrupt=interrupt)
        self._set_begun()

    def end(self) -> None:
        """Note that the run is over and accepts no more messages."""
        with self._guard:
            self._ended, self._talk = True, None
        self._set_begun()

    def _set_begun(self) -> None:
        if not self.begun.done():
            self.begun.set_result(None)

    async def is_done(self) -> bool:
        """Return whether every message was seen, so that the run may end; then no more are accepted."""
        while True:
            with self._guard:
                if not self._coming:
                    self._ended = self._talk is None or not self._talk.session.live_state.unheard
                    return self._ended
            await asyncio.sleep(_LOOK_S)

    @contextlib.asynccontextmanager
    async def step(self) -> AsyncIterator[None]:
        """Run a step as the block: an interrupt cancels the work of the block and leaves it."""
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._step = asyncio.get_running_loop(), scope
                try:
                    yield
                finally:
                    self._step = None
        except TimeoutError:
            # A cancellation by the step itself goes on to the caller.
            if not scope.expired():
                raise

    def hear(self, talk: RunLog) -> None:
        """Show the model the messages that came meanwhile, in this process or in an earlier one."""
        for seq in list(talk.session.live_state.unheard):
            text = self._said.pop(seq, None)
            talk.user(_read(talk, seq) if text is None else text, steer=seq)

    def keep(self, talk: RunLog, text: Any, *, interrupt: bool = False) -> None:
        """Record a message that the model is to see."""
        event = talk.append("steer", {"content": text, **({"interrupt": True} if interrupt else {})})
        self._said[event.seq] = text

    def _interrupt(self) -> None:
        def stop() -> None:
            # The step may have ended meanwhile; the message then comes before the next one.
            if self._step == step:
                scope.reschedule(loop.time())

        step = self._step
        if step is not None:
            loop, scope = step
            loop.call_soon_threadsafe(stop)


class Steerings:
    """The active runs of one agent, each of which accepts messages."""

    def __init__(self) -> None:
        self._known: WeakSet[Steering] = WeakSet()
        self._guard = threading.Lock()

    def new(self) -> Steering:
        """Return a new one, for a run that is about to begin."""
        steering = Steering()
        with self._guard:
            self._known.add(steering)
        return steering

    def find(self, session_id: str | None, own: str | None) -> Steering:
        """Return the run of a session; without one that of the agent's own session, or the only one.

        Raises UsageError.
        """
        with self._guard:
            working = [each for each in self._known if each.takes_words]
        wanted = session_id or (own if any(each.session_id == own for each in working) else None)
        found = [each for each in working if wanted in (None, each.session_id)]
        if not found:
            raise no_run()
        if len(found) > 1:
            raise UsageError("several runs are under way", remedy="Say which session is meant: session=….")
        return found[0]


def no_run() -> UsageError:
    """Return the error for a message that no run could see."""
    return UsageError("no run is under way that could hear this", remedy="Give it to run() as the next prompt.")


def _read(talk: RunLog, seq: int) -> Any:
    session = talk.session
    recorded = resolve_blobs(session.events(seq), session.store.documents(session.key))
    return next(recorded).data.get("content", "")
