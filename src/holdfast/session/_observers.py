"""Observed sessions, whose operations are measured; a session without observers has none of this."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet

import msgspec

from holdfast.model import Event, Notice
from holdfast.session._journal import Journal

if TYPE_CHECKING:
    from concurrent.futures import Future

    from holdfast.session.session import Session


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """One completed operation, successful or not."""

    operation: str
    """``append``, ``flush``, ``sync`` (the medium's part in it), ``snapshot`` or ``load``."""
    session_id: str
    seconds: float
    events: int = 0
    """The number of events recorded."""
    size_bytes: int = 0
    """The growth of the log in bytes since the last operation that reported it."""
    restored: bool = False
    """True if the session that was opened had earlier events."""
    idle: bool = False
    """True if there was nothing to do."""
    error: BaseException | None = None


class Observer:
    """The base class of observers of sessions; a subclass overrides what it needs.

    ``session_id`` is the id of a session; of one in a space of the store it is ``space/id``, since others may have
    the same id. Called in the thread that does the work, and never under a session's lock except for ``begin`` and
    ``end`` of a sync. Must be quick and safe to call from any thread. What it raises is dropped.
    """

    def join(self, observers: Observers) -> None:
        """Handle the first operation of a store; called before it."""

    def begin(self, operation: str, session_id: str) -> Any:
        """Handle the beginning of an operation; the return value is passed to ``end``."""

    def end(self, begun: Any, done: Finished) -> None:
        """Handle the end of an operation."""

    def tell(self, session_id: str, item: Event | Notice) -> None:
        """Handle a recorded event, or another notice of a session."""


class Observers:
    """The observers of one store, and the sessions that they observe."""

    def __init__(self) -> None:
        self.all: tuple[Observer, ...] = ()
        self.live: WeakSet[Session] = WeakSet()
        self._changing = threading.Lock()

    def add(self, observer: Observer) -> Callable[[], None]:
        """Add an observer; return a function that removes it."""
        observer.join(self)
        with self._changing:
            self.all = (*self.all, observer)

        def end() -> None:
            with self._changing:
                self.all = tuple(known for known in self.all if known is not observer)

        return end

    def tell(self, session_id: str, item: Event | Notice) -> None:
        """Call all observers; the failure of one does not affect the others."""
        for observer in self.all:
            with contextlib.suppress(Exception):
                observer.tell(session_id, item)

    def watch(self, operation: str, session_id: str) -> Watch:
        """Return a block whose time is measured and reported."""
        return Watch(self.all, operation, session_id)

    def journal(self, session: Session, *rest: Any) -> Journal:
        """Return the journal of a session that is opened under observation."""
        self.live.add(session)
        return ObservedJournal(self, session, *rest)

    def within(self, space: str) -> Observers:
        """Return these observers for the sessions of a space."""
        return _Within(self, space)

    @property
    def active(self) -> int:
        """The number of opened sessions that are not closed."""
        return sum(not session.closed for session in list(self.live))


class _Within(Observers):
    """The observers of a store, for sessions of one space."""

    def __init__(self, outer: Observers, space: str) -> None:
        self._outer = outer
        self._space = space
        self.live = outer.live

    def add(self, observer: Observer) -> Callable[[], None]:
        return self._outer.add(observer)  # of the whole store, like the existing observers

    def tell(self, session_id: str, item: Event | Notice) -> None:
        self._outer.tell(f"{self._space}/{session_id}", item)

    def watch(self, operation: str, session_id: str) -> Watch:
        return self._outer.watch(operation, f"{self._space}/{session_id}")


class Watch:
    """One running operation."""

    __slots__ = ("_begun", "_started", "about", "operation", "session_id")

    def __init__(self, observers: Iterable[Observer], operation: str, session_id: str) -> None:
        self.operation = operation
        self.session_id = session_id
        self.about: dict[str, Any] = {}  # what else is reported, by the names of :class:`Finished`
        self._begun: list[tuple[Observer, Any]] = []
        for observer in observers:
            begun = None
            with contextlib.suppress(Exception):  # it must not disturb the session
                begun = observer.begin(operation, session_id)
            self._begun.append((observer, begun))
        self._started = perf_counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.end(error)

    def end(self, error: BaseException | None = None) -> None:
        seconds = perf_counter() - self._started
        done = Finished(
            operation=self.operation, session_id=self.session_id, seconds=seconds, error=error, **self.about
        )
        for observer, begun in self._begun:
            with contextlib.suppress(Exception):  # it must not disturb the session
                observer.end(begun, done)


class ObservedJournal(Journal):
    """A journal that reports how long everything takes."""

    def __init__(self, observers: Observers, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._observers = observers
        self._counting = threading.Lock()
        self._counted = self.writer.offset

    def record(self, *given: Any, **named: Any) -> Event:
        with self._observers.watch("append", self.id) as watch:
            recorded = super().record(*given, **named)
            watch.about = {"events": 1, "size_bytes": self._grown()}
        return recorded

    def extend(self, events: Iterable[Event | tuple[str, dict[str, Any]]]) -> list[Event]:
        with self._observers.watch("append", self.id) as watch:
            recorded = super().extend(events)
            watch.about = {"events": len(recorded), "size_bytes": self._grown()}
        return recorded

    def flush(self) -> None:
        with self._observers.watch("flush", self.id):
            super().flush()

    async def aflush(self) -> None:
        with self._observers.watch("flush", self.id):
            await super().aflush()

    def snapshot(self) -> int:
        before = self.keeper.snapshot_seq
        with self._observers.watch("snapshot", self.id) as watch:
            seq = super().snapshot()
            watch.about = {"idle": seq == before}
        return seq

    def sync(self) -> None:
        with self._observers.watch("sync", self.id):
            super().sync()

    def begin_sync(self) -> Future[None]:
        watch = self._observers.watch("sync", self.id)
        future = super().begin_sync()
        future.add_done_callback(lambda done: watch.end(done.exception()))
        return future

    def _grown(self) -> int:
        """Return how many bytes were recorded since the last call, by any thread."""
        with self._counting:
            offset = self.writer.offset
            grown, self._counted = offset - self._counted, offset
        return max(grown, 0)
