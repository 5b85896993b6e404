"""Being watched: those who want to know what sessions do, and how long it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.library._ground import Ground
from holdfast.session import Opening, Options, Session

if TYPE_CHECKING:
    from holdfast.session import Observer, Observers

__all__ = ["Observing"]


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

        if self._observers is None:
            self._observers = Observers()
        self._hear()
        return self._observers.add(observer)

    def _opened_live(self, id: str, options: Options) -> tuple[Session, Opening]:
        """A session that is open for writing, with what its opening found."""
        if self._observers is None:
            return self._open_live(id, options)
        self._hear()
        with self._observers.watch("load", id) as watch:
            session, opening = self._open_live(id, options)
            watch.restored = session.restored
        return session, opening

    def _opened_to_read(self, id: str, options: Options) -> Session:
        """A session that is only read."""
        if self._observers is None:
            return Session(self._store, Opening(self._store, id, options))
        with self._observers.watch("load", id) as watch:
            session = Session(self._store, Opening(self._store, id, options))
            watch.restored = session.restored
        return session

    def _open_live(self, id: str, options: Options) -> tuple[Session, Opening]:
        opening = Opening(self._store, id, options)
        try:
            return self._session_of(opening), opening
        except BaseException:
            opening.release()
            raise

    def _session_of(self, opening: Opening) -> Session:
        if self._observers is None:
            return Session(self._store, opening, hub=self._hub, timers=self._timers)
        from holdfast.session import ObservedSession

        return ObservedSession(
            self._store, opening, hub=self._hub, timers=self._timers, observers=self._observers
        )

    def _hear(self) -> None:
        if self._observers is not None and not self._is_heard:
            self._is_heard = True
            self._hub.subscribe(self._observers.tell)
