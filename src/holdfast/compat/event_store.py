"""A store of an object that appends and reads events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.compat.backend import EventStorage, as_bytes, as_text, call
from holdfast.storage import (
    Capabilities,
    Documents,
    Log,
    MemoryDocuments,
    MemoryLog,
    MemoryStore,
    check_key,
)

JOURNAL = "~store"
"""Under this id the backend keeps what is no event: documents, and where each key's log is."""
_DERIVED = "snapshots/"


class EventStore(MemoryStore):
    """Sessions in a backend with three methods.

    An event is with the backend when ``append`` returns, and as safe as the backend makes it. One
    that can only append cannot forget: what is deleted or repaired is left behind in it under the
    old id. One process at a time.
    """

    url = "events:"

    def __init__(self, backend: EventStorage, *, survives_kill: bool = False) -> None:
        super().__init__()
        self.capabilities = Capabilities(survives_kill=survives_kill, archives=True)
        self._backend = backend
        self._ids: dict[str, str | None] = {}
        self._used = {JOURNAL}
        for line in self._read(JOURNAL):
            self._replay(msgspec.json.decode(line))

    def log(self, key: str) -> Log:
        """The key's log."""
        return _Log(self, check_key(key))

    def documents(self, key: str) -> Documents:
        """The key's documents."""
        return _Documents(self, check_key(key))

    def peek(self, key: str) -> Any:
        """What a key has, brought from the backend when it is first asked for."""
        with self.guard:
            if key not in self._ids:
                id = key.rpartition("/")[2] if key.startswith("sessions/") else JOURNAL
                found = id not in self._used and call(self._backend.exists, id)
                self._take(key, id if found else None)
            return super().peek(key)

    def shelf(self, key: str) -> Any:
        """What a key has, made if there is nothing yet."""
        self.peek(key)
        return super().shelf(key)

    def move(self, key: str, to: str) -> None:
        """Under another name; the events stay where they are."""
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
        while id in self._used or call(self._backend.exists, id):
            count += 1
            id = f"{base}~{count}"
        return id

    def note(self, **what: Any) -> None:
        """Record in the journal what is no event."""
        call(self._backend.append, JOURNAL, msgspec.json.encode(what).decode())

    def _replay(self, note: dict[str, Any]) -> None:
        """Take in what an earlier process noted."""
        key = note["key"]
        if "id" in note:
            self._take(key, note["id"])
        elif "to" in note:
            shelf, id = self._shelves.pop(key, None), self._ids.get(key)
            self._ids[key] = None
            if note["to"] is not None and shelf is not None:
                self._shelves[note["to"]], self._ids[note["to"]] = shelf, id
        elif note["data"] is None:
            self.shelf(key).documents.pop(note["name"], None)
        else:
            self.shelf(key).documents[note["name"]] = as_bytes(note["data"])

    def _take(self, key: str, id: str | None) -> None:
        self._ids[key] = id
        if id is not None:
            self._used.add(id)
            super().shelf(key).log = bytearray(b"".join(line + b"\n" for line in self._read(id)))

    def _read(self, id: str) -> list[bytes]:
        found = call(self._backend.read, id) if call(self._backend.exists, id) else ()
        return [
            as_bytes(one) if isinstance(one, str) else msgspec.json.encode(one) for one in found
        ]


class _Log(MemoryLog):
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


class _Documents(MemoryDocuments):
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
