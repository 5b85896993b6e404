"""The host of turns: sessions kept open while they are used, and the turns of agents on them.

The contract, which every app with agents keeps by running on :class:`Host`:

- **Kept.** A session is opened at its first use and is the same object for all its concurrent
  users. It is released ``idle_ms`` after its last use, never while it is in use; the next
  use opens it again. One that another process has is waited for, up to the given patience. One
  that was fenced off is closed, and opened anew by the next use.
- **One turn at a time.** While a turn of a session goes on, the next is refused. A turn goes on
  whether or not anybody listens. It is over when its end is published: a listener may then begin
  the next one at once.
- **Listeners** get every message from the moment they began to listen, up to the end; a listener
  that comes after the end gets nothing and does not wait.
- **Questions** are in the inbox before anybody is asked, so that any process can answer them, also after this one has
  died. A turn publishes those of its run, is held while they are open, and goes on with each answer, from anywhere.
- **Steer** sends the agent of a turn a message before its next step; with ``interrupt`` the current
  step is stopped for it. The turn goes on. A message that comes too late is refused.
- **Cancel** stops a turn, and waits until that is recorded. The turn's end is "cancelled".
- **Put off** is for the end of the server, when no user asked to stop: no turn begins any more, and
  the active ones are stopped, each with an event in its session that says that it was interrupted,
  so that it is continued elsewhere. The turn's end is "interrupted".
- **Close** releases all sessions, even those in use. A failure of one does not keep the others.

Keeping sessions is safe from any thread; turns belong to one event loop. Nothing here loads a model or its engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Hashable, Iterator
from concurrent.futures import Executor, Future
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from holdfast.errors import Fenced, HoldfastError, Locked, UsageError
from holdfast.library.answers.turns import ToolQuestion
from holdfast.session import Patience, Session, Timers, in_thread, uncancelled

if TYPE_CHECKING:
    from holdfast.agent._agent import Agent
    from holdfast.agent._result import RunResult, RunStream

IDLE_MS = 30 * 60 * 1000
_LOOK_S = 1.0
_PUT_OFF = "the server was stopped in mid-turn"

Run = Callable[..., Awaitable[Any]]
"""Calls a function on another thread: ``await run(function, *arguments)``."""
Message = tuple[str, Any]
"""A message of a turn: a name, and its data."""


class Openable(Protocol):
    """Something that a host keeps open: a session, or an agent that has one of its own."""

    @property
    def closed(self) -> bool:
        """True once the object is closed and can no longer be used."""

    def close(self) -> None:
        """Release it."""


K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=Openable)


class HostedTurn:
    """One turn: its listeners, its questions, and its end.

    It publishes ``piece`` with a text, ``question`` with a call that waits for approval (a ``ToolQuestion``), and
    ``settled`` with the same once this turn asks about it no more; messages of its work, and at its end one of
    ``done`` with the work's result, ``failed`` with the error, ``cancelled`` and ``interrupted``.
    """

    def __init__(self, key: Any, run: Run = asyncio.to_thread) -> None:
        self.key = key
        self.ended: str | None = None
        """The outcome of the turn; None while it goes on."""
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_put_off = False
        self.news = asyncio.Event()
        """Set when something that the turn waits for may have come."""
        self.questions: dict[str, ToolQuestion] = {}
        """The open questions, in the order in which they were asked."""
        self._held: Session | None = None
        self._is_let_go = False
        self._queues: list[asyncio.Queue[Message | None]] = []
        self._task: asyncio.Future[Any] | None = None
        self._over = asyncio.Event()
        self._stream: RunStream | None = None
        self._has_agent = asyncio.Event()
        self._words: set[asyncio.Future[None]] = set()
        self._in_order = asyncio.Lock()
        self._run = run

    def start(self, work: Awaitable[Any], over: Callable[[], Any]) -> None:
        """Start the work; ``over`` is called right before its end is published: a listener may begin the next turn."""

        def end(task: asyncio.Future[Any]) -> None:
            over()
            self._end(task)

        self._task = asyncio.ensure_future(work)
        self._task.add_done_callback(end)

    def tell(self, name: str, value: Any = None) -> None:
        """Publish a message to all listeners."""
        for queue in self._queues:
            queue.put_nowait((name, value))

    def listen(self) -> AsyncIterator[Message]:
        """Return the messages from now on, until the end."""
        queue: asyncio.Queue[Message | None] = asyncio.Queue()
        if self.ended is not None:
            queue.put_nowait(None)
        self._queues.append(queue)

        async def heard() -> AsyncIterator[Message]:
            try:
                while (message := await queue.get()) is not None:
                    yield message
            finally:
                self._queues.remove(queue)

        return heard()

    def let_go(self) -> None:
        """Hold the turn for no answer any more: it ends, and its questions wait in the inbox."""
        self._is_let_go = True
        self.news.set()

    async def steer(self, text: str, *, interrupt: bool = False) -> None:
        """Send a message to the agent while it works, as ``Agent.steer`` does; returns once it is recorded.

        A turn that is still beginning, or is held for an answer, hears it later. Raises UsageError if it ends first,
        and for an interrupt while it is held.
        """
        saying = asyncio.ensure_future(self._say(text, interrupt=interrupt))
        self._words.add(saying)
        saying.add_done_callback(self._words.discard)
        # Shielded: the message counts also if its sender is gone before the agent is ready.
        await asyncio.shield(saying)

    async def _say(self, text: str, *, interrupt: bool) -> None:
        async with self._in_order:
            await self._has_agent.wait()
            stream, held = self._stream, self._held
            if self.ended is not None or stream is None:
                raise UsageError("no agent is at work here that could hear this", remedy="Begin a turn with it.")
            if held is not None:
                if interrupt:
                    raise UsageError("no step is under way: a call waits for approval", remedy="Answer it, or cancel.")
                await self._run(held.append, "steer", {"content": text})
                return
            await stream.begun()
            await self._run(partial(stream.steer, text, interrupt=interrupt))

    def cancel(self) -> None:
        """Stop it. Does nothing when it has ended."""
        if self._task is not None and self.ended is None:
            self._task.cancel()

    async def stop(self) -> None:
        """Stop it, and wait until that is recorded."""
        self.cancel()
        await self._over.wait()

    async def wait(self) -> None:
        """Wait for the end, whatever it is; cancelling the wait does not stop the turn."""
        await self._over.wait()

    async def finish(self) -> Any:
        """Wait for the result.

        Raises the error of the turn, or CancelledError; cancelling the wait cancels the turn.
        """
        try:
            await self._over.wait()
        except asyncio.CancelledError:
            await uncancelled(self.stop())
            raise
        if self.error is not None:
            raise self.error
        if self.ended != "done":
            raise asyncio.CancelledError
        return self.result

    async def carry(
        self, agent: Agent, stream: RunStream, session: Session | None, *, hold_s: float, durable: bool = False
    ) -> RunResult:
        """Run a turn: stream an agent's run, ask about calls that wait, and continue with each answer.

        It is held for an answer for ``hold_s``; what is still open then is left to the inbox.
        """
        used = None
        while True:
            result = await self.stream(stream, session, durable=durable)
            if used is not None:
                result.usage.add(used)  # all runs answer one prompt
            used = result.usage
            home = session or agent.session
            asked = {one.id: one for one in result.waiting if one.kind == "permission"}
            self._settle(asked)
            if home is None or not result.waiting:
                return result
            about = {tool.name: tool.description for tool in agent.spec.tools}
            for one in (asked[id] for id in asked if id not in self.questions):
                question = self.questions[one.id] = ToolQuestion.of(one, about.get(one.tool, ""))
                self.tell("question", question)
            if not await self._is_answered(home, hold_s if asked else 0):
                return result
            stream = agent.run_stream(None, session=session)

    async def _is_answered(self, session: Session, hold_s: float) -> bool:
        """Hold the turn until there is an answer, or for that long; return whether there is one."""
        from holdfast.session import is_due, take_answers

        until = time.monotonic() + hold_s
        self._held = session
        try:
            while True:
                self.news.clear()
                if await self._run(is_due, session):
                    await self._run(take_answers, session)
                    self._settle({id for id, ask in session.live_state.asks.items() if ask.is_open})
                    return True
                if self._is_let_go or time.monotonic() >= until:
                    return False
                with contextlib.suppress(TimeoutError):
                    # Others answer in the store, which tells nobody.
                    await asyncio.wait_for(self.news.wait(), _LOOK_S)
        finally:
            self._held = None

    def _settle(self, open_ones: Container[str] = ()) -> None:
        """Publish which of the questions this turn asks for no more."""
        for id in [id for id in self.questions if id not in open_ones]:
            self.tell("settled", self.questions.pop(id))

    async def stream(self, stream: RunStream, session: Session | None = None, *, durable: bool = False) -> RunResult:
        """Publish an agent's answer piece by piece; return the result of the run.

        With a session everything is on the medium at the end; with ``durable`` each piece is before it is
        published, so that what a listener has seen survives this process.
        """
        self._stream = stream
        self._has_agent.set()
        each = durable and session is not None and session.store.capabilities.defers
        try:
            async with stream as pieces:
                async for piece in pieces:
                    if each and session is not None:
                        await session.aflush()
                    self.tell("piece", piece)
            if session is not None:
                await session.aflush()
        except asyncio.CancelledError:
            if self.is_put_off and session is not None:
                # Recorded, now that the turn's end is, so that it is continued; else the next writer records it.
                with contextlib.suppress(HoldfastError):
                    session.append("interrupted", {"reason": _PUT_OFF})
                    await uncancelled(session.aflush())
            raise
        return pieces.result

    def _end(self, task: asyncio.Future[Any]) -> None:
        """Handle the end of the task, which may have been stopped before it began."""
        if task.cancelled():
            self.ended = "interrupted" if self.is_put_off else "cancelled"
        elif (error := task.exception()) is not None:
            self.ended, self.error = "failed", error
        else:
            self.ended, self.result = "done", task.result()
        self._settle()
        self.tell(self.ended, self.result if self.error is None else self.error)
        for queue in self._queues:
            queue.put_nowait(None)
        self._over.set()
        self._has_agent.set()


class _Kept(Generic[T]):
    """A thing that is open, or about to be."""

    def __init__(self) -> None:
        self.thing: T | None = None
        self.users = 0
        self.used_at = 0.0
        self.moving: Future[None] | None = None
        """Set while it is being opened or closed. No lock is held meanwhile, since that takes long."""

    @property
    def open(self) -> T | None:
        return None if self.thing is None or self.thing.closed else self.thing


class Host(Generic[K, T]):
    """Sessions by key, kept open while they are used, and at most one turn on each.

    With ``idle_ms`` None everything stays open until it is let go. ``run`` and ``executor`` determine the
    threads on which sessions are opened and closed.
    """

    def __init__(
        self,
        *,
        idle_ms: int | None = IDLE_MS,
        clock: Callable[[], float] = lambda: time.monotonic() * 1000,
        run: Run = asyncio.to_thread,
        executor: Executor | None = None,
        timers: Timers | None = None,
    ) -> None:
        self._idle_ms = idle_ms
        self._clock = clock
        self._run = run
        self._executor = executor
        self._timers = timers or Timers()
        self._owns_timers = timers is None
        self._is_watched = False
        self._kept: dict[K, _Kept[T]] = {}
        self._turns: dict[K, HostedTurn] = {}
        self._lock = threading.RLock()
        self._closed = False
        self.takes_turns = True
        """True while turns may begin here."""

    def kept(self) -> dict[K, T]:
        """Return what is open, by key."""
        with self._lock:
            return {key: kept.open for key, kept in self._kept.items() if kept.open is not None}

    def get(self, key: K) -> T | None:
        """Return what is open under a key, or None."""
        with self._lock:
            kept = self._kept.get(key)
            return None if kept is None else kept.open

    def held(self) -> list[K]:
        """Return the keys of what is open, or being opened or closed."""
        with self._lock:
            return list(self._kept)

    def keep(self, key: K, thing: T) -> None:
        """Keep something that is open already, under a free key."""
        with self._lock:
            self._check_open()
            kept = self._kept.setdefault(key, _Kept())
            assert kept.open is None, f"{key!r} is kept already"
            kept.thing, kept.used_at = thing, self._clock()
            self._watch()

    @contextmanager
    def use(self, key: K, make: Callable[[], T], patience: Patience | None = None) -> Iterator[T]:
        """Use what is kept under a key, opened if need be. Raises what ``make`` does, Locked when patience is over."""
        kept = self._enter(key)
        try:
            yield self._take(kept, make, patience)
        except Fenced:
            self._give_back(key, kept, used=True)
            raise
        finally:
            self._leave(key, kept)

    @asynccontextmanager
    async def ause(self, key: K, make: Callable[[], T], patience: Patience | None = None) -> AsyncIterator[T]:
        """Use it as :meth:`use` does, without blocking the event loop."""
        kept = self._enter(key)
        try:
            thing = kept.open if kept.moving is None else None
            if thing is None:
                thing = await self._atake(kept, make, patience)
            yield thing
        except Fenced:
            await uncancelled(self._run(self._give_back, key, kept, True))
            raise
        finally:
            self._leave(key, kept)

    def let_go(self, key: K, *, used: bool = False) -> None:
        """Close what is not in use (with ``used``: in any case), so that it can be moved or deleted. Blocking."""
        kept = self._kept.get(key)
        if kept is not None:
            _settle(kept)
            self._give_back(key, kept, used)

    def give_back_idle(self) -> list[K]:
        """Close what was idle for too long; return the keys. What is in use stays."""
        return [key for key, kept in self._idle() if self._give_back(key, kept)]

    def close(self) -> None:
        """Close everything, even if it is in use. Does nothing the second time."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            found = list(self._kept.items())
        if self._owns_timers:
            self._timers.close()
        with contextlib.ExitStack() as stack:
            for key, kept in found:
                _settle(kept)
                stack.callback(self._give_back, key, kept, used=True)

    def close_quietly(self) -> None:
        """Close everything when no one is left to report a failure to."""
        with contextlib.suppress(HoldfastError):
            self.close()

    def turn(self, key: K) -> HostedTurn | None:
        """Return the active turn of a session."""
        return self._turns.get(key)

    @property
    def turns(self) -> list[HostedTurn]:
        """All active turns."""
        return list(self._turns.values())

    def begin(self, key: K, work: Callable[[HostedTurn], Awaitable[Any]]) -> HostedTurn:
        """Begin a turn: ``await work(turn)``. Raises UsageError while one is active, or after the end."""
        if key in self._turns:
            raise UsageError("an answer is under way", remedy="Stop it first, or wait for it.")
        if not self.takes_turns:
            raise UsageError("no turn begins here any more", remedy="Begin it elsewhere.")
        # Registered before it starts: the work may ask at once whether a turn is active.
        turn = self._turns[key] = HostedTurn(key, self._run)
        turn.start(work(turn), lambda: self._turns.pop(key))
        return turn

    async def cancel(self, key: K) -> bool:
        """Stop the turn of a session, and wait until that is recorded; return whether there was one."""
        turn = self._turns.get(key)
        if turn is not None:
            await turn.stop()
        return turn is not None

    async def steer(self, key: K, text: str, *, interrupt: bool = False) -> bool:
        """Send a message to the agent that works on a session; return whether there was one."""
        turn = self._turns.get(key)
        if turn is not None:
            await turn.steer(text, interrupt=interrupt)
        return turn is not None

    async def put_off(self) -> None:
        """Stop all turns, each to be continued elsewhere; no new one begins."""
        for turn in self.turns:
            turn.is_put_off = True
        await self._stop_turns()

    async def aclose(self) -> None:
        """Cancel all turns, and close everything; failures to save are not reported."""
        # Turns first: they write to what is closed next.
        await self._stop_turns()
        await uncancelled(self._run(self.close_quietly))

    async def _stop_turns(self) -> None:
        self.takes_turns = False
        await asyncio.gather(*(turn.stop() for turn in self.turns))

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("this host of sessions is closed")

    def _enter(self, key: K) -> _Kept[T]:
        with self._lock:
            self._check_open()
            kept = self._kept.setdefault(key, _Kept())
            kept.users += 1
            return kept

    def _leave(self, key: K, kept: _Kept[T]) -> None:
        with self._lock:
            kept.users -= 1
            kept.used_at = self._clock()
            self._forget(key, kept)
            self._watch()

    def _forget(self, key: K, kept: _Kept[T]) -> None:
        """Drop an entry that holds nothing. Call it under the lock."""
        # An entry that has waiters stays, or the next user would open a second one.
        is_free = not kept.users and kept.moving is None and kept.thing is None
        if is_free and self._kept.get(key) is kept:
            del self._kept[key]

    def _take(self, kept: _Kept[T], make: Callable[[], T], patience: Patience | None) -> T:
        while True:
            try:
                found = self._attempt(kept, make)
                if not isinstance(found, Future):
                    return found
                found.result()
            except Locked:
                if patience is None or not patience.pause():
                    raise

    async def _atake(self, kept: _Kept[T], make: Callable[[], T], patience: Patience | None) -> T:
        while True:
            try:
                found: T | Future[None] = await uncancelled(self._run(self._attempt, kept, make))
                if not isinstance(found, Future):
                    return found
                await asyncio.wrap_future(found)
            except Locked:
                # On a thread of its own: the worker threads are few.
                if patience is None or not await in_thread(patience.pause, name="holdfast-wait"):
                    raise

    def _attempt(self, kept: _Kept[T], make: Callable[[], T]) -> T | Future[None]:
        """Open it, unless it is open; return the future to wait for if another thread is at it."""
        with self._lock:
            self._check_open()
            if kept.moving is not None:
                return kept.moving
            if kept.open is not None:
                return kept.open
            kept.moving = _moving()
        # Opening takes time in proportion to the log: without the lock, or all others would wait.
        thing: T | None = None
        try:
            thing = make()
            return thing
        finally:
            with self._lock:
                kept.thing = thing
                moved, kept.moving = kept.moving, None
            moved.set_result(None)

    def _give_back(self, key: K, kept: _Kept[T], used: bool = False) -> bool:  # noqa: FBT001, FBT002 - called by threads, without names
        """Close it; return whether there was something to close. If in use, only with ``used``."""
        with self._lock:
            if kept.moving is not None or kept.thing is None or (kept.users and not used):
                return False
            thing, kept.thing = kept.thing, None
            kept.moving = _moving()
        try:
            if not thing.closed:
                thing.close()
        finally:
            with self._lock:
                moved, kept.moving = kept.moving, None
                self._forget(key, kept)
            moved.set_result(None)
        return True

    def _resting(self) -> list[tuple[K, _Kept[T]]]:
        """Return the entries that are not in use. Call it under the lock."""
        return [(key, kept) for key, kept in self._kept.items() if not kept.users and kept.thing is not None]

    def _idle(self) -> list[tuple[K, _Kept[T]]]:
        with self._lock:
            if self._idle_ms is None:
                return []
            since = self._clock() - self._idle_ms
            return [(key, kept) for key, kept in self._resting() if kept.used_at <= since]

    def _watch(self) -> None:
        """Make sure that a timer checks for idle entries. Call it under the lock."""
        if not self._idle_ms or self._is_watched or self._closed:
            return
        if resting := self._resting():
            self._is_watched = True
            # One timer for all, set for the entry that has been idle the longest.
            left = min(kept.used_at for _, kept in resting) + self._idle_ms - self._clock()
            self._timers.soon(self._look, max(int(left), 1))

    def _look(self) -> None:
        """Handle the timer: one session that cannot be closed must not stop it."""
        for key, kept in self._idle():
            if self._executor is None:
                self._give_back_quietly(key, kept)
            else:
                kept.used_at = self._clock()  # or the next check would find it once more
                self._executor.submit(self._give_back_quietly, key, kept)
        with self._lock:
            self._is_watched = False
            self._watch()

    def _give_back_quietly(self, key: K, kept: _Kept[T]) -> None:
        # What could not be saved was reported to its writer, or will be to the next user.
        with contextlib.suppress(HoldfastError):
            self._give_back(key, kept)


def _settle(kept: _Kept[Any]) -> None:
    """Wait until no thread is opening or closing it."""
    while (moving := kept.moving) is not None:
        moving.result()


def _moving() -> Future[None]:
    moving: Future[None] = Future()
    moving.set_running_or_notify_cancel()  # cancelling the wait for it must not cancel it
    return moving
