"""The interface of a backend of your own, and how it is called."""

from __future__ import annotations

import asyncio
import inspect
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from typing import Any, Protocol

import msgspec

from holdfast.errors import HoldfastError, TooNew, Unavailable
from holdfast.storage import Capabilities, Documents, Log, MemoryDocuments, MemoryLog, MemoryStore, check_key

_ODD = "base64:"  # no line of JSON begins so


class AgentStorage(Protocol):
    """The methods of a backend for the state of one agent; each may be a coroutine function."""

    def save(self, state: dict[str, Any]) -> Any:
        """Store a document of plain JSON values, replacing the previous one."""

    def load(self) -> Any:
        """Return the document as it was saved; None if there is none."""

    def exists(self) -> Any:
        """Return whether there is a document."""

    def delete(self) -> Any:
        """Remove the document."""

    def path(self) -> str:
        """Return where a person would look for it."""

    def last_modified(self) -> Any:
        """Return when it was last saved, as a ``datetime``; None if it never was."""


class EventStorage(Protocol):
    """The methods of a backend for events; each may be a coroutine function."""

    def append(self, session_id: str, event: str) -> Any:
        """Add one event, a line of JSON, at the end of a session's."""

    def read(self, session_id: str) -> Any:
        """Return the events of a session in their order, as they were given; empty if none."""

    def exists(self, session_id: str) -> Any:
        """Return whether a session has events."""


def call(method: Callable[..., Any], *arguments: Any) -> Any:
    """Call a method of a backend and wait for what it gives, also if it is a coroutine function.

    Raises Unavailable for whatever it raises. Stores are called from any thread, also from that of
    an event loop, so a coroutine gets a loop of its own.
    """
    try:
        found = method(*arguments)
        return _finish(found) if inspect.isawaitable(found) else found
    except HoldfastError:
        raise
    except Exception as error:
        name = getattr(method, "__qualname__", "the storage")
        raise Unavailable(f"{name} failed: {type(error).__name__}: {error}") from error


def _finish(found: Awaitable[Any]) -> Any:
    async def wait() -> Any:
        return await found

    # The caller may be on an event loop, where a second one cannot run.
    with ThreadPoolExecutor(1, "holdfast-backend") as pool:
        return pool.submit(asyncio.run, wait()).result()


def as_text(data: bytes) -> str:
    """Return bytes as a JSON string; bytes that are text stay readable."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _ODD + b64encode(data).decode()


def as_bytes(text: str) -> bytes:
    """Return the bytes of a string made by :func:`as_text`."""
    return b64decode(text.removeprefix(_ODD)) if text.startswith(_ODD) else text.encode()


# A store of an object that saves and loads one document.
VERSION = 1


class DocumentStore(MemoryStore):
    """All that one agent has, in one document of a backend with the six methods.

    The document is read when the store is made and saved, whole, at every flush: what was appended
    since then ends with the process. Made for an agent whose state is small; a session that grows
    is better kept in a store that appends.
    """

    url = "document:"
    capabilities = Capabilities(syncs=True, archives=True, unique=True)

    def __init__(self, backend: AgentStorage) -> None:
        super().__init__()
        self._backend = backend
        self._pool = ThreadPoolExecutor(1, "holdfast-document")
        if call(backend.exists):
            state = call(backend.load) or {}
            version = state.get("version")
            if version != VERSION:
                raise TooNew(f"the saved state has version {version!r}; this release knows {VERSION}")
            for key, kept in state["keys"].items():
                shelf = self.shelf(key)
                shelf.log = None if kept["log"] is None else bytearray(as_bytes(kept["log"]))
                shelf.documents = {name: as_bytes(data) for name, data in kept["documents"].items()}
                shelf.generation, shelf.epoch = kept["generation"], kept["epoch"]
                shelf.modified = kept["modified"]

    def log(self, key: str) -> Log:
        """Return the key's log, which is saved with everything else."""
        return _DocumentLog(self, check_key(key))

    def documents(self, key: str) -> Documents:
        """Return the key's documents, which are saved with everything else."""
        return _SavedDocuments(self, check_key(key))

    def sync(self, logs: Mapping[str, Log]) -> Future[None]:
        """Save on a thread of the store's own."""
        return self._pool.submit(_sync_all, [*logs.values()])

    def close(self) -> None:
        """End the thread; the backend is the caller's."""
        self._pool.shutdown()

    def move(self, key: str, to: str) -> None:
        """Move the key to another name."""
        super().move(key, to)
        self.save()

    def drop(self, key: str) -> None:
        """Forget the key; the document goes with the last one."""
        super().drop(key)
        # A backend that is asked whether it has something must say no once all is gone.
        if any(shelf.has_content() for shelf in self._shelves.values()):
            self.save()
        else:
            call(self._backend.delete)

    def location(self, key: str) -> str:
        """Return the place of the document, as the backend reports it."""
        return f"{call(self._backend.path)}#{check_key(key)}"

    def last_modified(self) -> datetime | None:
        """Return the time when the document was last saved, as reported by the backend."""
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


class _DocumentLog(MemoryLog):
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


class _SavedDocuments(MemoryDocuments):
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


# A store of an object that appends and reads events.
JOURNAL = "~store"  # under this id the backend keeps what is no event: documents, and where each key's log is
_DERIVED = "snapshots/"


