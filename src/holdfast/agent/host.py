"""The host of turns: sessions kept open while they are used, and what agents do on them.

The contract, which every app that lets agents work keeps by running on :class:`Host`:

- **Kept.** A session is opened with its first use and is the same object for everybody who uses it
  meanwhile. It is given back ``idle_ms`` after its last use, never while somebody uses it; the next
  use opens it again. One that another process has is waited for as long as the patience lasts. One
  that was fenced off is closed, and opened anew by the next use.
- **One turn at a time.** While a turn of a session goes on, the next is refused. A turn goes on
  whether or not anybody listens. It is over when its end is told: whoever hears it may begin the
  next one at once.
- **Listeners** hear everything that is told from the moment at which they began to listen, up to
  the end; whoever comes after the end hears nothing and waits for nothing.
- **Questions** wait under an id until they are answered, time is up, or the turn ends. An answer
  counts once.
- **Steer** lets the agent of a turn hear a word before its next step; with ``interrupt`` the step
  under way is stopped for it. The turn goes on. A word that the agent can no longer hear is refused.
- **Cancel** stops a turn, and waits until that is on record. The turn's end says "cancelled".
- **Put off** is for the end of the server, when nobody took back what they asked for: no turn
  begins any more, and those that go on are stopped, each with a line in its session that says that
  it was interrupted, so that it is gone on with elsewhere. The turn's end says "interrupted".
- **Close** gives all sessions back, whoever uses them. A failure of one does not keep the others.

Keeping sessions is safe from any thread; turns belong to one event loop. Nothing here loads a model or its engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator
from concurrent.futures import Executor, Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from holdfast.agent._options import Scope
from holdfast.errors import Fenced, HoldfastError, Locked, UsageError
from holdfast.library.answers.turns import ToolQuestion
from holdfast.session import Patience, Session, Timers, in_thread, uncancelled

if TYPE_CHECKING:
    from holdfast.agent._permissions import Decision, PermissionRequest
    from holdfast.agent._result import RunResult, RunStream

IDLE_MS = 30 * 60 * 1000
_PUT_OFF = "the server was stopped in mid-turn"

Run = Callable[..., Awaitable[Any]]
"""Calls a function on another thread: ``await run(function, *arguments)``."""
Message = tuple[str, Any]
"""What a turn tells: a name, and what belongs to it."""


class Openable(Protocol):
    """What can be kept: a session, or an agent that has one of its own."""

    @property
    def closed(self) -> bool:
        """Whether it can no longer be used."""

    def close(self) -> None:
        """Give it back."""


K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=Openable)


@dataclass(frozen=True)
class Question:
    """A tool that waits for someone to allow it."""

    id: str
    request: PermissionRequest
    answer: asyncio.Future[tuple[bool, Scope]]

    def shown(self) -> ToolQuestion:
        """The question as it goes over a wire."""
        from holdfast.agent._context import plain_result

        return ToolQuestion(
            session_id=self.request.session_id,
            tool_id=self.id,
            tool_name=self.request.tool,
            description=self.request.description,
            params=plain_result(self.request.args),
        )


class HostedTurn:
    """One turn: who listens to it, what it asks, and how it ended.

    It tells ``piece`` with a text, ``question`` with a :class:`Question`, whatever its work tells, and at its end one
    of ``done`` with the work's result, ``failed`` with the error, ``cancelled`` and ``interrupted``.
    """

    def __init__(self, key: Any, run: Run = asyncio.to_thread) -> None:
        self.key = key
        self.ended: str | None = None
        """How it ended; None while it goes on."""
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_put_off = False
        self.news = asyncio.Event()
        """Set when something that the turn waits for may have come."""
        self.questions: dict[str, Question] = {}
        """What waits for someone, in the order in which it was asked."""
        self._queues: list[asyncio.Queue[Message | None]] = []
        self._task: asyncio.Future[Any] | None = None
        self._over = asyncio.Event()
        self._stream: RunStream | None = None
        self._has_agent = asyncio.Event()
        self._words: set[asyncio.Future[None]] = set()
        self._in_order = asyncio.Lock()
        self._run = run

    def start(self, work: Awaitable[Any], over: Callable[[], Any]) -> None:
        """Let the work begin; ``over`` is called right before its end is told, since whoever hears may begin anew."""

        def end(task: asyncio.Future[Any]) -> None:
            over()
            self._end(task)

        self._task = asyncio.ensure_future(work)
        self._task.add_done_callback(end)

    def tell(self, name: str, value: Any = None) -> None:
        """Tell everyone who listens."""
        for queue in self._queues:
            queue.put_nowait((name, value))

    def listen(self) -> AsyncIterator[Message]:
        """What is told from now on, until the end."""
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

    async def ask(self, request: PermissionRequest, *, id: str | None = None, wait_s: float | None = None) -> Decision:
        """Ask whether a tool may run; no when ``wait_s`` is over. ``id`` is else its call's."""
        from holdfast.agent._permissions import Decision

        answer: asyncio.Future[tuple[bool, Scope]] = asyncio.get_running_loop().create_future()
        question = Question(id or request.call_id, request, answer)
        self.questions[question.id] = question
        self.tell("question", question)
        try:
            async with asyncio.timeout(wait_s):
                allow, scope = await answer
        except TimeoutError:
            return Decision(allow=False, reason="nobody answered in time")
        finally:
            if self.questions.get(question.id) is question:
                del self.questions[question.id]
        return Decision(True, scope=scope) if allow else Decision(False, reason="the user did not approve it")

    def answer(self, id: str, *, approved: bool, scope: Scope = "once") -> bool:
        """Let a tool run, or not; whether it was waiting for that."""
        question = self.questions.pop(id, None)
        if question is None or question.answer.done():
            return False
        question.answer.set_result((approved, scope))
        return True

    def deny_all(self) -> None:
        """Nobody can answer any more: what waits may not run."""
        for id in list(self.questions):
            self.answer(id, approved=False)

    async def steer(self, text: str, *, interrupt: bool = False) -> None:
        """Say something to the agent while it works, as ``Agent.steer`` does; it is recorded then.

        Waits for an agent that is still being made. Raises UsageError if the turn ends before it can hear.
        """
        saying = asyncio.ensure_future(self._say(text, interrupt=interrupt))
        self._words.add(saying)
        saying.add_done_callback(self._words.discard)
        # Shielded: what was said counts also if whoever said it is gone before the agent is there.
        await asyncio.shield(saying)

    async def _say(self, text: str, *, interrupt: bool) -> None:
        async with self._in_order:
            await self._has_agent.wait()
            stream = self._stream
            if self.ended is not None or stream is None:
                raise UsageError("no agent is at work here that could hear this", remedy="Begin a turn with it.")
            await stream.begun()
            await self._run(partial(stream.steer, text, interrupt=interrupt))

    def cancel(self) -> None:
        """Stop it. Harmless when it has ended."""
        if self._task is not None and self.ended is None:
            self._task.cancel()

    async def stop(self) -> None:
        """Stop it, and wait until that is on record."""
        self.cancel()
        await self._over.wait()

    async def wait(self) -> None:
        """Wait for the end, whatever it is; the turn goes on if this is given up."""
        await self._over.wait()

    async def finish(self) -> Any:
        """Wait for the result. Raises what the turn failed with, or CancelledError; to cancel the wait cancels it."""
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

    async def stream(self, stream: RunStream, session: Session | None = None, *, durable: bool = False) -> RunResult:
        """The usual work of a turn: tell an agent's answer piece by piece; how the run ended.

        Of a session that is given, everything is on the medium at the end; with ``durable`` each
        piece is before it is told, so that what a listener has seen survives this process.
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
                # To be gone on with: said on record, now that the turn's end is; else the next writer says it.
                with contextlib.suppress(HoldfastError):
                    session.append("interrupted", {"reason": _PUT_OFF})
                    await uncancelled(session.aflush())
            raise
        return pieces.result

    def _end(self, task: asyncio.Future[Any]) -> None:
        """The task is over, or was stopped before it began."""
        if task.cancelled():
            self.ended = "interrupted" if self.is_put_off else "cancelled"
        elif (error := task.exception()) is not None:
            self.ended, self.error = "failed", error
        else:
            self.ended, self.result = "done", task.result()
        # Cancelled and not denied: nobody has said no.
        for question in self.questions.values():
            question.answer.cancel()
        self.questions.clear()
        self.tell(self.ended, self.result if self.error is None else self.error)
        for queue in self._queues:
            queue.put_nowait(None)
        self._over.set()
        self._has_agent.set()


class _Kept(Generic[T]):
    """Something that is open, or about to be."""

    def __init__(self) -> None:
        self.thing: T | None = None
        self.users = 0
        self.used_at = 0.0
        self.moving: Future[None] | None = None
        """Set while somebody opens or closes it. No lock is held meanwhile, as that takes long."""

    @property
    def open(self) -> T | None:
        return None if self.thing is None or self.thing.closed else self.thing


class Host(Generic[K, T]):
    """Sessions by key, kept open while they are used, and at most one turn on each.

    ``idle_ms`` None keeps what is open until it is let go. ``run`` and ``executor`` say on which
    threads sessions are opened and closed.
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
        """Whether turns may begin here: not any more at the end."""

    def kept(self) -> dict[K, T]:
        """What is open, by key."""
        with self._lock:
            return {key: kept.open for key, kept in self._kept.items() if kept.open is not None}

    def get(self, key: K) -> T | None:
        """What is open under a key; None if nothing is."""
        with self._lock:
            kept = self._kept.get(key)
            return None if kept is None else kept.open

    def held(self) -> list[K]:
        """The keys of what is open, or being opened or closed."""
        with self._lock:
            return list(self._kept)

    def keep(self, key: K, thing: T) -> None:
        """Keep something that is open already, under a key that is free."""
        with self._lock:
            self._check_open()
            kept = self._kept.setdefault(key, _Kept())
            assert kept.open is None, f"{key!r} is kept already"
            kept.thing, kept.used_at = thing, self._clock()
            self._watch()

    @contextmanager
    def use(self, key: K, make: Callable[[], T], patience: Patience | None = None) -> Iterator[T]:
        """What is kept under a key, opened if need be. Raises what ``make`` does, Locked when patience is over."""
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
        """Give back what nobody here uses (``used``: whoever does), so that it can be moved or deleted. Blocking."""
        kept = self._kept.get(key)
        if kept is not None:
            _settle(kept)
            self._give_back(key, kept, used)

    def give_back_idle(self) -> list[K]:
        """Give back what was idle for too long; the keys. What is in use stays."""
        return [key for key, kept in self._idle() if self._give_back(key, kept)]

    def close(self) -> None:
        """Give everything back, whoever uses it. Harmless the second time."""
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
        """Give everything back where nobody is left to be told what could not be saved."""
        with contextlib.suppress(HoldfastError):
            self.close()

    def turn(self, key: K) -> HostedTurn | None:
        """The turn of a session that goes on here."""
        return self._turns.get(key)

    @property
    def turns(self) -> list[HostedTurn]:
        """All that go on."""
        return list(self._turns.values())

    def begin(self, key: K, work: Callable[[HostedTurn], Awaitable[Any]]) -> HostedTurn:
        """Begin a turn: ``await work(turn)``. Raises UsageError while one goes on, or when none begins any more."""
        if key in self._turns:
            raise UsageError("an answer is under way", remedy="Stop it first, or wait for it.")
        if not self.takes_turns:
            raise UsageError("no turn begins here any more", remedy="Begin it elsewhere.")
        # Noted before it starts: the work may ask at once whether a turn goes on.
        turn = self._turns[key] = HostedTurn(key, self._run)
        turn.start(work(turn), lambda: self._turns.pop(key))
        return turn

    async def cancel(self, key: K) -> bool:
        """Stop the turn of a session, and wait until that is on record; whether there was one."""
        turn = self._turns.get(key)
        if turn is not None:
            await turn.stop()
        return turn is not None

    async def steer(self, key: K, text: str, *, interrupt: bool = False) -> bool:
        """Say something to the agent that works on a session; whether there was one."""
        turn = self._turns.get(key)
        if turn is not None:
            await turn.steer(text, interrupt=interrupt)
        return turn is not None

    async def put_off(self) -> None:
        """Stop all turns, each to be gone on with elsewhere; none begins any more."""
        for turn in self.turns:
            turn.is_put_off = True
        await self._stop_turns()

    async def aclose(self) -> None:
        """Cancel what goes on, and give everything back; nobody is told what cannot be saved."""
        # Turns first: they write to what is closed then.
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
        """Under the lock: drop an entry that holds nothing."""
        # An entry that somebody waits for stays, or the next user would open a second one.
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
                # On a thread of its own: those that do the work are few.
                if patience is None or not await in_thread(patience.pause, name="holdfast-wait"):
                    raise

    def _attempt(self, kept: _Kept[T], make: Callable[[], T]) -> T | Future[None]:
        """Open it, unless it is open; or what to wait for, while somebody else is at it."""
        with self._lock:
            self._check_open()
            if kept.moving is not None:
                return kept.moving
            if kept.open is not None:
                return kept.open
            kept.moving = _moving()
        # Opening takes as long as the log is: without the lock, or all others would wait.
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
        """Close it; whether that was to be done. What is ``used`` only if so said."""
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
        """Under the lock: what nobody uses."""
        return [(key, kept) for key, kept in self._kept.items() if not kept.users and kept.thing is not None]

    def _idle(self) -> list[tuple[K, _Kept[T]]]:
        with self._lock:
            if self._idle_ms is None:
                return []
            since = self._clock() - self._idle_ms
            return [(key, kept) for key, kept in self._resting() if kept.used_at <= since]

    def _watch(self) -> None:
        """Under the lock: see to it that somebody looks after what is idle."""
        if not self._idle_ms or self._is_watched or self._closed:
            return
        if resting := self._resting():
            self._is_watched = True
            # One timer for all, set for what has rested longest.
            left = min(kept.used_at for _, kept in resting) + self._idle_ms - self._clock()
            self._timers.soon(self._look, max(int(left), 1))

    def _look(self) -> None:
        """The timer's call: one session that cannot be closed must not stop it."""
        for key, kept in self._idle():
            if self._executor is None:
                self._give_back_quietly(key, kept)
            else:
                kept.used_at = self._clock()  # or the next look would find it once more
                self._executor.submit(self._give_back_quietly, key, kept)
        with self._lock:
            self._is_watched = False
            self._watch()

    def _give_back_quietly(self, key: K, kept: _Kept[T]) -> None:
        # What could not be saved was told to whoever wrote it, or is to whoever uses it next.
        with contextlib.suppress(HoldfastError):
            self._give_back(key, kept)


def _settle(kept: _Kept[Any]) -> None:
    """Wait until nobody opens or closes it."""
    while (moving := kept.moving) is not None:
        moving.result()


def _moving() -> Future[None]:
    moving: Future[None] = Future()
    moving.set_running_or_notify_cancel()  # whoever waits for it and gives up does not cancel it
    return moving
