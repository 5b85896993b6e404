"""The memory store, for the life of the process, and the store that keeps nothing at all."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from holdfast.errors import Conflict, Locked, NotFound
from holdfast.model import fold_id
from holdfast.storage.base import (
    CHUNK_BYTES,
    Capabilities,
    Changes,
    Documents,
    Entry,
    Lease,
    Log,
    Store,
    check_document_name,
    check_key,
    check_prefix,
    clashing,
    etag_of,
    is_session,
    needs_log,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

_stamps = itertools.count(1)


class _Shelf:
    """All data of one key."""

    def __init__(self) -> None:
        self.log: bytearray | None = None
        self.archived = False
        self.generation = 0
        self.modified = 0
        self.changes = 0
        self.stamp = 0
        self.documents: dict[str, bytes] = {}
        self.epoch = 0
        self.holder: MemoryLease | None = None

    def touch(self) -> None:
        self.modified = time.time_ns() // 1_000_000
        self.changes += 1
        self.stamp = next(_stamps)
        self.archived = False

    def entry(self, key: str) -> Entry | None:
        if self.log is None:
            return None
        return Entry(key, len(self.log), self.modified, f"{self.generation}-{self.changes}")

    def has_content(self) -> bool:
        return self.log is not None or bool(self.documents)

    def check_free(self, key: str) -> None:
        if self.holder is not None:
            raise Locked(
                f"{key} is open for writing in this process",
                session_id=key.rpartition("/")[2],
                pid=os.getpid(),
                host=os.uname().nodename,
            )


class MemoryStore(Store):
    """Keys in a dict, for the life of the process. Its archive is a mark, for testing what is built on top."""

    capabilities = Capabilities(archives=True, unique=True)
    url = "memory:"

    def __init__(self) -> None:
        self._shelves: dict[str, _Shelf] = {}
        # Keys with capitals by their folded form: another key can clash only with one of them.
        self._spelt: dict[str, set[str]] = {}
        self._gone: dict[str, int] = {}
        self.guard = threading.RLock()

    def log(self, key: str) -> Log:
        return MemoryLog(self, check_key(key))

    def documents(self, key: str) -> Documents:
        return MemoryDocuments(self, check_key(key))

    def lease(self, key: str) -> Lease:
        return MemoryLease(self, check_key(key))

    def exists(self, key: str) -> bool:
        return self.entry(key) is not None

    def clash(self, key: str) -> str | None:
        return next((other for other in self._others(check_key(key)) if self.exists(other)), None)

    def check_unique(self, key: str, besides: str = "") -> None:
        """Raise InvalidId if a session that differs only by case exists or is being created."""
        for other in self._others(key) if is_session(key) else ():
            shelf = self.peek(other)
            if other != besides and shelf is not None and (shelf.log is not None or shelf.holder is not None):
                raise clashing(key, other)

    def _others(self, key: str) -> list[str]:
        with self.guard:
            folded = fold_id(key)
            return [other for other in (folded, *self._spelt.get(folded, ())) if other != key]

    def _put(self, key: str, shelf: _Shelf) -> _Shelf:
        self._shelves[key] = shelf
        if (folded := fold_id(key)) != key:
            self._spelt.setdefault(folded, set()).add(key)
        return shelf

    def sync(self, logs: Mapping[str, Log]) -> Future[None]:
        """Succeed at once: memory has no medium."""
        from concurrent.futures import Future

        result: Future[None] = Future()
        result.set_result(None)
        return result

    def entries(self, prefix: str = "sessions/") -> Iterator[Entry]:
        check_prefix(prefix)
        with self.guard:
            shelves = [(key, s) for key, s in self._shelves.items() if key.startswith(prefix)]
        for key, shelf in shelves:
            entry = None if "/" in key[len(prefix) :] else shelf.entry(key)
            if entry is not None:
                yield entry

    def entry(self, key: str) -> Entry | None:
        shelf = self.peek(check_key(key))
        return None if shelf is None else shelf.entry(key)

    def changes(self, mark: str, prefix: str = "sessions/") -> Changes:
        """Use the numbers of the changes."""
        check_prefix(prefix)
        with self.guard:
            now = next(_stamps)
            name, _, stamp = mark.partition("-")
            if name != str(id(self)) or not stamp.isdecimal():
                return Changes(f"{id(self)}-{now}", None, listed=True)
            stamps = {key: shelf.stamp for key, shelf in self._shelves.items()}
            keys = [key for key, when in (self._gone | stamps).items() if when > int(stamp)]
        found = frozenset(key for key in keys if key.startswith(prefix))
        return Changes(f"{id(self)}-{now}", found, listed=False)

    def folders(self, prefix: str = "sessions/") -> dict[str, str]:
        check_prefix(prefix)
        with self.guard:
            return {
                key: ""
                for key, shelf in self._shelves.items()
                if key.startswith(prefix) and "/" not in key[len(prefix) :] and shelf.has_content()
            }

    def move(self, key: str, to: str) -> None:
        check_key(to)
        with self.guard:
            shelf = self._free(key)
            other = self.peek(to)
            if other is not None:
                if other.log is not None or (other.has_content() and not needs_log(to)):
                    raise Conflict(f"{to} is taken")
                other.check_free(to)
            self.check_unique(to, key)
            self._put(to, shelf)
            shelf.stamp = next(_stamps)
            self.forget(key)

    def drop(self, key: str) -> None:
        with self.guard:
            self._free(key)
            self.forget(key)

    def archive(self, key: str) -> None:
        self._mark(key, archived=True)

    def unarchive(self, key: str) -> None:
        self._mark(key, archived=False)

    def is_archived(self, key: str) -> bool:
        shelf = self.peek(check_key(key))
        return shelf is not None and shelf.archived

    def location(self, key: str) -> str:
        return f"memory:{check_key(key)}"

    def check(self) -> None:
        """Do nothing: memory is always available."""

    def close(self) -> None:
        """Do nothing: nothing is open, and the data stays with the object."""

    def clear(self) -> None:
        with self.guard:
            for key in [*self._shelves]:
                self.forget(key)

    def ids(self) -> list[str]:
        return sorted(entry.key.rpartition("/")[2] for entry in self.entries())

    def count(self) -> int:
        return len(self.ids())

    def shelf(self, key: str) -> _Shelf:
        """Return the data of a key, created if there is none."""
        with self.guard:
            return self._shelves.get(key) or self._put(key, _Shelf())

    def peek(self, key: str) -> _Shelf | None:
        return self._shelves.get(key)

    def _mark(self, key: str, *, archived: bool) -> None:
        with self.guard:
            if not self.exists(key):
                raise NotFound(f"there is no log at {key}")
            self._free(key).archived = archived

    def forget(self, key: str) -> None:
        """Forget a key, even if it is held."""
        del self._shelves[key]
        self._spelt.get(fold_id(key), set()).discard(key)
        self._gone[key] = next(_stamps)

    def _free(self, key: str) -> _Shelf:
        shelf = self.peek(check_key(key))
        if shelf is None or not shelf.has_content():
            raise NotFound(f"no such file or directory: {key}")
        shelf.check_free(key)
        return shelf


class MemoryLog(Log):
    """A byte array."""

    def __init__(self, store: MemoryStore, key: str) -> None:
        self._store = store
        self._key = key

    def append(self, data: bytes, first_seq: int, count: int, epoch: int) -> None:
        with self._store.guard:
            shelf = self._store.shelf(self._key)
            if shelf.log is None:
                shelf.log = bytearray()
            shelf.log += data
            shelf.touch()

    def sync(self) -> None:
        """Do nothing: memory has no medium."""

    def read(self, start: int = 0) -> Iterator[bytes]:
        while chunk := self._bytes(start, start + CHUNK_BYTES):
            yield chunk
            start += len(chunk)

    def size(self) -> int:
        shelf = self._store.peek(self._key)
        return len(shelf.log or b"") if shelf else 0

    def cut(self, offset: int, epoch: int) -> None:
        with self._store.guard:
            torn = self._bytes(offset, self.size())
            if torn:
                shelf = self._store.shelf(self._key)
                shelf.documents[f"quarantine/torn-{offset}-{etag_of(torn)[:8]}"] = torn
                shelf.log = bytearray(self._bytes(0, offset))
                shelf.touch()

    def replace(self, chunks: Iterable[bytes], epoch: int) -> None:
        """Put a new array in place; the old one is kept as a document."""
        new = bytearray(b"".join(chunks))
        with self._store.guard:
            shelf = self._store.shelf(self._key)
            if shelf.log is not None:
                shelf.documents[f"quarantine/generation-{shelf.generation}"] = bytes(shelf.log)
            shelf.log = new
            shelf.generation += 1
            shelf.touch()

    def generation(self) -> str:
        shelf = self._store.peek(self._key)
        return str(shelf.generation) if shelf and shelf.log is not None else ""

    def unsaved(self) -> bytes:
        """Return nothing: memory has no medium, so nothing is ever unsaved."""
        return b""

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def _bytes(self, start: int, stop: int) -> bytes:
        shelf = self._store.peek(self._key)
        # A slice rather than a view: a view would block a writer from extending the array.
        return bytes((shelf.log or b"")[start:stop]) if shelf else b""


class MemoryDocuments(Documents):
    """A dict of bytes."""

    def __init__(self, store: MemoryStore, key: str) -> None:
        self._store = store
        self._key = key

    def put(self, name: str, data: bytes, *, if_match: str | None = None, sync: bool = True) -> str:
        check_document_name(name)
        with self._store.guard:
            documents = self._store.shelf(self._key).documents
            old = documents.get(name)
            etag = "" if old is None else etag_of(old)
            if if_match is not None and if_match != etag:
                raise Conflict(f"{name} is not what it was", etag=etag)
            documents[name] = bytes(data)
        return etag_of(data)

    def get(self, name: str) -> tuple[bytes, str] | None:
        check_document_name(name)
        shelf = self._store.peek(self._key)
        data = shelf.documents.get(name) if shelf else None
        return None if data is None else (data, etag_of(data))

    def names(self, prefix: str = "") -> list[str]:
        shelf = self._store.peek(self._key)
        return sorted(name for name in [*shelf.documents] if name.startswith(prefix)) if shelf else []

    def delete(self, name: str) -> bool:
        check_document_name(name)
        shelf = self._store.peek(self._key)
        return bool(shelf and shelf.documents.pop(name, None) is not None)


class MemoryLease(Lease):
    """One holder at a time."""

    def __init__(self, store: MemoryStore, key: str) -> None:
        self._store = store
        self._key = key
        self._shelf: _Shelf | None = None

    def acquire(self, owner: str, ttl_ms: int) -> int:
        with self._store.guard:
            shelf = self._store.shelf(self._key)
            if shelf.holder is not self:
                shelf.check_free(self._key)
                if shelf.log is None:
                    self._store.check_unique(self._key)
                shelf.epoch += 1
            shelf.holder = self
            self._shelf = shelf
            return shelf.epoch

    def renew(self, ttl_ms: int) -> None:
        """Do nothing: it does not expire."""

    def release(self) -> None:
        with self._store.guard:
            if self._shelf is not None and self._shelf.holder is self:
                self._shelf.holder = None
            self._shelf = None


# The store that keeps nothing: sessions work as in memory, and are forgotten when closed.
class NoStore(MemoryStore):
    """Holds what is in use, then forgets it: a session with its lease, everything else when it is closed.

    While a session is open everything is in it, so that agents need no other code path; after that
    it never existed.
    """

    capabilities = Capabilities(stores=False, unique=True)
    url = "none:"

    def lease(self, key: str) -> Lease:
        """Return the key's lease; releasing it removes the key's data."""
        return _PassingLease(self, check_key(key))

    def branch(self, key: str, to: str, size: int, *, documents: Mapping[str, bytes] | None = None) -> None:
        """Refuse: there would be nothing to continue with."""
        check_key(to)
        raise NotFound(
            f"{check_key(key)} is in no store, so that no fork of it can be kept",
            remedy="Open memory: or a path instead of none:, to have something to fork.",
        )

    def location(self, key: str) -> str:
        check_key(key)
        return "none:"

    def close(self) -> None:
        """Forget the rest: the memory of agents."""
        self.clear()


class _PassingLease(MemoryLease):
    """A lease that leaves nothing behind."""

    def release(self) -> None:
        with self._store.guard:
            held = self._shelf
            super().release()
            if held is not None and self._store.peek(self._key) is held:
                self._store.forget(self._key)
