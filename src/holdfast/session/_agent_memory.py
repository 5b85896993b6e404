"""The memory of an agent that outlives its sessions: one document, compared and swapped."""

from __future__ import annotations

import threading
from typing import Any

import msgspec

from holdfast.errors import Conflict, Damaged
from holdfast.replay import MemoryEntry
from holdfast.session._clock import Clock, now_ms
from holdfast.session._unsealed import check_unsealed
from holdfast.storage import MUST_NOT_EXIST, Documents

__all__ = ["AgentMemory"]

_NAME = "memory.json"
_TRIES_MAX = 50


class _Document(msgspec.Struct):
    version: int = 1
    entries: dict[str, MemoryEntry] = {}


_decode = msgspec.json.Decoder(_Document).decode


class AgentMemory:
    """``agents/<id>/memory.json``: read when first asked for, written when the session is flushed.

    Many changes between two flushes cost one write. Two writers never lose each other's entries:
    what is on disk is read again and only one's own changes are put over it.
    """

    def __init__(self, documents: Documents, clock: Clock = now_ms) -> None:
        self._documents = documents
        self._clock = clock
        self._lock = threading.Lock()
        self._changes: dict[str, MemoryEntry | None] = {}
        """Not written yet: an entry that was set, or None for one that was forgotten."""

    @property
    def is_dirty(self) -> bool:
        """Whether something is waiting to be written."""
        return bool(self._changes)

    def entries(self) -> dict[str, MemoryEntry]:
        """What the agent remembers now."""
        stored = self._read()[0].entries
        with self._lock:
            _put_over(stored, self._changes)
        return stored

    def set(self, data: dict[str, Any]) -> None:
        """Remember one entry, given as the data of a ``memory_set`` event."""
        now = self._clock()
        old = self.entries().get(data["key"])
        entry = MemoryEntry(
            key=data["key"],
            description=data["description"],
            raw=msgspec.Raw(msgspec.json.encode(data["value"])),
            scope=data["scope"],
            size_bytes=data["sizeBytes"],
            priority=data["priority"],
            pinned=data["pinned"],
            created_at=now if old is None else old.created_at,
            updated_at=now,
        )
        with self._lock:
            self._changes[entry.key] = entry

    def delete(self, key: str) -> bool:
        """Forget one entry; whether there was one."""
        if key not in self.entries():
            return False
        with self._lock:
            self._changes[key] = None
        return True

    def flush(self) -> None:
        """Write what is waiting. Durable when it returns."""
        with self._lock:
            changes = dict(self._changes)
        if not changes:
            return
        self._write(changes)
        with self._lock:
            for key, entry in changes.items():
                if self._changes.get(key) is entry:
                    del self._changes[key]

    def _write(self, changes: dict[str, MemoryEntry | None]) -> None:
        for _ in range(_TRIES_MAX):
            document, etag = self._read()
            _put_over(document.entries, changes)
            try:
                self._documents.put(_NAME, msgspec.json.encode(document), if_match=etag)
            except Conflict:
                continue
            return
        raise Conflict(f"{_NAME} kept changing while it was written")

    def _read(self) -> tuple[_Document, str]:
        found = self._documents.get(_NAME)
        if found is None:
            return _Document(entries={}), MUST_NOT_EXIST
        try:
            return _decode(check_unsealed(found[0], _NAME)), found[1]
        except msgspec.DecodeError as error:
            raise Damaged(
                f"{_NAME} is not readable: {error}",
                remedy="Mend or remove the file; the sessions themselves are whole.",
            ) from error


def _put_over(entries: dict[str, MemoryEntry], changes: dict[str, MemoryEntry | None]) -> None:
    for key, entry in changes.items():
        if entry is None:
            entries.pop(key, None)
        else:
            entries[key] = entry
