"""Session: one conversation that is open for writing and reading.

Each method is a signature, its contract and one call. The log and the state folded from it are in
``_journal``; the other modules work with that.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from holdfast.errors import UsageError
from holdfast.model import Event, Notice
from holdfast.session import _conversation
from holdfast.session._journal import Journal
from holdfast.session._keeper import Timers
from holdfast.session._opening import Opening, check_title
from holdfast.session._parts import Memory, Todos, Variables
from holdfast.session._subscribers import Hub, Repairs
from holdfast.session._turn import ToolRun, Turn, Turns
from holdfast.session.reader import blob_loader, whole_event
from holdfast.storage import Store

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.replay import Incomplete, Provider, State
    from holdfast.session._observers import Observers
    from holdfast.session._work import Retry, Work
    from holdfast.session.steps import Steps, Unknown

T = TypeVar("T")
_MS = 1000.0

entered: ContextVar[tuple[Session, Any] | None] = ContextVar("holdfast_session", default=None)
"""The sessions of the surrounding ``with`` blocks: the innermost, and the rest."""


def open_block() -> tuple[Session, Any] | None:
    """Return the innermost block whose session is open; an interrupt may have left closed ones above it."""
    block = entered.get()
    while block is not None and block[0].closed:
        block = block[1]
    return block


class Part(Generic[T]):
    """A part of a session, made at first use, once however many threads ask."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __get__(self, session: Session | None, _owner: Any = None) -> T:
        if session is None:
            return self  # type: ignore[return-value]  # for whoever looks at the class
        # One atomic step: a second memory would lose what is set in the first.
        made: T = vars(session).setdefault(self._make.__name__, self._make(session))
        return made


