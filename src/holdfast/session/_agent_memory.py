"""The memory of an agent that outlives its sessions: one document, compared and swapped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.errors import Conflict
from holdfast.replay import MemoryEntry
from holdfast.session._agent_documents import (
    MEMORY,
    MemoryDocument,
    read_or_begin,
)
from holdfast.session._clock import Clock, now_ms
from holdfast.storage import Documents

__all__ = ["AgentMemory"]

_TRIES_MAX = 50


class AgentMemory:
    """``agents/<id>/memory.json``: read when first asked for, written when the session is flushed.

    Many changes between two flushes cost one write. Two writers never lose each other's entries:
    what is on disk is read again and only one's own changes are put over it. A document that cannot
    be read is set aside and told; what is remembered then begins anew.
    """

    def __init__(
        self, documents: Documents, clock: Clock = now_ms, *, read_only: bool = False
    ) -> None:
        self._documents = documents
        self._clock = clock
        self.read_only = read_only
        self.tell: Callable[[str], None] = _tell_nobody
        """Who is told of a document that was damaged."""
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
                self._documents.put(MEMORY, msgspec.json.encode(document), if_match=etag)
            except Conflict:
                continue
            return
        raise Conflict(f"{MEMORY} kept changing while it was written")

    def _read(self) -> tuple[MemoryDocument, str]:
        return read_or_begin(
            self._documents, MEMORY, MemoryDocument, self.tell, mend=not self.read_only
        )


def _put_over(entries: dict[str, MemoryEntry], changes: dict[str, MemoryEntry | None]) -> None:
    for key, entry in changes.items():
        if entry is None:
            entries.pop(key, None)
        else:
            entries[key] = entry


def _tell_nobody(_what: str) -> None:
    """Until a session has it."""
