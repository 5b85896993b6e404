"""Following a log: its events, then new ones as they are written by any process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from holdfast.errors import NotFound
from holdfast.model import START, Event, LineReader
from holdfast.storage import Store

_WAIT_MIN_S = 0.005
_WAIT_MAX_S = 0.1


class Follower(Iterator[Event], AsyncIterator[Event]):
    """An iterator and async iterator over the events of a session, across processes.

    It never ends by itself while the session exists; ``close()`` ends it, also from another
    thread. It yields complete, verified events only, and recovers from a repair: it goes on with
    the events not yet yielded, or, if the session was erased and created anew, with the first event.
    """

    def __init__(self, store: Store, key: str, start: int = 0) -> None:
        if not store.exists(key):
            raise NotFound(f"there is no session {key.rpartition('/')[2]}", key=key)
        self._store = store
        self._key = key
        self._log = store.log(key)
        self._next = start
        self._position = START
        self._chained = False
        self._generation = self._log.generation()
        # The first event and the newest: another log of the same name has others.
        self._known: list[tuple[int, str, int, Any]] = []
        self._ready: list[Event] = []
        self._closed = False

    def __iter__(self) -> Follower:
        return self

    def __next__(self) -> Event:
        for wait in self._waits():
            self._store.wait(self._key, wait)
        if not self._ready:
            raise StopIteration
        return self._ready.pop()

    def __aiter__(self) -> Follower:
        return self

    async def __anext__(self) -> Event:
        import asyncio

        for wait in self._waits():
            if type(self._store).wait is Store.wait:
                await asyncio.sleep(wait)
            else:
                await asyncio.to_thread(self._store.wait, self._key, wait)
        if not self._ready:
            raise StopAsyncIteration
        return self._ready.pop()

    def _waits(self) -> Iterator[float]:
        """Yield how long to wait for the next event, until there is one or it is over."""
        wait = _WAIT_MIN_S
        while not self._ready and not self._closed and self._poll() and not self._ready:
            yield wait
            wait = min(wait * 2, _WAIT_MAX_S)

    def poll(self) -> list[Event]:
        """Return the events that have come since the last call, without waiting."""
        self._poll()
        ready, self._ready = self._ready[::-1], []
        return ready

    def close(self) -> None:
        """End the iteration."""
        self._closed = True

    def _poll(self) -> bool:
        """Read the new events; return False once the session is gone."""
        size = self._log.size()
        if size == 0 and not self._store.exists(self._key):
            return False
        generation = self._log.generation()
        if generation != self._generation or size < self._position.offset:
            self._begin_again(generation)
        if size > self._position.offset:
            self._read()
        return True

    def _begin_again(self, generation: str) -> None:
        self._generation, self._position, self._chained = generation, START, False
        self._log = self._store.log(self._key)  # it may have been sealed or unsealed since

    def _read(self) -> None:
        # Always from the last complete event on: torn bytes may be cut off and rewritten.
        reader = LineReader(self._position, self._log.unseal, chained=self._chained)
        events: list[Event] = []
        for chunk in self._log.read(self._position.offset):
            events += reader.feed(chunk)
        if reader.damaged and self._position != START and self._is_another():
            # Where a file system reuses the number, only the content shows that it is another log.
            self._begin_again(self._generation)
            self._read()
            return
        if reader.damaged:
            events += reader.finish()
        if self._position == START and _differ(self._known, events):
            self._next, self._known = 0, []
        self._position, self._chained = reader.position, reader.chained
        new = [event for event in events if event.seq >= self._next]
        if events:
            self._known = [*(self._known[:1] or [_mark(events[0])]), _mark(events[-1])]
        if new:
            self._next = new[-1].seq + 1
            self._ready = new[::-1] + self._ready

    def _is_another(self) -> bool:
        """Return whether the log is another one than the one followed until now."""
        log = self._store.log(self._key)  # another log may be sealed differently
        reader = LineReader(START, log.unseal, chained=False)
        events = [event for chunk in log.read() for event in reader.feed(chunk)]
        return _differ(self._known, events + reader.finish())


def _mark(event: Event) -> tuple[int, str, int, Any]:
    """Return what identifies an event of this log; repair and redaction do not change it."""
    log = event.data.get("log") if event.type == "session_start" else None
    return event.seq, event.type, event.timestamp, log


def _differ(known: list[tuple[int, str, int, Any]], events: list[Event]) -> bool:
    """Return whether a known event has been replaced by another; one lost in a repair does not count."""
    seqs = {mark[0] for mark in known}
    found = [_mark(event) for event in events if event.seq in seqs and event.type != "repaired"]
    return not set(found) <= set(known)
