"""One use of a tool: intent before, outcome after."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, Self

from holdfast.errors import HoldfastError, InvalidData, TooLarge, UsageError
from holdfast.model import Event
from holdfast.session._lifetime import in_event_loop, message_of, was_cancelled

if TYPE_CHECKING:
    from holdfast.session.session import Session


class ResultLog(Protocol):
    """The place where the result of a call is recorded: a session, or one run of an agent in it."""

    def tool_result(self, call: Event | str, result: Any = None, *, is_error: bool = False) -> Event: ...


class RecordedCall:
    """A call that is on record; ``end`` records its outcome."""

    result: Any = None

    def __init__(self, log: ResultLog, event: Event | None = None) -> None:
        self._log = log
        self.event = event
        self.result_event: Event | None = None

    @property
    def id(self) -> str:
        """The id of the call; it exists once the block has begun."""
        call_id = self.event.id if self.event else None
        if call_id is None:
            raise UsageError("the call has no id before its block begins")
        return call_id

    def end(self, error: BaseException | None = None) -> None:
        """Record the result, or the error that ended the call. Raises DataError for a result that cannot be stored."""
        if error is not None:
            cancelled = was_cancelled(error)
            # It was at work, and may have done what it was for: a thread even goes on.
            told = "cancelled: whether it took effect is unknown" if cancelled else message_of(error)
            self._record({"error": True, "message": told, "cancelled": cancelled}, is_error=True)
            return
        try:
            self._record(self.result, is_error=False)
        except (InvalidData, TooLarge) as refusal:
            # The tool has run: a result that cannot be stored must not hide that.
            self._record({"error": True, "message": f"result not stored: {refusal}"}, is_error=True)
            raise

    def _record(self, result: Any, *, is_error: bool) -> None:
        assert self.event is not None
        self.result_event = self._log.tool_result(self.event, result, is_error=is_error)


class ToolRun(RecordedCall):
    """The value of ``with s.tool(…) as call``: set ``call.result`` inside the block.

    An exception is recorded as the result and goes on to the caller; so does a cancellation.
    """

    def __init__(self, session: Session, tool: str, params: Any, **known: Any) -> None:
        super().__init__(session)
        self._session = session
        self._intent = (tool, params)
        self._options = known

    def __enter__(self) -> Self:
        with self._begun():
            self._session.barrier()
        return self

    async def __aenter__(self) -> Self:
        with self._begun():
            await self._session.abarrier()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.end(error)

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.end(error)

    @contextlib.contextmanager
    def _begun(self) -> Iterator[None]:
        """Record the intent; if a step before the block fails, the block will not run, and the log records that."""
        tool, params = self._intent
        self.event = self._session.tool_call(tool, params, **self._options)
        try:
            yield
        except BaseException as error:
            with contextlib.suppress(HoldfastError):  # if that cannot be recorded, the call stays open
                self.end(error)
            raise


# Turns, each from a user's input to the agent's final answer, run one at a time.
class _Ticket:
    """A turn that waits or is going on."""

    __slots__ = ("agent", "held", "place", "thread", "wake")

    def __init__(self, turns: Turns, run: str | None, *, agent: bool = False) -> None:
        self.place = (turns, run)
        self.agent = agent
        self.thread = threading.get_ident()
        self.held = False
        self.wake: Callable[[], object] = bool


_within: ContextVar[tuple[_Ticket, ...]] = ContextVar("holdfast_turns", default=())


class Turns:
    """The turns of one session: in each run one at a time, in the order of the requests.

    Any thread and any event loop may enter. Code inside a turn, including the tasks that it
    started, may begin another one: that is a part of it and does not wait.
    """

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._lines: dict[str | None, deque[_Ticket]] = {}
        self._guard = threading.Lock()

    def enter(self, ticket: _Ticket) -> None:
        """Begin a turn once those before it have ended. Whatever it raises, call ``leave``.

        Raises UsageError where this thread would wait for itself: in an event loop, whose other
        tasks could not go on meanwhile.
        """
        gate = threading.Lock()
        gate.acquire()  # released by the holder of the turn before
        ticket.wake = gate.release
        if not self._takes(ticket):
            self._check_can_wait(ticket)
            gate.acquire()
        _within.set((*_within.get(), ticket))

    async def aenter(self, ticket: _Ticket) -> None:
        """Begin a turn once those before it have ended, without blocking the event loop."""
        import asyncio

        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()

        def begin() -> None:
            if not turn.done():
                turn.set_result(None)

        # The turn may be left on another thread, and a future belongs to its loop.
        ticket.wake = lambda: loop.call_soon_threadsafe(begin)
        if not self._takes(ticket):
            await turn
        _within.set((*_within.get(), ticket))

    def leave(self, ticket: _Ticket) -> None:
        """End a turn, or stop waiting for one; the next begins. Does nothing the second time."""
        # Not reset by a token: an end may run in another context than the beginning.
        _within.set(tuple(other for other in _within.get() if other is not ticket))
        run = ticket.place[1]
        with self._guard:
            was_held, ticket.held = ticket.held, False
            line = self._lines.get(run, deque())
            if ticket in line:
                line.remove(ticket)
                # Only a ticket that had the turn passes it on.
                while was_held and line and not line[0].held:
                    line[0].held = True
                    try:
                        line[0].wake()
                    except RuntimeError:  # its event loop is closed: there is no waiter left
                        line.popleft()
            if not line:
                self._lines.pop(run, None)

    @asynccontextmanager
    async def of_agent(self) -> AsyncIterator[None]:
        """Hold the turn of the conversation for an agent.

        Raises UsageError if the caller is inside an agent's turn of this session: its message
        would come into the middle of that turn.
        """
        ticket = _Ticket(self, None, agent=True)
        if any(other.agent for other in _around(ticket)):
            raise UsageError(
                "a turn of this session is going on, and this call is part of it",
                remedy="Let the tool return, or give the other agent a session of its own.",
                session_id=self._session_id,
            )
        try:
            await self.aenter(ticket)
            yield
        finally:
            self.leave(ticket)

    def _takes(self, ticket: _Ticket) -> bool:
        """Return whether the turn can begin at once, as a part of another or because it is free."""
        if any(_around(ticket)):
            ticket.held = True
            return True
        with self._guard:
            line = self._lines.setdefault(ticket.place[1], deque())
            ticket.held = not line
            line.append(ticket)
            return ticket.held

    def _check_can_wait(self, ticket: _Ticket) -> None:
        """Raise UsageError if the holder of the turn could not end it while this thread waits."""
        with self._guard:
            line = self._lines.get(ticket.place[1], deque())
            blocked = any(other is not ticket and other.thread == ticket.thread for other in line)
        if not blocked and not in_event_loop():
            return
        raise UsageError(
            "another turn of this session is going on, and waiting for it would stop this thread,"
            " in which it may have to end",
            remedy="Write `async with s.turn():` in code that runs in an event loop.",
            session_id=self._session_id,
        )


def _around(ticket: _Ticket) -> Iterator[_Ticket]:
    """Yield the turns of the same session and run that the caller is inside of."""
    return (other for other in _within.get() if other.held and other.place == ticket.place)


class Turn:
    """Marks a turn, begun when the one before has ended; its end is on disk before the caller goes on."""

    def __init__(self, session: Session, *, run: str | None) -> None:
        self._session = session
        self._run = run
        self._ticket = _Ticket(session.turns, run)
        self.number = -1
        """The seq at which the turn began."""

    def __enter__(self) -> Self:
        ticket = self._ticket = _Ticket(self._session.turns, self._run)
        try:
            self._session.turns.enter(ticket)
            self.number = self._session.append("turn_start", {}, run=self._run).seq
        except BaseException:
            self._session.turns.leave(ticket)
            raise
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            self._end(error)
            self._session.barrier()
        finally:
            self._session.turns.leave(self._ticket)

    async def __aenter__(self) -> Self:
        ticket = self._ticket = _Ticket(self._session.turns, self._run)
        try:
            await self._session.turns.aenter(ticket)
            self.number = self._session.append("turn_start", {}, run=self._run).seq
        except BaseException:
            self._session.turns.leave(ticket)
            raise
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            self._end(error)
            await self._session.abarrier()
        finally:
            self._session.turns.leave(self._ticket)

    def _end(self, error: BaseException | None) -> None:
        reason = "completed"
        if error is not None:
            reason = "cancelled" if was_cancelled(error) else "failed"
        self._session.append("turn_end", {"turn": self.number, "reason": reason}, run=self._run)