class EventStore(MemoryStore):
    """Sessions in a backend with three methods.

    An event is with the backend when ``append`` returns, and as safe as the backend makes it. One that can only
    append cannot forget: what is deleted or repaired is left behind in it under the old id. One process at a time.
    """

    url = "events:"

    def __init__(self, backend: EventStorage, *, survives_kill: bool = False) -> None:
        super().__init__()
        self.capabilities = Capabilities(survives_kill=survives_kill, archives=True, unique=True)
        self._backend = backend
        self._ids: dict[str, str | None] = {}
        self._used = {JOURNAL}
        for line in self._read(JOURNAL):
            # Take in what an earlier process noted.
            note = msgspec.json.decode(line)
            key = note["key"]
            if "id" in note:
                self._take(key, note["id"])
            elif "to" in note:
                shelf, id = self._shelves.pop(key, None), self._ids.get(key)
                self._ids[key] = None
                if note["to"] is not None and shelf is not None:
                    self._put(note["to"], shelf)
                    self._ids[note["to"]] = id
            elif note["data"] is None:
                self.shelf(key).documents.pop(note["name"], None)
            else:
                self.shelf(key).documents[note["name"]] = as_bytes(note["data"])

    def log(self, key: str) -> Log:
        """Return the key's log, whose events are with the backend."""
        return _EventLog(self, check_key(key))

    def documents(self, key: str) -> Documents:
        """Return the key's documents, which are noted in the journal."""
        return _NotedDocuments(self, check_key(key))

    def peek(self, key: str) -> Any:
        """Return the data of a key, loaded from the backend when first asked for."""
        with self.guard:
            if key not in self._ids:
                id = key.rpartition("/")[2] if key.startswith("sessions/") else JOURNAL
                # An id that another key has used holds that key's events.
                found = id not in self._used and call(self._backend.exists, id)
                self._take(key, id if found else None)
            return super().peek(key)

    def shelf(self, key: str) -> Any:
        """Return the data of a key, created if there is none."""
        self.peek(key)
        return super().shelf(key)

    def move(self, key: str, to: str) -> None:
        """Move the key to another name; its events stay where they are."""
        super().move(key, to)
        self.note(key=key, to=to)
        self._ids[to], self._ids[key] = self._ids.get(key), None

    def drop(self, key: str) -> None:
        """Forget the key."""
        super().drop(key)
        self.note(key=key, to=None)
        self._ids[key] = None

    def scrub(self) -> list[str]:
        """Tell that a backend which only appends keeps what was removed."""
        return ["the event storage can only append: what was removed is still in it"]

    def add(self, key: str, lines: bytes, *, anew: bool = False) -> None:
        """Hand lines of a key's log to the backend: those after the others, or all of it anew."""
        known = None if anew else self._ids.get(key)
        id = known or self._free_id(key)
        for line in lines.removesuffix(b"\n").split(b"\n"):
            call(self._backend.append, id, as_text(line))
        if known is None:
            self._used.add(id)
            self.note(key=key, id=id)
            self._ids[key] = id

    def _free_id(self, key: str) -> str:
        base = key.rpartition("/")[2] if key.startswith("sessions/") else key.replace("/", "~")
        id, count = base, 1
        # Data that was cut or replaced stays in the backend under the old id: a new one is needed.
        while id in self._used or call(self._backend.exists, id):
            count += 1
            id = f"{base}~{count}"
        return id

    def note(self, **what: Any) -> None:
        """Record in the journal what is no event."""
        call(self._backend.append, JOURNAL, msgspec.json.encode(what).decode())

    def _take(self, key: str, id: str | None) -> None:
        self._ids[key] = id
        if id is not None:
            self._used.add(id)
            super().shelf(key).log = bytearray(b"".join(line + b"\n" for line in self._read(id)))

    def _read(self, id: str) -> list[bytes]:
        found = call(self._backend.read, id) if call(self._backend.exists, id) else ()
        return [as_bytes(one) if isinstance(one, str) else msgspec.json.encode(one) for one in found]


class _EventLog(MemoryLog):
    _store: EventStore

    def append(self, data: bytes, first_seq: int, count: int, epoch: int) -> None:
        # The backend first: what it refuses must not be here either.
        self._store.add(self._key, data)
        super().append(data, first_seq, count, epoch)

    def cut(self, offset: int, epoch: int) -> None:
        super().cut(offset, epoch)
        self._store.add(self._key, b"".join(self.read()), anew=True)

    def replace(self, chunks: Iterable[bytes], epoch: int) -> None:
        super().replace(chunks, epoch)
        self._store.add(self._key, b"".join(self.read()), anew=True)


class _NotedDocuments(MemoryDocuments):
    _store: EventStore

    def put(self, name: str, data: bytes, *, if_match: str | None = None, sync: bool = True) -> str:
        etag = super().put(name, data, if_match=if_match, sync=sync)
        if not name.startswith(_DERIVED):
            self._store.note(key=self._key, name=name, data=as_text(data))
        return etag

    def delete(self, name: str) -> bool:
        found = super().delete(name)
        if found and not name.startswith(_DERIVED):
            self._store.note(key=self._key, name=name, data=None)
        return found
