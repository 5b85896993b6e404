"""Following a log: what is there, then what comes, whoever writes it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from holdfast.errors import NotFound
from holdfast.model import START, Event, LineReader
from holdfast.storage import Store

__all__ = ["Follower"]

_WAIT_MIN_S = 0.005
_WAIT_MAX_S = 0.1


class Follower(Iterator[Event], AsyncIterator[Event]):
    """An iterator and async iterator over the events of a session, across processes.

    It never ends by itself while the session is there; ``close()`` ends it, also from another
    thread. It sees whole, verified events only, and begins again by itself after a repair.
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
        self._ready: list[Event] = []
        self._closed = False

    def __iter__(self) -> Follower:
        return self

    def __next__(self) -> Event:
        wait = _WAIT_MIN_S
        while not self._ready:
            if self._closed or not self._poll():
                raise StopIteration
            if not self._ready:
                self._store.wait(self._key, wait)
                wait = min(wait * 2, _WAIT_MAX_S)
        return self._ready.pop()

    def __aiter__(self) -> Follower:
        return self

    async def __anext__(self) -> Event:
        import asyncio

        wait = _WAIT_MIN_S
        while not self._ready:
            if self._closed or not self._poll():
                raise StopAsyncIteration
            if not self._ready:
                if type(self._store).wait is Store.wait:
                    await asyncio.sleep(wait)
                else:
                    await asyncio.to_thread(self._store.wait, self._key, wait)
                wait = min(wait * 2, _WAIT_MAX_S)
        return self._ready.pop()

    def poll(self) -> list[Event]:
        """The events that have come since the last call, without waiting."""
        self._poll()
        ready, self._ready = self._ready[::-1], []
        return ready

    def close(self) -> None:
        """End the iteration."""
        self._closed = True

    def _poll(self) -> bool:
        """Read what is new; False once the session is gone."""
        size = self._log.size()
        if size == 0 and not self._store.exists(self._key):
            return False
        generation = self._log.generation()
        if generation != self._generation or size < self._position.offset:
            self._generation, self._position, self._chained = generation, START, False
            self._log = self._store.log(self._key)  # it may be sealed now, or no longer
        if size > self._position.offset:
            self._read()
        return True

    def _read(self) -> None:
        # Always from the last whole event on: torn bytes may be cut and written anew.
        reader = LineReader(self._position, self._log.unseal, chained=self._chained)
        events: list[Event] = []
        for chunk in self._log.read(self._position.offset):
            events += reader.feed(chunk)
        if reader.damaged:
            events += reader.finish()
        self._position, self._chained = reader.position, reader.chained
        new = [event for event in events if event.seq >= self._next]
        if new:
            self._next = new[-1].seq + 1
            self._ready = new[::-1] + self._ready
