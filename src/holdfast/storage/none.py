"""The store that keeps nothing: sessions work as in memory, and are forgotten when closed."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.errors import NotFound
from holdfast.storage.base import Capabilities, Lease, check_key
from holdfast.storage.memory import MemoryLease, MemoryStore

__all__ = ["NoStore"]


class NoStore(MemoryStore):
    """Holds what is in use, and forgets it: a session with its lease, all else when it is closed.

    Whoever has a session open finds everything in it, so that agents need no other code path; once
    it is closed there never was one.
    """

    capabilities = Capabilities(stores=False)
    url = "none:"

    def lease(self, key: str) -> Lease:
        """The key's lease; with it goes what the key had."""
        return _PassingLease(self, check_key(key))

    def branch(
        self, key: str, to: str, size: int, *, documents: Mapping[str, bytes] | None = None
    ) -> None:
        """Refused: nothing would be there to go on with."""
        check_key(to)
        raise NotFound(
            f"{check_key(key)} is in no store, so that no fork of it can be kept",
            remedy="Open memory: or a path instead of none:, to have something to fork.",
        )

    def location(self, key: str) -> str:
        """Nowhere."""
        check_key(key)
        return "none:"

    def close(self) -> None:
        """Forget the rest: what agents remembered."""
        self.clear()


class _PassingLease(MemoryLease):
    """A lease that leaves nothing behind."""

    def release(self) -> None:
        """Give it back, and forget the key."""
        with self._store.guard:
            held = self._shelf
            super().release()
            if held is not None and self._store.peek(self._key) is held:
                self._store.forget(self._key)
