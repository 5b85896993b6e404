"""The memory of an agent that outlives its sessions: one document, compared and swapped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.errors import Conflict, Damaged
from holdfast.replay import MemoryEntry
from holdfast.session._clock import Clock, now_ms
from holdfast.storage import MUST_NOT_EXIST, Documents

__all__ = ["AgentMemory"]

_NAME = "memory.json"
_TRIES_MAX = 50


class _Document(msgspec.Struct):
    version: int = 1
    entries: dict[str, MemoryEntry] = {}


_decode = msgspec.json.Decoder(_Document).decode


class AgentMemory:
    """``agents/<id>/memory.json``. Two writers never lose each other's entries."""

    def __init__(self, documents: Documents, clock: Clock = now_ms) -> None:
        self._documents = documents
        self._clock = clock

    def entries(self) -> dict[str, MemoryEntry]:
        """What the agent remembers now."""
        return self._read()[0].entries

    def set(self, data: dict[str, Any]) -> None:
        """Remember one entry, given as the data of a ``memory_set`` event."""
        now = self._clock()

        def change(entries: dict[str, MemoryEntry]) -> bool:
            old = entries.get(data["key"])
            entries[data["key"]] = MemoryEntry(
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
            return True

        self._change(change)

    def delete(self, key: str) -> bool:
        """Forget one entry; whether there was one."""
        return self._change(lambda entries: entries.pop(key, None) is not None)

    def _change(self, change: Callable[[dict[str, MemoryEntry]], bool]) -> bool:
        for _ in range(_TRIES_MAX):
            document, etag = self._read()
            if not change(document.entries):
                return False
            try:
                self._documents.put(_NAME, msgspec.json.encode(document), if_match=etag)
            except Conflict:
                continue
            return True
        raise Conflict(f"{_NAME} kept changing while it was written")

    def _read(self) -> tuple[_Document, str]:
        found = self._documents.get(_NAME)
        if found is None:
            return _Document(entries={}), MUST_NOT_EXIST
        try:
            return _decode(found[0]), found[1]
        except msgspec.DecodeError as error:
            raise Damaged(
                f"{_NAME} is not readable: {error}",
                remedy="Mend or remove the file; the sessions themselves are whole.",
            ) from error