class Session:
    """One conversation with its state, from ``Holdfast.session``: a context manager, for any thread."""

    def __init__(
        self,
        store: Store,
        opening: Opening,
        *,
        hub: Hub | None = None,
        timers: Timers | None = None,
        observers: Observers | None = None,
    ) -> None:
        make = Journal if observers is None else observers.journal
        self.id = opening.session_id
        self.limits = opening.options.limits
        self._journal = make(self, store, opening, hub, timers)
        _sessions.add(self)

    @Part
    def turns(self) -> Turns:
        """The turns of the session: the current one, and those that wait."""
        return Turns(self.id)

    @Part
    def variables(self) -> Variables:
        """The session's variables."""
        journal = self._journal
        return Variables(self, blob_loader(journal.opening.documents), journal.outbox.notify)

    @Part
    def memory(self) -> Memory:
        """The session's memory, and its agent's."""
        journal = self._journal
        kept = journal.remember(self.tell_repaired)
        return Memory(self, kept, blob_loader(journal.opening.documents))

    @Part
    def todos(self) -> Todos:
        """The session's todo list."""
        return Todos(self)

    @Part
    def steps(self) -> Steps:
        """The session's durable steps."""
        from holdfast.session.steps import Steps

        return Steps(self, self._journal)

    # -- recording ---------------------------------------------------------------------------

    def append(
        self, event: Event | str, data: dict[str, Any] | None = None, *, run: str | None = None, key: str | None = None
    ) -> Event:
        """Record one event: an Event, or a type and its data.

        Returns the event with its seq once it is in the operating system (files). With a ``key``
        that was used before, nothing is written and the first event is returned.
        """
        return self._journal.append(event, data, run, key)

    def extend(self, events: Iterable[Event | tuple[str, dict[str, Any]]]) -> list[Event]:
        """Record several events with one write; a reader sees all of them or none."""
        return self._journal.extend(events)

    def record(self, message: Any, *, run: str | None = None) -> list[Event]:
        """Record a message in the form of a provider's library; return its events.

        Takes messages and whole answers of OpenAI (chat completions, Responses), Anthropic, Gemini and Mistral,
        objects or plain data, or a list of messages. ``messages`` gives that provider the same message back. All of
        it is recorded, or nothing: InvalidData names what is not understood.
        """
        return _conversation.record_message(self._journal, message, run)

    def user(self, content: Any, *, run: str | None = None, **extra: Any) -> Event:
        """Record the user's message: text or blocks. ``extra`` members are recorded with it."""
        return self._journal.record("user", {"role": "user", "content": content, **extra}, run)

    def assistant(self, content: Any, *, run: str | None = None, **extra: Any) -> Event:
        """Record the agent's message; ``usage``, ``model`` and ``agent`` are members worth giving.

        It replaces what ``delta`` streamed of it. With ``tool_calls`` and the like it is OpenAI's
        message, as ``record`` takes it.
        """
        return _conversation.assistant(self._journal, content, run, extra)

    def system(self, content: Any, *, run: str | None = None, **extra: Any) -> Event:
        """Record the system prompt, from here on."""
        return self._journal.record("system", {"role": "system", "content": content, **extra}, run)

    def thinking(self, content: str, *, signature: str | None = None, run: str | None = None, **extra: Any) -> Event:
        """Record the agent's thinking, with the provider's signature if there is one."""
        signed = {} if signature is None else {"signature": signature}
        return self._journal.record("thinking", {"content": content, **extra, **signed}, run)

    def delta(self, content: str, *, run: str | None = None, **extra: Any) -> Event:
        """Record a piece of an answer as it was streamed to the user."""
        return self._journal.record("delta", {"content": content, **extra}, run)

    def tool_call(
        self, tool: str, params: Any = None, *, id: str | None = None, run: str | None = None, **extra: Any
    ) -> Event:
        """Record the agent's intent to use a tool. The returned event's ``id`` names the call.

        With the ``id`` of a call in an assistant message it is that call. Without one it is the
        call that the last assistant message asks for with this tool and these arguments, if there
        is exactly one without a result; else a new one.
        """
        return _conversation.tool_call(self._journal, tool, params, id=id, run=run, extra=extra)

    def tool_result(
        self, call: Event | str, result: Any = None, *, is_error: bool = False, run: str | None = None, **extra: Any
    ) -> Event:
        """Record the result of a tool; ``call`` is the event of its call, or the call's id."""
        extra |= {"is_error": True} if is_error else {}
        return _conversation.tool_result(self._journal, call, result, run=run, extra=extra)

    def tool(
        self, tool: str, params: Any = None, *, id: str | None = None, run: str | None = None, **extra: Any
    ) -> ToolRun:
        """Use a tool inside a ``with`` (or ``async with``) block.

        The intent is on disk before the block runs; the value of ``call.result``, or the error or
        cancellation that ends the block, is recorded after it. The call is found by ``id``, or in the
        last assistant message, as for :meth:`tool_call`.
        """
        return ToolRun(self, tool, params, id=id, run=run, **extra)

    def turn(self, *, run: str | None = None) -> Turn:
        """Return a ``with`` (or ``async with``) block around one turn, flushed at its end.

        Turns of one run are kept apart: while one is going on in this process, in any thread or task,
        another waits until it has ended. A turn inside a turn is a part of it.
        """
        return Turn(self, run=run)

    def add_turn(self, role: str, content: Any = None, **message: Any) -> Event:
        """Record a turn by its role, or a provider's message by its members, as ``record``; return its last event."""
        return _conversation.add_turn(self._journal, role, content, message)

    def usage(self, **figures: Any) -> Event:
        """Record tokens and cost that belong to no single message."""
        return self._journal.record("usage", figures)

    def tag(self, *tags: str) -> None:
        """Add tags; one that is there already changes nothing."""
        _conversation.change_tags(self._journal, "tag", tags)

    def untag(self, *tags: str) -> None:
        """Remove tags."""
        _conversation.change_tags(self._journal, "untag", tags)

    def link(self, kind: str, id: str) -> Event:
        """Record the id under which another system knows this session."""
        return self._journal.record("link", {"kind": kind, "id": id})

    def held_back(self, run: str | None = None) -> dict[str, int]:
        """Return how many characters of streamed text are not recorded yet, by kind ("text", "thinking").

        With redaction, the last word of a stream waits if a secret may begin with it: for the next
        ``delta``, the message, or the end of the turn.
        """
        redacting = self._journal.redacting
        return {} if redacting is None else redacting.held_back(run)

    def record_held(self, run: str | None = None) -> None:
        """Record the held-back text of streams as it is; of a secret begun there only the rest can be replaced."""
        self._journal.record_held(run)

    # -- durable steps -----------------------------------------------------------------------

    def once(
        self, key: str, fn: Work, /, *args: Any, unknown: Unknown = "raise", retry: Retry | None = None, **kwargs: Any
    ) -> Any:
        """Call ``fn`` once for ``key``, whatever happens, and return its result.

        The intent is on the medium before ``fn`` runs. A known result is returned and ``fn`` does not run, in any
        process. A step that began and did not end raises OutcomeUnknown, unless ``unknown`` is "rerun", or a function
        that is given that error and returns the result it looked up (or ``holdfast.RERUN``). A failure is raised
        again as StepFailed, or tried again as ``retry`` says. The value is returned as it was stored: as JSON,
        converted to the annotated return type of ``fn``. The same key with other arguments is a UsageError.
        """
        return self.steps.run(self.steps.check(key, fn, args, kwargs, unknown=unknown, retry=retry))

    async def aonce(
        self, key: str, fn: Work, /, *args: Any, unknown: Unknown = "raise", retry: Retry | None = None, **kwargs: Any
    ) -> Any:
        """Do what ``once`` does without blocking the event loop; an ``fn`` that is not async runs in a thread."""
        return await self.steps.arun(self.steps.check(key, fn, args, kwargs, unknown=unknown, retry=retry))

    def step(
        self,
        fn: Work | None = None,
        *,
        key: str | Callable[..., str] | None = None,
        name: str | None = None,
        unknown: Unknown = "raise",
        retry: Retry | None = None,
    ) -> Any:
        """Make a function a durable step of this session, identified by its name and arguments.

        Called again, in any process, it returns its first result. ``key``, a text or a function of the arguments,
        makes it another step. Inside a step the n-th call with the same arguments is a step of its own.
        """
        return self.steps.decorate(fn, key=key, name=name, unknown=unknown, retry=retry)

    # -- waiting -----------------------------------------------------------------------------

    def sleep_until(self, when: datetime) -> None:
        """Wait until a time, durably: the session is ``suspended`` meanwhile, whatever becomes of this process.

        A restarted program that comes here waits for the rest, or goes on at once. An agent's session
        whose program is gone is woken by ``Runtime.wake_due`` and ``holdfast serve``. Raises UsageError for a time
        without a zone.
        """
        from holdfast.session import asks

        asks.sleep_until(self, when)

    async def asleep_until(self, when: datetime) -> None:
        """Do what ``sleep_until`` does without blocking the event loop."""
        from holdfast.session import asks

        await asks.asleep_until(self, when)

    # -- reading: every answer is a copy or read-only ------------------------------------------

    @property
    def seq(self) -> int:
        """The seq of the newest event; -1 if there is none."""
        return self._journal.seq

    @property
    def restored(self) -> bool:
        """True if the session had events when it was opened."""
        return self._journal.restored

    @property
    def live_state(self) -> State:
        """The state itself, for readers that do not change it."""
        return self._journal.live_state

    @property
    def state(self) -> State:
        """The state after the newest event; a copy."""
        return self._journal.state()

    @property
    def key(self) -> str:
        """The session's key in the store."""
        return self._journal.opening.key

    @property
    def agent_id(self) -> str | None:
        """The agent that this session belongs to."""
        return self.live_state.agent_id or self._journal.options.agent_id

    @property
    def title(self) -> str | None:
        """The session's title: the given one, else the first words of the user."""
        return self.live_state.shown_title

    @title.setter
    def title(self, title: str | None) -> None:
        """Set the session's title."""
        check_title(title, self.limits)
        self._journal.record("title", {"title": title})

    @property
    def tags(self) -> list[str]:
        """The session's tags, in the order in which they were given."""
        return list(self.live_state.tags)

    @property
    def created_at(self) -> float:
        """The time of the session's beginning, in Unix seconds."""
        return (self.live_state.created_at or self._journal.opening.opened_at) / _MS

    @property
    def last_activity(self) -> float:
        """The time of the last recorded event, in Unix seconds."""
        return (self.live_state.updated_at or self._journal.opening.opened_at) / _MS

    @property
    def history(self) -> list[dict[str, Any]]:
        """Every user and assistant turn as ``{role, content, timestamp}``, timestamp in seconds."""
        return _conversation.history(self._journal)

    @property
    def current_prompt(self) -> str:
        """The user's message of the current turn; empty between turns."""
        return _conversation.current_prompt(self._journal)

    def events(self, start: int = 0) -> Iterator[Event]:
        """Return the recorded events from ``start`` on."""
        return self._journal.events(start)

    def newest(self, start: int = 0) -> Iterator[Event]:
        """Yield the recorded events down to ``start``, the newest first, read from the end."""
        return self._journal.newest(start)

    def messages(self, provider: Provider = "neutral", *, incomplete: Incomplete = "mark") -> list[dict[str, Any]]:
        """Return the conversation, always valid for the provider; the list is the caller's, its messages read-only."""
        return _conversation.messages(self._journal, provider, incomplete)

    def as_said(self, event: Event) -> Event:
        """Return the event with its original words, if this object saw them before redaction."""
        return whole_event(self._journal.as_it_was(event), self._journal.opening.documents)

    @property
    def redacts(self) -> bool:
        """True if secrets are replaced in the events that this session records."""
        return self._journal.redacting is not None

    def redacted(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return data to be kept beside the log, redacted as this session would record it."""
        redacting = self._journal.redacting
        return data if redacting is None else redacting.value(data)

    @property
    def store(self) -> Store:
        """The store object that this session writes to."""
        return self._journal.store

    # -- onto the medium ---------------------------------------------------------------------

    @property
    def is_memory_dirty(self) -> bool:
        """True if memory entries of the agent are waiting for the next flush."""
        return self._journal.is_memory_dirty

    def flush(self) -> None:
        """Return once everything recorded so far is on the medium."""
        self._journal.flush()

    async def aflush(self) -> None:
        """Flush on the store's own thread: the event loop is never blocked."""
        await self._journal.aflush()

    def barrier(self) -> None:
        """Flush, unless the session was opened with ``durability="os"`` or is staged."""
        self._journal.barrier()

    async def abarrier(self) -> None:
        """Do what ``barrier`` does without blocking the event loop."""
        await self._journal.abarrier()

    def snapshot(self) -> int:
        """Save the folded state; return the seq that it covers.

        A failure is raised, and published as ``snapshot_failed``.
        """
        return self._journal.snapshot()

    # -- life --------------------------------------------------------------------------------

    def close(self, *, save: bool = True) -> None:
        """Record the end, flush, and release the session. Does nothing the second time.

        With ``save=False`` staged events are dropped. An object opened several times is closed by as many calls.
        """
        self._journal.close(save=save)

    async def aclose(self, *, save: bool = True) -> None:
        """Close it without blocking the event loop; a cancellation waits until it is done."""
        await self._journal.aclose(save=save)

    def close_for_all(self) -> None:
        """Close it for all its users, also if an earlier closing was interrupted."""
        self._journal.close_for_all()

    def retain(self, mark: object) -> bool:
        """Count one more user; return False if it has been closed. One that is just being closed stays open instead."""
        return self._journal.retain(mark)

    def forgo(self, mark: object) -> None:
        """Close it for a user that was counted under this mark, and was interrupted before it had the object."""
        self._journal.forgo(mark)

    def __enter__(self) -> Self:
        entered.set((self, open_block()))
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._leave_block()
        finally:
            self.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        try:
            self._leave_block()
        finally:
            await self.aclose()

    def _leave_block(self) -> None:
        block = entered.get()
        if block is not None and block[0] is self:
            entered.set(block[1])

    def __repr__(self) -> str:
        return f"<Session {self.id} seq={self.seq}{' closed' if self.closed else ''}>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise UsageError(
            "a live session cannot be pickled", remedy="Pass its id, and open it again where it is needed."
        )

    @property
    def closed(self) -> bool:
        """True once this object can no longer be used."""
        return self._journal.closed

    @property
    def orphaned(self) -> bool:
        """True if this object came into this process by a fork of the process."""
        return self._journal.orphaned

    def log_recovery(self) -> None:
        """Log a warning about what a recovery of this session changed."""
        _conversation.log_recovery(self.store, self.id, self._journal.issues())

    def tell_repaired(self, what: str, **detail: Any) -> None:
        """Notify subscribers and the program's log, once, of damage that was repaired."""
        self._repairs.tell(what, detail)

    @property
    def repairs(self) -> list[Notice]:
        """The damage that was found and repaired while this object was in use."""
        return self._repairs.notices

    def untold_repairs(self) -> list[Notice]:
        """Return the repairs since the last call, to report to a caller."""
        return self._repairs.untold()

    @Part
    def _repairs(self) -> Repairs:
        return Repairs(self.id, self._journal.outbox)


_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def _free_locks() -> None:
    """Replace the locks in a forked child, where their holders do not exist."""
    for session in list(_sessions):
        journal = session._journal  # noqa: SLF001 - its own class
        journal.lock, journal.straight = threading.RLock(), False
        vars(session).pop("turns", None)


os.register_at_fork(after_in_child=_free_locks)
