"""A background thread that keeps the index close to the logs, so that queries are cheap.

When there is nothing to read it audits the index, so that a wrong one is found.

It never blocks a session: it reads what is in the log already, a little at a time,
and sleeps longer than it works. What it cannot do is left to the next query.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING
from weakref import ref

import msgspec

from holdfast.storage import Store, Worker, forks

if TYPE_CHECKING:
    from holdfast.catalog._catalog import Catalog
    from holdfast.catalog._prices import Prices
    from holdfast.session import Session

_TICK_S = 2.0
# The thread pauses this many times as long as it has worked.
_REST = 9.0
_REST_MAX_S = 10.0
_DRAIN_S = 1.0
# So many sessions are written into the index together: one by one, the commits would take longest.
_TOGETHER = 64
# Beyond this number of sessions the rest is left to the next query.
_WATCHED_MAX = 10_000
# Seconds at a time for comparing the index with the logs, when there is nothing to feed.
_AUDIT_S = 0.05


class _Fed:
    """The seq up to which a session has been fed to the index."""

    __slots__ = ("seq", "session")

    def __init__(self, session: Session) -> None:
        self.session = ref(session)
        self.seq = -2  # nothing yet, not even a session without events


class Feeder(Worker):
    """Watches open sessions, and feeds the catalogue of their store with their new events.

    The thread runs only while there is something to watch, and keeps nothing alive but the store.
    ``chore`` is called on it from time to time, after the feeding.
    """

    def __init__(
        self,
        store: Store,
        *,
        tick_s: float = _TICK_S,
        chore: Callable[[], None] | None = None,
        auto_tags: bool = True,
        prices: Callable[[], Prices] | None = None,
    ) -> None:
        super().__init__("holdfast-catalogue")
        self._store = store
        self._auto_tags = auto_tags
        self._prices = prices
        self._chore = chore
        self._catalog: Catalog | None = None
        self._tick_s = tick_s
        self._watched: dict[str, _Fed] = {}

    @property
    def catalog(self) -> Catalog:
        """The catalogue, created when first asked for: most programs only record."""
        with self._lock:
            if self._catalog is None:
                from holdfast.catalog._catalog import Catalog

                self._catalog = Catalog(self._store, self._prices)
                self._catalog.auto_tags = self._auto_tags
            return self._catalog

    def watch(self, session: Session) -> None:
        """Feed the new events of this session from now on. Almost free for the caller."""
        if self._forks != forks.count:
            self._renew_after_fork()
        with self._lock:
            if self._closed:
                return
            if len(self._watched) < _WATCHED_MAX:
                self._watched[session.id] = _Fed(session)
            if self._thread is None:
                self._start()

    def close(self) -> None:
        """End the thread and close the catalogue, after feeding the rest if it is in use and that is quick."""
        super().close()  # first, so that no other thread feeds meanwhile
        if self._catalog is not None and self._catalog.is_open:
            self._feed_due(time.monotonic() + _DRAIN_S)
            self._catalog.close()

    def _forget(self) -> None:
        self._watched = {}

    def _run(self) -> None:
        pause = self._tick_s
        while True:
            with self._lock:
                if not self._closed:
                    self._condition.wait(pause)
                if self._closed or not self._watched:
                    self._thread = None
                    return
            started = time.monotonic()
            if not self._feed_due() and self._catalog is not None and not self._closed:
                self._catalog.audit_some(_AUDIT_S)
            if self._chore is not None and not self._closed:
                self._chore()
            pause = max(self._tick_s, min((time.monotonic() - started) * _REST, _REST_MAX_S))

    def _feed_due(self, until: float | None = None) -> bool:
        """Feed the new events; return whether there were any."""
        any_fed = False
        with self._lock:  # a garbage collection during the copy may let another thread add one
            watched = iter(list(self._watched.items()))
        while due := list(islice(filter(None, map(_due, watched)), _TOGETHER)):
            any_fed = True
            while due:
                if self._closed and (until is None or time.monotonic() > until):
                    return True
                found = self.catalog.feed(*(one.id for one in due))
                for one in due:
                    if found.get(one.id):
                        one.fed.seq = one.seq
                        if one.ended and self._watched.get(one.id) is one.fed:
                            del self._watched[one.id]
                due = [one for one in due if one.id not in found]  # the rest of a long one comes at the next tick
        return any_fed


class _Due(msgspec.Struct, frozen=True):
    """A session with events that were recorded since it was fed."""

    id: str
    fed: _Fed
    seq: int
    ended: bool


def _due(watched: tuple[str, _Fed]) -> _Due | None:
    id, fed = watched
    session = fed.session()
    ended = session is None or session.closed
    seq = fed.seq if session is None else session.seq
    return _Due(id, fed, seq, ended) if ended or seq != fed.seq else None
