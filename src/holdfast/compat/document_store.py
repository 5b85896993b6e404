"""A store of an object that saves and loads one document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from typing import Any

from holdfast.compat.backend import AgentStorage, as_bytes, as_text, call
from holdfast.errors import TooNew
from holdfast.storage import (
    Capabilities,
    Documents,
    Log,
    MemoryDocuments,
    MemoryLog,
    MemoryStore,
    check_key,
)

VERSION = 1


class DocumentStore(MemoryStore):
    """All that one agent has, in one document of a backend with the six methods.

    The document is read when the store is made and saved, whole, at every flush: what was appended
    since then ends with the process. Made for an agent whose state is small; a session that grows
    is better kept in a store that appends.
    """

    url = "document:"
    capabilities = Capabilities(syncs=True, archives=True)

    def __init__(self, backend: AgentStorage) -> None:
        super().__init__()
        self._backend = backend
        self._pool = ThreadPoolExecutor(1, "holdfast-document")
        if call(backend.exists):
            self._fill(call(backend.load) or {})

    def log(self, key: str) -> Log:
        """The key's log."""
        return _Log(self, check_key(key))

    def documents(self, key: str) -> Documents:
        """The key's documents."""
        return _Documents(self, check_key(key))

    def sync(self, logs: Mapping[str, Log]) -> Future[None]:
        """Save on a thread of the store's own."""
        return self._pool.submit(_sync_all, [*logs.values()])

    def close(self) -> None:
        """End the thread; the backend is the caller's."""
        self._pool.shutdown()

    def move(self, key: str, to: str) -> None:
        """Under another name."""
        super().move(key, to)
        self.save()

    def drop(self, key: str) -> None:
        """Forget the key; the document goes with the last one."""
        super().drop(key)
        if any(shelf.has_content() for shelf in self._shelves.values()):
            self.save()
        else:
            call(self._backend.delete)

    def location(self, key: str) -> str:
        """Where the backend says that its document is."""
        return f"{call(self._backend.path)}#{check_key(key)}"

    def last_modified(self) -> datetime | None:
        """When the document was last saved, as the backend tells it."""
        found = call(self._backend.last_modified)
        return found if isinstance(found, datetime) else None

    def save(self) -> None:
        """Hand the whole state to the backend."""
        with self.guard:
            keys = {
                key: {
                    "log": None if shelf.log is None else as_text(bytes(shelf.log)),
                    "documents": {name: as_text(data) for name, data in shelf.documents.items()},
                    "generation": shelf.generation,
                    "epoch": shelf.epoch,
                    "modified": shelf.modified,
                }
                for key, shelf in self._shelves.items()
                if shelf.has_content()
            }
            call(self._backend.save, {"version": VERSION, "keys": keys})

    def _fill(self, state: dict[str, Any]) -> None:
        version = state.get("version")
        if version != VERSION:
            raise TooNew(f"the saved state has version {version!r}; this release knows {VERSION}")
        for key, kept in state["keys"].items():
            shelf = self.shelf(key)
            shelf.log = None if kept["log"] is None else bytearray(as_bytes(kept["log"]))
            shelf.documents = {name: as_bytes(data) for name, data in kept["documents"].items()}
            shelf.generation, shelf.epoch = kept["generation"], kept["epoch"]
            shelf.modified = kept["modified"]


class _Log(MemoryLog):
    """A log that is saved with everything else."""

    _store: DocumentStore
    _unsaved = b""

    def append(self, data: bytes, first_seq: int, count: int, epoch: int) -> None:
        super().append(data, first_seq, count, epoch)
        self._unsaved += data

    def sync(self) -> None:
        self._store.save()
        self._unsaved = b""

    def unsaved(self) -> bytes:
        return self._unsaved

    def cut(self, offset: int, epoch: int) -> None:
        super().cut(offset, epoch)
        self._store.save()

    def replace(self, chunks: Iterable[bytes], epoch: int) -> None:
        super().replace(chunks, epoch)
        self._store.save()


class _Documents(MemoryDocuments):
    """Documents that are saved with everything else."""

    _store: DocumentStore

    def put(self, name: str, data: bytes, *, if_match: str | None = None, sync: bool = True) -> str:
        etag = super().put(name, data, if_match=if_match, sync=sync)
        if sync:
            self._store.save()
        return etag

    def delete(self, name: str) -> bool:
        found = super().delete(name)
        if found:
            self._store.save()
        return found


def _sync_all(logs: list[Log]) -> None:
    for log in logs:
        log.sync()
