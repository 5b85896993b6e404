"""Being watched: those who want to know what sessions do, and how long it takes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from holdfast.library._base import Ground
from holdfast.session import Opening, Options, Session

if TYPE_CHECKING:
    from holdfast.session import Observer, Observers

OpeningT = TypeVar("OpeningT", Opening, Opening | None)
Open = Callable[[str, Options], tuple[Session, OpeningT]]
_changing = threading.Lock()


class Observing(Ground):
    """Lets observers in. While there are none, sessions have nothing to do with them."""

    _observers: Observers | None = None
    _is_heard = False

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Let ``observer`` know what the sessions that are opened from now on do, and how long.

        So it is with the sessions of spaces that are opened from now on. Returns a function that
        ends it. An observer that fails disturbs nobody; see ``holdfast.observe.Metrics`` for one.
        """
        from holdfast.session import Observers

        with _changing:
            if self._observers is None:
                self._observers = Observers()
        self._hear()
        return self._observers.add(observer)

    def _watched(self, find: Open[OpeningT], id: str, options: Options) -> tuple[Session, OpeningT]:
        """What ``find`` gives; how long it took is told to observers, if there are any."""
        if self._observers is None:
            return find(id, options)
        self._hear()
        with self._observers.watch("load", id) as watch:
            session, opening = find(id, options)
            watch.restored, watch.idle = session.restored, opening is None
        return session, opening

    def _session_of(self, opening: Opening) -> Session:
        if self._observers is None:
            return Session(self._store, opening, hub=self._hub, timers=self._timers)
        from holdfast.session import ObservedSession

        return ObservedSession(
            self._store, opening, hub=self._hub, timers=self._timers, observers=self._observers
        )

    def _hear(self) -> None:
        """From now on, and once: whoever heard it twice would count everything twice."""
        with _changing:
            if self._observers is not None and not self._is_heard:
                self._hub.subscribe(self._observers.tell)
                self._is_heard = True
